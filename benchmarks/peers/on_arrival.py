"""Pairs found on arrival: what a stream system does that keeps a join for each query, as one compiled loop.

    tuple of r ─> each query: selected? ─> into the query's own hash table of r ─> partners in that of s, counted

Each query has operators of its own, as in STREAM, whose tables hold the window. There are no queues, no scheduling and
no rows: what it gives is a count. So it is the limit of that way rather than a system.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

Integers = npt.NDArray[np.int64]
_BUCKETS = 256


class PairsOnArrival:
    """Queries over two streams: `bounds` int64[2, Q, 2], low and high (exclusive) of each side's value."""

    name = "pairs on arrival, compiled, only counted"

    def __init__(self, bounds: Integers, window: int, share: float) -> None:
        """`share`: the part of a stream that a query selects at most, twice as much is room for."""
        queries = bounds.shape[1]
        room = max(int(2 * share * window), 64)
        self._bounds, self._window = bounds, window
        self._heads = np.full((2, queries, _BUCKETS), -1, np.int32)
        self._next = np.full((2, queries, room), -1, np.int32)
        self._keys = np.zeros((2, queries, room), np.int64)
        self._places = np.full((2, queries, room), -1, np.int64)
        self._counts = np.zeros((2, queries), np.int64)
        self._seen = [0, 0]

    def arrive(self, side: int, keys: Integers, values: Integers) -> int:
        """A batch of a side; returns how many pairs it made, of all queries."""
        pairs: int = _arrive(
            side,
            keys,
            values,
            self._seen[side],
            self._seen[1 - side] - self._window,
            self._bounds[side],
            self._heads,
            self._next,
            self._keys,
            self._places,
            self._counts,
        )
        self._seen[side] += len(keys)
        return pairs


@njit(cache=True, nogil=True)
def _arrive(side, keys, values, first, oldest, bounds, heads, following, numbers, places, counts):  # type: ignore[no-untyped-def]
    """Insert into the tables of one side, newest first in each bucket, and probe those of the other."""
    pairs, room, other = 0, numbers.shape[2], 1 - side
    for row in range(len(keys)):
        key, value = keys[row], values[row]
        bucket = (np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(56)
        for query in range(len(bounds)):
            if value < bounds[query, 0] or value >= bounds[query, 1]:
                continue
            at = counts[side, query] % room
            counts[side, query] += 1
            numbers[side, query, at], places[side, query, at] = key, first + row
            following[side, query, at] = heads[side, query, bucket]
            heads[side, query, bucket] = at
            at, before = heads[other, query, bucket], np.int64(1) << np.int64(62)
            while at >= 0 and oldest <= places[other, query, at] < before:  # else it left, or its place was taken
                pairs += numbers[other, query, at] == key
                before = places[other, query, at]
                at = following[other, query, at]
    return pairs
