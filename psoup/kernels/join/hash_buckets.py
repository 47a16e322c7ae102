"""Rows sorted into buckets by a key, and the rows that may have a partner there.

    keys         7 3 7 9                bucket of a key: ((key - base) * factor) >> shift, in 64 bits without a sign
    starts       0 1 1 3 4              bucket b is places starts[b] to starts[b + 1]
    places       row 1 | row 0, row 2 | row 3        rows ascend in a bucket

With factor 1 and shift 0 a bucket has the rows of one key. With an odd factor, which spreads the bits, it has some
keys.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

_ONE, _TWO, _WORD = np.uint64(1), np.uint64(2), np.uint64(63)


@njit(cache=True, nogil=True)
def fill_buckets(keys, rows, base, factor, shift, starts, bucket_rows, bucket_keys):
    """Sort rows into buckets.

    keys: int64[n]; rows: int32[k], places in them, ascending; read. base, factor, shift: uint64. starts:
    int32[buckets + 2], written: the last is scratch. bucket_rows: int32[k], written; bucket_keys: int64[k], written, or
    of no length: not wanted. No key may be beyond the last bucket. O(k + buckets).
    """
    starts[:] = 0
    for i in range(rows.shape[0]):  # unsigned, or each would be asked whether it counts from the end
        starts[(((np.uint64(keys[np.uint64(rows[i])]) - base) * factor) >> shift) + _TWO] += 1
    sum_before = np.int32(0)
    for b in range(2, starts.shape[0]):
        sum_before += starts[b]
        starts[b] = sum_before
    wanted = bucket_keys.shape[0] > 0
    for i in range(rows.shape[0]):
        row = rows[i]
        key = keys[np.uint64(row)]
        b = (((np.uint64(key) - base) * factor) >> shift) + _ONE
        place = starts[b]
        starts[b] = place + 1
        bucket_rows[np.uint64(place)] = row
        if wanted:
            bucket_keys[np.uint64(place)] = key


@njit(cache=True, nogil=True)
def find_buckets(keys, base, factor, shift, starts, begin, end):
    """Give the places of the bucket of each key: begin[i] to end[i], both 0 where there is none.

    Returns how many places in all. keys: int64[n], read; base, factor, shift, starts: of `fill_buckets`. begin, end:
    int32[n], written. O(n).
    """
    buckets, places = np.uint64(starts.shape[0] - 2), np.int64(0)
    for i in range(keys.shape[0]):
        b = ((np.uint64(keys[i]) - base) * factor) >> shift
        begin[i], end[i] = 0, 0
        if b < buckets:
            begin[i], end[i] = starts[np.int64(b)], starts[np.int64(b) + 1]
            places += end[i] - begin[i]
    return places


@njit(cache=True, nogil=True)
def mark_keys(keys, rows, factor, shift, marks):
    """Set the bit of each key: the bit of its hash, (key * factor) >> shift.

    keys: int64[n]; rows: int32[k], places in them; read. factor, shift: uint64. marks: uint64[words], ORed in place.
    O(k).
    """
    for i in range(rows.shape[0]):
        bit = (np.uint64(keys[rows[i]]) * factor) >> shift
        marks[np.int64(bit >> np.uint64(6))] |= np.uint64(1) << (bit & _WORD)


@njit(cache=True, nogil=True)
def keep_marked(keys, rows, factor, shift, marks, out):
    """Write the rows whose key has its bit set to the front of `out`; returns how many.

    As `mark_keys`; out: int32[k], may be `rows` itself. O(k).
    """
    remaining = 0
    for i in range(rows.shape[0]):
        row = rows[i]
        bit = (np.uint64(keys[row]) * factor) >> shift
        out[remaining] = row
        remaining += np.int64((marks[np.int64(bit >> np.uint64(6))] >> (bit & _WORD)) & np.uint64(1))
    return remaining
