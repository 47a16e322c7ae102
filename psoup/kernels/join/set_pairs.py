"""Pairs with equal keys of many pairs of sets of rows: of joins that are answered together.

    sets of the left    0: rows 1 4 7   1: row 4         number 0: sets 0 and 0     pairs 0: (4, 2)
    sets of the right   0: rows 2 3 9                    number 1: sets 1 and 0           1: (4, 2)

The keys of whole windows are gathered once. The table of a right set serves all numbers that follow one another.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner
from psoup.kernels.join.small_pairs import (
    _MARKS,
    _mark,
    _marked,
    _meet_hashes,
    _meet_keys,
    _place_hashes,
    _place_keys,
)

_CLOSE, _CACHED, _LOOKED = 8, 32_768, 2**62
"""Most places for keys, for each row of a set and in all; with more, keys are hashed. Most places looked at."""
_NARROW, _FAR = np.uint64(2**31 - 1), np.uint64(2**64 - 1)


@inner
def _longest(starts):
    longest = np.int64(0)
    for i in range(starts.shape[0] - 1):
        longest = max(longest, starts[i + 1] - starts[i])
    return longest


@inner
def _bounds(keys, rows):
    minimum = maximum = np.int64(keys[rows[0]])
    for i in range(rows.shape[0]):
        key = np.int64(keys[np.uint64(rows[np.uint64(i)])])
        minimum, maximum = min(minimum, key), max(maximum, key)
    return minimum, maximum


@inner
def _bits(numbers, minimum):
    """The least count of bits that tells so many numbers apart, and no fewer than `minimum`."""
    bits = minimum
    while numbers >> bits:
        bits += 1
    return bits


@njit(cache=True, nogil=True)
def _narrowed(keys, minimum, span):
    """Keys from `minimum` to `minimum` + span as int32 from 0 on; -1 for any other key."""
    narrow = np.empty(keys.shape[0], np.int32)
    for i in range(keys.shape[0]):
        apart = np.uint64(keys[i]) - np.uint64(minimum)
        narrow[i] = np.int32(apart) if apart <= span else np.int32(-1)
    return narrow


@njit(cache=True, nogil=True)
def pairs_of_sets(left_of, right_of, left_starts, left_rows, right_starts, right_rows, left_keys, right_keys, out):
    """Write the pairs with equal keys of many pairs of sets: number of the pair of sets, row on the left, on the right.

    left_of, right_of: int64[n], the sets of each number; set i has rows (int32) starts[i] to starts[i + 1] of its side;
    keys: int64, by row; read. out: int32[3, room], written: in the order of numbers, of left rows, and of right rows as
    they stand in their set, with scratch behind them. Returns how many, or -1 without room. O(rows of the sets +
    candidates), expected. A set of a tenth of a window touches nearly all lines of its keys: narrow ones are half.
    """
    sets = left_of, right_of, left_starts, left_rows, right_starts, right_rows
    if left_keys.shape[0] and right_keys.shape[0]:
        minimum, maximum = right_keys.min(), right_keys.max()
        span = np.uint64(maximum) - np.uint64(minimum)
        if span < _NARROW:
            near_left, near_right = _narrowed(left_keys, minimum, span), _narrowed(right_keys, minimum, span)
            return _pairs_of_sets(sets, near_left, near_right, span, out)
    return _pairs_of_sets(sets, left_keys, right_keys, _FAR, out)


@njit(cache=True, nogil=True)
def _pairs_of_sets(sets, left_keys, right_keys, span, out):
    """As `pairs_of_sets`; all keys of the right side are from 0 to `span`, or that is _FAR."""
    left_of, right_of, left_starts, left_rows, right_starts, right_rows = sets
    largest, built, at, head_count, near = _longest(right_starts), np.int64(-1), np.int64(0), np.int64(0), False
    heads = np.empty(
        max(np.int64(1) << _bits(largest, 4), 2 * largest + 1, min(_CLOSE * largest, _CACHED) + 1), np.int32
    )
    following, marks = (
        np.empty(largest + 1, np.int32),
        np.empty(np.int64(1) << (_bits(_MARKS * largest, 6) - 6), np.uint64),
    )
    some, minimum, shift, marked = np.empty(_longest(left_starts), np.int32), np.int64(0), np.uint64(0), np.uint64(0)
    for number in range(left_of.shape[0]):
        right = right_rows[right_starts[right_of[number]] : right_starts[right_of[number] + 1]]
        rows = left_rows[left_starts[left_of[number]] : left_starts[left_of[number] + 1]]
        count = right.shape[0]
        if count == 0 or rows.shape[0] == 0:
            continue
        if built != right_of[number]:
            built = right_of[number]
            apart, close = span, np.uint64(max(2 * count, min(_CLOSE * count, _CACHED)))
            minimum = np.int64(0)
            if apart > close:
                minimum, maximum = _bounds(right_keys, right)
                apart = np.uint64(maximum) - np.uint64(minimum)
            near = apart <= close
            if near:
                head_count = np.int64(apart) + 1
                _place_keys(right_keys, right, minimum, heads[:head_count], following)
            else:
                bits = _bits(_MARKS * count, 6)
                marked = np.uint64(64 - bits)
                _mark(right_keys, right, marked, marks[: 1 << (bits - 6)])
                bits = _bits(count, 4)
                head_count, shift = np.int64(1) << bits, np.uint64(64 - bits)
                _place_hashes(right_keys, right, heads[:head_count], following, shift)
        left, partners = out[1, at:], out[2, at:]
        if near:
            pairs = _meet_keys(left_keys, rows, right, minimum, heads[:head_count], following, left, partners)
        else:
            rows = some[: _marked(left_keys, rows, marked, marks, some)]
            pairs = _meet_hashes(
                left_keys, rows, right_keys, right, heads[:head_count], following, shift, _LOOKED, left, partners
            )
        if pairs < 0:
            return np.int64(-1)
        out[0, at : at + pairs] = number
        at += pairs
    return at
