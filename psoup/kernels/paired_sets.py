"""Pairs with equal keys of many pairs of sets of rows: of joins that are answered together.

    sets of the left    0: rows 1 4 7   1: row 4         number 0: sets 0 and 0     pairs 0: (4, 2)
    sets of the right   0: rows 2 3 9                    number 1: sets 1 and 0           1: (4, 2)

Keys are those of whole windows, gathered once; what is made of a right set serves the numbers that follow one another.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.inner import inner
from psoup.kernels.paired import (
    _MARKS,
    _mark,
    _marked,
    _meet_hashes,
    _meet_keys,
    _place_hashes,
    _place_keys,
)

_CLOSE, _CACHED, _LOOKED = 8, 32_768, 2**62
"""Keys have places of their own if these are no more than so many for each row of a set, and no more than so many."""


@inner
def _longest(starts):
    longest = np.int64(0)
    for i in range(starts.shape[0] - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    return longest


@inner
def _bounds(keys, rows):
    least = greatest = keys[rows[0]]
    for i in range(rows.shape[0]):
        key = keys[np.uint64(rows[np.uint64(i)])]
        least, greatest = min(least, key), max(greatest, key)
    return least, greatest


@inner
def _bits(numbers, least):
    """The least count of bits that tells so many numbers apart, and no fewer than `least`."""
    bits = least
    while numbers >> bits:
        bits += 1
    return bits


@njit(cache=True, nogil=True)
def pairs_of_sets(left_of, right_of, left_starts, left_rows, right_starts, right_rows, left_keys, right_keys, out):
    """Write the pairs with equal keys of many pairs of sets: number of the pair of sets, row on the left, on the right.

    left_of, right_of: int64[n], the sets of each number; set i has rows (int64) starts[i] to starts[i + 1] of its side;
    keys: int64, by row; read. out: int32[3, room], written: in the order of numbers, of left rows, and of right rows as
    they stand in their set, with scratch behind them. Returns how many, or -1 if there is no room. O(rows of the sets +
    candidates), expected.
    """
    largest, built, at, own, near = _longest(right_starts), np.int64(-1), np.int64(0), np.int64(0), False
    heads = np.empty(
        max(np.int64(1) << _bits(largest, 4), 2 * largest + 1, min(_CLOSE * largest, _CACHED) + 1), np.int32
    )
    following, marks = (
        np.empty(largest + 1, np.int32),
        np.empty(np.int64(1) << (_bits(_MARKS * largest, 6) - 6), np.uint64),
    )
    some, least, shift, marked = np.empty(_longest(left_starts), np.int64), np.int64(0), np.uint64(0), np.uint64(0)
    for number in range(left_of.shape[0]):
        right = right_rows[right_starts[right_of[number]] : right_starts[right_of[number] + 1]]
        rows = left_rows[left_starts[left_of[number]] : left_starts[left_of[number] + 1]]
        count = right.shape[0]
        if count == 0 or rows.shape[0] == 0:
            continue
        if built != right_of[number]:
            built = right_of[number]
            least, greatest = _bounds(right_keys, right)
            apart, close = np.uint64(greatest) - np.uint64(least), max(2 * count, min(_CLOSE * count, _CACHED))
            near = apart <= np.uint64(close)
            if near:
                own = np.int64(apart) + 1
                _place_keys(right_keys, right, least, heads[:own], following)
            else:
                bits = _bits(_MARKS * count, 6)
                marked = np.uint64(64 - bits)
                _mark(right_keys, right, marked, marks[: 1 << (bits - 6)])
                bits = _bits(count, 4)
                own, shift = np.int64(1) << bits, np.uint64(64 - bits)
                _place_hashes(right_keys, right, heads[:own], following, shift)
        left, partners = out[1, at:], out[2, at:]
        if near:
            pairs = _meet_keys(left_keys, rows, right, least, heads[:own], following, left, partners)
        else:
            rows = some[: _marked(left_keys, rows, marked, marks, some)]
            pairs = _meet_hashes(
                left_keys, rows, right_keys, right, heads[:own], following, shift, _LOOKED, left, partners
            )
        if pairs < 0:
            return np.int64(-1)
        out[0, at : at + pairs] = number
        at += pairs
    return at
