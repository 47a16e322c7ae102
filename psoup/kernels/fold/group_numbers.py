"""Keys of groups numbered as they come: each new key gets the next number.

    keys      70 30 70 NULL 30         numbers   0 1 0 2 1          known   70 30 -

    number_near    keys that are not far apart: their numbers lie in an array by key
    number_keys    any keys: their numbers lie in a table with open addressing
    number_texts   texts, by their hashes, and compared byte by byte

`counts` has how many numbers there are, and the number of NULL (-1: none yet). A kernel stops before a row that would
need more numbers than there is room for, and returns that row: the caller makes room, and goes on from there.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner

_ONE, _TWO = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
_HALF, _LESS = np.uint64(32), np.uint64(29)


@inner
def _number_null(group_keys, counts, count):
    """Give NULL the next number, if there is room; returns the count of numbers. Called once, not for each NULL."""
    if count == group_keys.shape[0]:
        return count
    counts[1] = count
    group_keys[count] = 0
    return count + 1


@njit(cache=True, nogil=True)
def number_near(keys, valid, start, base, table, group_keys, counts, numbers):
    """Number keys from a row on; returns the row that it stopped at, n if none.

    keys: int64[n]; valid: uint8[n], or of no length: no key is NULL; read. start: the first row. table: int32[span],
    the numbers of the keys from `base` on, or -1, written; every key lies in it. group_keys: int64[room], the keys by
    number, written. counts: int64[2], written. numbers: int32[n], written from `start` on. O(n).
    """
    every, count = valid.shape[0] == 0, counts[0]
    row = start
    while row < keys.shape[0]:
        if every or valid[row]:
            at = keys[row] - base
            number = table[at]
            if number < 0:
                if count == group_keys.shape[0]:
                    break
                number = np.int32(count)
                table[at] = number
                group_keys[count] = keys[row]
                count += 1
        else:
            if counts[1] < 0:
                count = _number_null(group_keys, counts, count)
                if counts[1] < 0:
                    break
            number = np.int32(counts[1])
        numbers[row] = number
        row += 1
    counts[0] = count
    return row


@njit(cache=True, nogil=True)
def _spread(key, seed):
    """A hash of a key, whose secret is `seed`."""
    state = (np.uint64(key) ^ seed) * _ONE
    state = (state ^ (state >> _HALF)) * _TWO
    return state ^ (state >> _LESS)


@njit(cache=True, nogil=True)
def number_keys(keys, valid, start, seed, table, group_keys, counts, numbers):
    """Number keys from a row on; returns the row that it stopped at, n if none.

    As `number_near`, but table: int32[size], a power of two above the length of `group_keys`, numbers by the hash of
    their keys, or -1. seed: uint64, secret. O(n) expected.
    """
    every, count = valid.shape[0] == 0, counts[0]
    mask = np.uint64(table.shape[0] - 1)
    row = start
    while row < keys.shape[0]:
        if every or valid[row]:
            key = keys[row]
            at = _spread(key, seed) & mask
            number = table[at]
            while number >= 0 and group_keys[number] != key:
                at = (at + np.uint64(1)) & mask
                number = table[at]
            if number < 0:
                if count == group_keys.shape[0]:
                    break
                number = np.int32(count)
                table[at] = number
                group_keys[count] = key
                count += 1
        else:
            if counts[1] < 0:
                count = _number_null(group_keys, counts, count)
                if counts[1] < 0:
                    break
            number = np.int32(counts[1])
        numbers[row] = number
        row += 1
    counts[0] = count
    return row


@njit(cache=True, nogil=True)
def place_keys(group_keys, count, null, seed, table):
    """Put the numbers of keys into an empty table of `number_keys`.

    group_keys: int64[room]; the first `count` are keys, but for the number `null`; read. seed: uint64. table:
    int32[size], all -1, written. O(count) expected.
    """
    mask = np.uint64(table.shape[0] - 1)
    for number in range(count):
        if number != null:
            at = _spread(group_keys[number], seed) & mask
            while table[at] >= 0:
                at = (at + np.uint64(1)) & mask
            table[at] = number


@njit(cache=True, nogil=True)
def number_texts(ends, data, hashes, valid, start, table, group_keys, kept_ends, kept_data, counts, numbers, rows):
    """Number texts from a row on; returns the row that it stopped at, n if none.

    ends: int64[n + 1], data: uint8[bytes], hashes: uint64[n], valid: uint8[n], or of no length; read. table:
    int32[size], a power of two above the length of `group_keys`, numbers by hash, or -1, written. group_keys:
    uint64[room], the hashes by number, written. kept_ends: int64[k + 1], kept_data: uint8[bytes], the texts of the
    first k numbers, read; the texts of later numbers are rows of this part. counts, numbers: as `number_near`. rows:
    int64[room], by number: the row of a text that is not in `texts`, written, -1 for NULL. O(bytes) expected.
    """
    every, count = valid.shape[0] == 0, counts[0]
    kept_count, mask = kept_ends.shape[0] - 1, np.uint64(table.shape[0] - 1)
    row = start
    while row < hashes.shape[0]:
        if not (every or valid[row]):
            if counts[1] < 0:
                count = _number_null(group_keys, counts, count)
                if counts[1] < 0:
                    break
                rows[counts[1]] = -1
            numbers[row] = counts[1]
            row += 1
            continue
        first, size, hashed = ends[row], ends[row + 1] - ends[row], hashes[row]
        at = hashed & mask
        number = table[at]
        while number >= 0:
            if group_keys[number] == hashed:
                same = np.int64(0)
                if number < kept_count:
                    other = kept_ends[number]
                    if kept_ends[number + 1] - other == size:
                        while same < size and kept_data[other + same] == data[first + same]:
                            same += 1
                        if same == size:
                            break
                else:
                    other = ends[rows[number]]
                    if ends[rows[number] + 1] - other == size:
                        while same < size and data[other + same] == data[first + same]:
                            same += 1
                        if same == size:
                            break
            at = (at + np.uint64(1)) & mask
            number = table[at]
        if number < 0:
            if count == group_keys.shape[0]:
                break
            number = np.int32(count)
            table[at] = number
            group_keys[count] = hashed
            rows[count] = row
            count += 1
        numbers[row] = number
        row += 1
    counts[0] = count
    return row


@njit(cache=True, nogil=True)
def place_texts(group_keys, count, null, table):
    """Put the numbers of texts into an empty table of `number_texts`.

    group_keys: uint64[room]; the first `count` are hashes, but for the number `null`; read. table:
    int32[size], all
    -1, written. O(count) expected.
    """
    mask = np.uint64(table.shape[0] - 1)
    for number in range(count):
        if number != null:
            at = group_keys[number] & mask
            while table[at] >= 0:
                at = (at + np.uint64(1)) & mask
            table[at] = number


@njit(cache=True, nogil=True)
def mark_codes(codes, seen):
    """Mark the codes that occur.

    codes: uint16[n], read. seen: uint8[values], 1 written where a code occurs. O(n).
    """
    for i in range(codes.shape[0]):
        seen[codes[i]] = 1


@njit(cache=True, nogil=True)
def map_codes(codes, numbers, out):
    """out[i] = the number of code codes[i].

    codes: uint16[n]; numbers: int32[values]; read. out: int32[n], written. O(n).
    """
    for i in range(codes.shape[0]):
        out[i] = numbers[codes[i]]


@njit(cache=True, nogil=True)
def pair_numbers(left, right, out):
    """out[i] = left[i] in the upper 32 bits, right[i] in the lower ones.

    left, right: int32[n], not negative, read. out: int64[n], written. O(n).
    """
    for i in range(out.shape[0]):
        out[i] = np.int64(left[i]) << 32 | np.int64(right[i])


@njit(cache=True, nogil=True)
def merge_runs(keys, values, adds):
    """Make one of the values of each key, in place: their sum, or the greatest; returns how many keys there are.

    keys: int64[n], ascending; values: int64[n]; written at the front. adds: bool. O(n).
    """
    kept_count = 0
    for i in range(keys.shape[0]):
        if kept_count > 0 and keys[kept_count - 1] == keys[i]:
            if adds:
                values[kept_count - 1] += values[i]
            else:
                values[kept_count - 1] = max(values[kept_count - 1], values[i])
        else:
            keys[kept_count] = keys[i]
            values[kept_count] = values[i]
            kept_count += 1
    return kept_count
