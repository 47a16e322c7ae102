"""The order of rows for one PARTITION BY with its ORDER BY, and the bounds of partitions and frames.

    position   0 1 2 3 4 5 6        rows in the order of the keys, partition by partition
    row        4 0 6 1 2 5 3        the place of each row in the input
    sym        A A A A B B B        starts 0 0 0 0 4 4 4    ends 4 4 4 4 7 7 7
    price      3 5 5 9 1 1 2        peers from 0 1 1 3 4 4 6     to 1 3 3 4 6 6 7

A frame is a range [low, high) of positions. Both ends ascend with the position, as partitions lie one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from psoup.execution.over.distances import ROW_BYTES, DistanceKeys, distance_keys, high_end, low_end
from psoup.execution.over.gathered_rows import SortBytes
from psoup.execution.rows.sort_keys import pieces, ranks, sorted_by
from psoup.kernels.rows.radix_sort import mark_changes
from psoup.model import Kind
from psoup.plan.nodes import OrderKey
from psoup.plan.over import Frame
from psoup.values.columns import Array, Column
from psoup.work.read_budget import ReadBudget

_ROW_BYTES = 6
"""Bytes of a row for its place in the order, and for two flags."""
_INTEGER = 8
"""Bytes of an integer for each row."""


@dataclass
class Partitions:
    """The rows in order. `rows`: uint32[n], the row at each position.

    `begins`, `changes`: bool[n], whether a partition begins at a position, and whether the position is not a peer of
    the one before. `account`: the bytes of all arrays. An array is charged when it is computed, at its first use.
    `key`: the column of the first key of ORDER BY, in the order of the input, and whether it is descending.
    """

    rows: Array
    begins: Array
    changes: Array
    account: SortBytes
    key: tuple[Column, bool] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def positions(self) -> Array:
        """All positions: int64[n]."""
        self._charge()
        return np.arange(len(self.rows))

    @cached_property
    def inverse(self) -> Array:
        """The position of each row: int64[n]."""
        self._charge()
        inverse: Array = np.empty(len(self.rows), np.int64)
        inverse[self.rows] = self.positions
        return inverse

    @cached_property
    def numbers(self) -> Array:
        """The number of the partition at each position: int32[n], from 0."""
        self._charge()
        return (np.cumsum(self.begins) - 1).astype(np.int32)

    @cached_property
    def starts(self) -> Array:
        """The first position of the partition at each position: int64[n]."""
        self._charge()
        return _starts(self.begins)

    @cached_property
    def ends(self) -> Array:
        """The position after the partition at each position: int64[n]."""
        self._charge()
        return _ends(self.begins)

    @cached_property
    def peer_starts(self) -> Array:
        """The first position of the peers at each position: int64[n]."""
        self._charge()
        return _starts(self.changes)

    @cached_property
    def peer_ends(self) -> Array:
        """The position after the peers at each position: int64[n]."""
        self._charge()
        return _ends(self.changes)

    def _charge(self) -> None:
        self.account.hold(_INTEGER * len(self.rows))

    def frame(self, frame: Frame) -> tuple[Array, Array]:
        """The range [low, high) of positions in the frame of each position: two int64[n]. Both ascend."""
        low, high = self.starts, self.ends
        if frame.first is not None:
            low = self._near(frame.first, low_end) if frame.peers else np.clip(self._moved(frame.first), low, high)
        if frame.last is not None and frame.peers:
            high = self._near(frame.last, high_end)
        elif frame.last is not None:
            high = np.clip(self._moved(frame.last + 1), self.starts, high)
        return low, np.maximum(low, high)

    def _near(self, distance: float, end: Callable[[Partitions, DistanceKeys, float], Array]) -> Array:
        """The low or the high end of each frame, at a distance from the row. The distance 0 is at the row's peers."""
        if not distance:
            return self.peer_starts if end is low_end else self.peer_ends
        self._charge()
        return end(self, self.distances, distance)

    @cached_property
    def distances(self) -> DistanceKeys:
        """The key of ORDER BY at each position."""
        assert self.key is not None
        self.account.hold(ROW_BYTES * len(self.rows))
        column, descending = self.key
        return distance_keys(self, column, descending=descending)

    def _moved(self, by: float) -> Array:
        """The positions, moved by a number of rows, at most past all rows."""
        return self.positions + int(min(max(by, -len(self.rows)), len(self.rows)))


def partitions(
    partition: Sequence[Column], order: Sequence[Column], keys: Sequence[OrderKey], count: int, account: SortBytes
) -> Partitions:
    """Sort `count` rows by the columns of PARTITION BY, then of ORDER BY with its `keys`. The sort is stable.

    `account`: holds the bytes of the result. Raises ResourceExhausted. O(n) for each 11 bits of a key.
    """
    budget = account.budget
    account.hold(_ROW_BYTES * count)
    parts = [(column, False, False) for column in partition]
    orders = [(column, key.descending, key.nulls_first) for column, key in zip(order, keys, strict=True)]
    texts = [column.nbytes for column in (*partition, *order) if column.type.kind is Kind.TEXT]
    arrays = sum(1 + (column.valid is not None) for column in (*partition, *order))
    with account.while_held(_INTEGER * count * (arrays + 2) + max(texts, default=0)):
        first = [level for part in parts for level in _levels(*part, budget)]
        then = [level for part in orders for level in _levels(*part, budget)]
        rows = np.arange(count, dtype=np.uint32)
        for place, level in enumerate(reversed((*first, *then))):
            if place or not _ascends(level, budget):
                rows = sorted_by(level, rows, budget)
        key = (order[0], keys[0].descending) if order else None
        begins = _changed(first, rows, np.zeros(count, np.uint8), budget)
        changes = _changed(then, rows, begins.copy(), budget)
    return Partitions(rows, begins.view(np.bool_), changes.view(np.bool_), account, key)


def _levels(column: Column, descending: bool, nulls_first: bool, budget: ReadBudget) -> list[Array]:
    """The arrays of int64 by which the rows are sorted for one key: a flag of NULL, if it has NULLs, and its ranks."""
    rank = ranks(column, budget)
    rank = ~rank if descending else rank
    if column.valid is None:
        return [rank]
    flags = column.valid if nulls_first else ~column.valid
    return [flags.astype(np.int64), np.where(column.valid, rank, 0)]


def _ascends(level: Array, budget: ReadBudget) -> bool:
    """Whether the values are in order already, as times of a stream are."""
    for piece in pieces(len(level), budget):
        part = level[max(piece.start - 1, 0) : piece.stop]
        if bool((part[1:] < part[:-1]).any()):
            return False
    return True


def _changed(levels: Sequence[Array], rows: Array, changed: Array, budget: ReadBudget) -> Array:
    """Mark in `changed` (uint8[n]) the first position, and those whose row differs from the row before."""
    changed[:1] = 1
    for piece in pieces(len(rows), budget):
        span = slice(max(piece.start - 1, 0), piece.stop)
        for level in levels:
            mark_changes(level, rows[span], changed[span])
    return changed


def _starts(begins: Array) -> Array:
    """For each position, the last begin at it or before."""
    first = np.flatnonzero(begins)
    return np.repeat(first, np.diff(first, append=len(begins)))


def _ends(begins: Array) -> Array:
    """For each position, the first begin after it, or the number of positions."""
    first = np.flatnonzero(begins)
    sizes = np.diff(first, append=len(begins))
    return np.repeat(first + sizes, sizes)
