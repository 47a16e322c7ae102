"""Pairs of rows that were found by a hash, or by one key of several: those that satisfy the other factors, too.

    pairs     (0, 4) (0, 9) (3, 4)      as they were found, in this order
    keys      5 8 | 5 7                 equal, or as far apart as a band lets them be
    texts     where each lies, and its bytes: a hash finds it, the bytes decide

Kept pairs move to the front, in their order.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner
from psoup.kernels.rows.batch_body import PARTS, _bytes, _longs, _nth

_U8, _U32 = np.uint64(8), np.uint64(32)
_SPREADING = np.uint64(0x9E37_79B9_7F4A_7C15)


@inner
def _word(data, at, size):
    """Up to eight bytes as a little-endian number."""
    word = np.uint64(0)
    if size >= _U8:
        for k in range(8):
            word |= np.uint64(data[at + np.uint64(k)]) << np.uint64(8 * k)
        return word
    for k in range(size):
        word |= np.uint64(data[at + k]) << np.uint64(_U8 * k)
    return word


@inner
def _hash(data, start, size):
    state, at, left = np.uint64(size) * _SPREADING, np.uint64(start), np.uint64(size)
    while left > np.uint64(0):
        state = (state ^ _word(data, at, left)) * _SPREADING
        state ^= state >> _U32
        step = min(left, _U8)
        at, left = at + step, left - step
    return np.int64(state * _SPREADING)


@njit(cache=True, nogil=True)
def gather_texts(column, sources, stride, rows, stops, keys, places, sizes, text_rows):
    """Write a hash of each text of a column, its address and its bytes; returns how many rows are not NULL.

    column, sources, stride, rows, stops: as in `gather`, read. keys, places: int64[k], sizes: int32[k], written,
    arbitrary for NULLs. text_rows: int32[k]; the positions of the rows that are not NULL are written to its front.
    O(bytes).
    """
    count, start, nth = np.int64(0), np.int64(0), PARTS * _nth(column, stride)
    for part in range(stops.shape[0]):
        stop, first = stops[part], part * stride + nth
        if start < stop:
            ends, text = _longs(sources[first], rows[stop - 1] + 2), sources[first + 2]
            data = _bytes(text, ends[rows[stop - 1] + 1])
            flags, nullable = _bytes(sources[first + 1], rows[stop - 1] + 1), sources[first + 1] != 0
            for i in range(start, stop):
                low, size = ends[rows[i]], ends[rows[i] + 1] - ends[rows[i]]
                keys[i], places[i], sizes[i] = _hash(data, low, size), text + low, size
                text_rows[count] = i
                count += np.int64(not nullable or flags[rows[i]] != 0)
        start = stop
    return count


@njit(cache=True, nogil=True)
def _equal(left, right, size):
    """Whether two texts of one size at two addresses are the same."""
    first, second, at, left_of = _bytes(left, size), _bytes(right, size), np.uint64(0), np.uint64(size)
    while left_of > np.uint64(0):
        if _word(first, at, left_of) != _word(second, at, left_of):
            return False
        step = min(left_of, _U8)
        at, left_of = at + step, left_of - step
    return True


@njit(cache=True, nogil=True)
def keep_texts(left_places, left_sizes, right_places, right_sizes, left, right, pairs):
    """Keep the pairs whose texts are equal, at the front; returns how many.

    left_places, right_places: int64, left_sizes, right_sizes: int32, of `gather_texts`, by row; read. left, right:
    int32, the first `pairs` are; written in place. O(bytes of the pairs).
    """
    count = 0
    for i in range(pairs):
        a, b = left[i], right[i]
        size = left_sizes[a]
        same = size == right_sizes[b] and _equal(left_places[a], right_places[b], size)
        left[count], right[count] = a, b
        count += np.int64(same)
    return count


@njit(cache=True, nogil=True)
def keep_near(left_keys, right_keys, lower, low, upper, high, left, right, pairs):
    """Keep the pairs with left key + low <= right key (if `lower`) <= left key + high (if `upper`); returns how many.

    left_keys, right_keys: int64, by row; read. No sum may overflow. left, right: int32, the first `pairs` are; written
    in place. O(pairs).
    """
    count = 0
    for i in range(pairs):
        a, b = left[i], right[i]
        key, other = left_keys[a], right_keys[b]
        near = (not lower or key + low <= other) and (not upper or other <= key + high)
        left[count], right[count] = a, b
        count += np.int64(near)
    return count
