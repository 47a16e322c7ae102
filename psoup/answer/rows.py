"""Rows of an answer as references: which tuples they are made of. Columns are gathered when the rows are taken.

    Arrivals   the matches of a source in stream order           chunk, ascending offsets
    Arranged   other rows, told apart (DISTINCT) and sorted      tuple IDs, once all keys have been seen

Both may be `cut`. What is computed of them is `psoup.answer.gathering`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.answer.found import Matches
from psoup.answer.gathering import by_ids, groups, ids_of
from psoup.answer.outputs import Group, computed
from psoup.answer.sorting import Sorting, over_rows
from psoup.columns import Column
from psoup.config import TextLimits
from psoup.expressions.tree import Expr
from psoup.plan.nodes import OrderKey
from psoup.reading import ReadBudget

_MAX_ROWS = 65_536
"""Rows whose keys are computed at once."""
_DISK_ROWS = 16_384
"""Rows that a sorted answer gathers at once from files."""


@dataclass(slots=True)
class Reading:
    """What rows are evaluated with. `errors`: values that could not be computed so far, and are NULL."""

    matches: Sequence[Sequence[Matches]]
    """Of each source, in the order of FROM."""
    now: int | None
    texts: TextLimits
    budget: ReadBudget
    sort_rows: int
    """Rows that may be sorted."""
    errors: int = 0

    def count(self, columns: Sequence[Column]) -> None:
        """Count the errors of some values."""
        self.errors += sum(int(np.count_nonzero(c.error)) for c in columns if c.error is not None)

    def computed(self, outputs: list[Expr], group: Group) -> Iterator[list[Column]]:
        """Expressions over some tuples, in parts."""
        return computed(outputs, group, self.now, self.texts, self.budget)


@dataclass(slots=True)
class Arrivals:
    """The matches of one source; `limit`: the first of them."""

    reading: Reading
    matches: Sequence[Matches]
    limit: int | None = None

    def cut(self, rows: int) -> None:
        """Leave the first rows only. O(1)."""
        self.limit = rows if self.limit is None else min(rows, self.limit)

    def groups(self, most: int) -> Iterator[Group]:
        """The tuples, at most so many at a time."""
        return groups(self.matches, most, self.limit)

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Expressions over the rows, in order, at most so many rows at a time."""
        for group in self.groups(most):
            self.reading.budget.check()
            yield from self.reading.computed(outputs, group)


@dataclass(slots=True)
class Arranged:
    """Rows of `rows` that differ in `distinct` (all rows if that is empty), sorted by `order`, the first `limit`.

    The IDs of all rows are held while it is read, and each piece is gathered when it is asked for.
    """

    rows: Arrivals
    distinct: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None

    def cut(self, rows: int) -> None:
        """Leave the first rows only. O(1): those that cannot be among them are let go while the keys are read."""
        self.limit = rows if self.limit is None else min(rows, self.limit)

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Expressions over the rows, in order. Raises ResourceExhausted if too many would have to be sorted."""
        reading = self.rows.reading
        sorting = Sorting(self.distinct, self.order, self.limit, reading.budget, reading.sort_rows)
        total = sum(match.count for match in self.rows.matches)
        if total > reading.sort_rows and not sorting.reducible:
            raise over_rows(total, reading.sort_rows)
        chunks = [match.data for match in self.rows.matches]
        try:
            for group in self.rows.groups(_MAX_ROWS):
                reading.budget.check()
                sorting.add_all(ids_of(group), self._keys(sorting.wanted, outputs, group))
            ids = sorting.order()
            if any(not chunk.in_memory for chunk in chunks):
                most = max(most, _DISK_ROWS)
            for start in range(0, len(ids), most):
                piece = ids[start : start + most]
                yield from by_ids(outputs, chunks, piece, reading.now, reading.texts, reading.budget)
        finally:
            sorting.close()

    def _keys(self, wanted: list[Expr], outputs: list[Expr], group: Group) -> Iterator[list[Column]]:
        """What is sorted by; values that rows show are counted when they are given out."""
        reading, shown = self.rows.reading, set(outputs)
        for columns in reading.computed(wanted, group):
            reading.count([column for expr, column in zip(wanted, columns, strict=True) if expr not in shown])
            yield columns


Rows = Arrivals | Arranged
