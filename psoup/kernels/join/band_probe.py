"""Pairs of rows with equal keys that are near in another column too, where many rows have one key.

    bucket of key 5     rows    1  4  9  12 …       in their order, so a column that ascends with them ascends here
                        times   10 20 55 60 …       partners of key 5 between 50 and 60: rows 9 12, by searching

So a row looks at its partners alone, and not at all that have its key.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.join.arrays import BandBounds, KeyBuckets
from psoup.kernels.join.pair_columns import _bucket
from psoup.kernels.join.range_pairs import _place

_U0, _U1 = np.uint64(0), np.uint64(1)


@njit(cache=True, nogil=True)
def probe_banded(keys, rows, buckets, near, ordered, bounds, at, inside, cap, left, right):
    """As `probe_buckets`, of the places of a bucket those that are near, of whose `inside` are done.

    buckets: `KeyBuckets`. near: int64 by driving row; ordered: int64[places], which ascends in each bucket. bounds:
    `BandBounds` of near and ordered; no sum may overflow. O(places near + rows * log of a bucket).
    """
    base, factor, shift, starts, place_keys, place_rows = KeyBuckets(*buckets)
    lower, low, upper, high = BandBounds(*bounds)
    n, looked, left_of = _U0, _U0, np.uint64(cap)
    every, checked = rows.shape[0] == 0, place_keys.shape[0] > 0
    count, at, inside = np.uint64(keys.shape[0] if every else rows.shape[0]), np.uint64(at), np.uint64(inside)
    while at < count and looked < left_of:
        row = np.uint64(at) if every else np.uint64(rows[at])
        key, bound = keys[row], near[row]
        first, size = _bucket(key, base, factor, shift, starts)
        begin, end = np.int64(first), np.int64(first + size)
        begin = _place(ordered, bound + low, False, begin, end, begin) if lower else begin
        end = _place(ordered, bound + high, True, begin, end, begin + 1) if upper else end
        first = np.uint64(begin) + inside
        size = np.uint64(max(end - np.int64(first), 0))
        taken = min(size, np.uint64(left.shape[0]) - n)
        if taken < size and n > _U0:
            break
        for p in range(first, first + taken):
            left[n], right[n] = row, place_rows[p]
            n += _U1 if not checked else np.uint64(place_keys[p] == key)
        looked += taken + _U1
        if taken < size:
            inside += taken
            break
        at, inside = at + _U1, _U0
    return np.int64(at), np.int64(inside), np.int64(n), np.int64(looked)
