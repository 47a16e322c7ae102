"""Blocks of records with ascending IDs, as columns. A record is made when it is read.

    ids   7 8 9 12    gone   - - x -     a removed ID stays in the columns until half of the block is removed

`psoup.published.records` has the blocks of queries and of clauses. A `PagedMap` holds blocks and single records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from typing import Generic, Self, TypeVar

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array

V = TypeVar("V")

Numbers = Array | range
"""Integers of a block: an array, or a range if they are consecutive. A range is the usual case, and takes no memory."""


def numbers(values: Numbers) -> Numbers:
    """The same integers, as a range if they are consecutive. O(n)."""
    if isinstance(values, np.ndarray) and len(values) and bool((np.diff(values) == 1).all()):
        return range(int(values[0]), int(values[-1]) + 1)
    return values


def pick(values: Numbers, rows: Array) -> Numbers:
    """The integers at some positions (int64[k])."""
    return numbers(values[rows] if isinstance(values, np.ndarray) else rows + values.start)


def picked(values: Numbers, rows: Array) -> Array:
    """The integers at some positions (int64[k]), as an array."""
    return values[rows] if isinstance(values, np.ndarray) else rows + values.start


def bytes_of(*parts: Numbers) -> int:
    """The bytes of some parts of a block. A range counts 0, and so does an array that repeats one number."""
    return sum(part.nbytes for part in parts if isinstance(part, np.ndarray) and part.strides != (0,))


class RecordBlock(Generic[V]):
    """Records with ascending IDs (n > 0), some of which may be removed. Only the code that made a block may
    change it.
    """

    __slots__ = ("_gone", "count", "ids", "live")

    def __init__(self, ids: Numbers) -> None:
        self.ids = numbers(ids)
        self.count = self.live = len(ids)
        self._gone: Array | None = None

    def __len__(self) -> int:
        return self.live

    @property
    def first(self) -> int:
        """The least ID that the block ever had."""
        return int(self.ids[0])

    @property
    def last(self) -> int:
        """The greatest ID that the block ever had."""
        return int(self.ids[-1])

    def get(self, key: int) -> V | None:
        """The record of an ID, or None."""
        at = self.find(key)
        return None if at < 0 else self.make(at)

    def items(self, start: int) -> Iterator[tuple[int, V]]:
        """Yield (ID, record) for all IDs >= start, ascending."""
        for at in range(self._from(start), self.count):
            if self._gone is None or not self._gone[at]:
                yield int(self.ids[at]), self.make(at)

    def find(self, key: int) -> int:
        """The position of an ID that is not removed, or -1. O(log n)."""
        at = self._from(key)
        stands = at < self.count and self.ids[at] == key and (self._gone is None or not self._gone[at])
        return at if stands else -1

    def places(self, keys: Array) -> Array:
        """The position of each ID (int64[k]), or -1 for an ID that is missing or removed. O(k log n)."""
        ids = self.ids
        at: Array = keys - ids.start if isinstance(ids, range) else np.searchsorted(ids, keys)
        missing = (at < 0) | (at >= self.count)
        at[missing] = 0
        missing |= keys != (at + ids.start if isinstance(ids, range) else ids[at])
        if self._gone is not None:
            missing |= self._gone[at]
        at[missing] = -1
        return at

    def standing(self) -> Array:
        """The positions of remaining IDs, int64, ascending. O(n)."""
        return np.arange(self.count) if self._gone is None else np.flatnonzero(~self._gone)

    def _from(self, key: int) -> int:
        """The position of the first ID of at least `key`."""
        if isinstance(self.ids, range):
            return min(max(key - self.ids.start, 0), self.count)
        return int(np.searchsorted(self.ids, key))

    def without(self, key: int, owned: bool) -> Self | None:
        """The block without one ID, which must exist; None if it was the last ID. Returns itself if `owned`, else a
        copy.

        A copy costs O(n) bytes. When half of the records are removed, the rest is compacted, which is amortised.
        """
        at = self.find(key)
        ensure(at >= 0, self, "a record is removed that is not there", key=key)
        return self._without(at, 1, owned)

    def without_all(self, places: Array, owned: bool) -> Self | None:
        """`without` for the IDs at some positions (int64[k], distinct), which must all exist."""
        return self._without(places, len(places), owned)

    def _without(self, at: int | Array, count: int, owned: bool) -> Self | None:
        if self.live == count:
            return None
        changed = self if owned else self.taken(None)
        if not owned:
            changed._gone, changed.live = None if self._gone is None else self._gone.copy(), self.live
        if changed._gone is None:
            changed._gone = np.zeros(self.count, np.bool_)
        changed._gone[at] = True
        changed.live -= count
        return changed if 2 * changed.live > changed.count else changed.taken(np.flatnonzero(~changed._gone))

    def check(self) -> None:
        """Check that IDs ascend, and that the count of remaining IDs is right."""
        left = self.count if self._gone is None else self.count - int(np.count_nonzero(self._gone))
        ensure(self.live == left > 0, self, "records are miscounted", counted=self.live, left=left)
        ascend = isinstance(self.ids, range) or bool((np.diff(self.ids) > 0).all())
        ensure(ascend and len(self.ids) == self.count, self, "IDs do not ascend, or are too many", ids=self.ids)
        lengths = {len(column) for column in self.columns()}
        ensure(lengths == {self.count}, self, "a column has another length", lengths=lengths, count=self.count)

    def columns(self) -> tuple[Sized, ...]:
        """The columns, each with a value for each record."""
        raise NotImplementedError

    def make(self, at: int) -> V:
        """The record at a position."""
        raise NotImplementedError

    def taken(self, rows: Array | None) -> Self:
        """A block with copies of the records at `rows`, int64[k]. Without `rows`: a block of all records that shares
        the arrays.
        """
        raise NotImplementedError
