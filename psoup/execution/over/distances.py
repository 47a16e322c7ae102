"""The frames of RANGE with a distance: the rows whose key of ORDER BY is near the key of a row.

    ORDER BY t RANGE BETWEEN 2 PRECEDING AND CURRENT ROW
    t          1 3 4 4 9 -       positions of a partition; - is NULL
    from       0 0 1 1 4 5       the first key that is at least t - 2
    to         1 2 4 4 5 6       past the last peer

A NULL or NaN has no distance to a key. Its frame ends at its peers, unless an end is UNBOUNDED. Keys of a descending
order are inverted first, so that they ascend. All ends are places at once by a binary search in each partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from psoup.model import Kind
from psoup.values.columns import Array, Column

if TYPE_CHECKING:
    from psoup.execution.over.partitions import Partitions

LEAST, GREATEST = -(2**63), 2**63 - 1
"""The least and the greatest int64."""

ROW_BYTES = 32
"""Bytes of a row for its `DistanceKeys`."""


@dataclass(frozen=True, slots=True)
class DistanceKeys:
    """The keys of ORDER BY over positions: int64[n] or float64[n], ascending in each partition where `plain`.

    `plain`: bool[n], whether a key is neither NULL nor NaN. `first`, `stop`: int64[n], the range of positions in the
    partition with plain keys.
    """

    keys: Array
    plain: Array
    first: Array
    stop: Array


def distance_keys(rows: Partitions, column: Column, *, descending: bool) -> DistanceKeys:
    """The keys at all positions. `column`: the only key of ORDER BY, in the order of the input. O(n)."""
    ordered = column.take(rows.rows.astype(np.int64))
    keys = ordered.values if column.type.kind is Kind.DOUBLE else ordered.values.astype(np.int64)
    if descending:
        keys = -keys if column.type.kind is Kind.DOUBLE else ~keys  # both turn the order round, and keep distances
    plain = np.ones(len(rows), np.bool_) if ordered.valid is None else ordered.valid.copy()
    if column.type.kind is Kind.DOUBLE:
        plain &= ~np.isnan(keys)
    before = np.append(0, np.cumsum(plain))
    places = np.append(np.flatnonzero(plain), len(rows))
    first = np.minimum(places[before[rows.starts]], rows.ends)
    return DistanceKeys(keys, plain, first, first + before[rows.ends] - before[rows.starts])


def low_end(rows: Partitions, keys: DistanceKeys, distance: float) -> Array:
    """The first position of each frame: int64[n]. `distance`: from the key of the row, negative for PRECEDING."""
    bounds, low, high = _bounds(keys.keys, distance)
    places = _search(rows, keys, bounds, past=False)
    places = np.where(low, keys.first, np.where(high, keys.stop, places))
    return np.where(keys.plain, places, rows.peer_starts)


def high_end(rows: Partitions, keys: DistanceKeys, distance: float) -> Array:
    """The position after each frame: int64[n]. `distance`: as for `low_end`."""
    bounds, low, high = _bounds(keys.keys, distance)
    places = _search(rows, keys, bounds, past=True)
    places = np.where(low, keys.first, np.where(high, keys.stop, places))
    return np.where(keys.plain, places, rows.peer_ends)


def _bounds(keys: Array, distance: float) -> tuple[Array, Array, Array]:
    """The keys plus a distance, and whether each sum is below or above all keys."""
    none = np.zeros(len(keys), np.bool_)
    if keys.dtype == np.float64:
        return keys + distance, none, none
    by = min(max(int(distance), -GREATEST), GREATEST)
    sums = keys + np.int64(by)  # a sum that overflows is not used
    return (sums, keys < LEAST - by, none) if by < 0 else (sums, none, keys > GREATEST - by)


def _search(rows: Partitions, keys: DistanceKeys, bounds: Array, *, past: bool) -> Array:
    """The first position with a plain key that is at least the bound. With `past`: that is above the bound."""
    low, high = keys.first.copy(), keys.stop.copy()
    while True:
        rows.account.budget.check()
        searched = low < high
        if not searched.any():
            return low
        middle = (low + high) >> 1
        at = keys.keys[np.minimum(middle, len(bounds) - 1)]
        right = searched & ((at <= bounds) if past else (at < bounds))
        low = np.where(right, middle + 1, low)
        high = np.where(searched & ~right, middle, high)
