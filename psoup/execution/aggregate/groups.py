"""The evaluator of Aggregate, Hop and Having, over a table with a row for each group.

    rows below ─ a way of folding ─> a table: keys, measures
                                       │ HAVING
    Project, Distinct, Sort, Limit  <──┘ rows of the table, in the order of the keys

The evaluator folds the table when its caller asks for the first row. It charges the bytes of keys and states to the
read before it allocates them. `group_keys` bounds the number of groups, `group_rows` the rows that an answer shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from psoup.budgets import GROUP_ROWS
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.row_parts import GroupCase, GroupTable
from psoup.execution.rows.plan_rows import FoldableRows
from psoup.execution.rows.select_list import shown
from psoup.execution.rows.source_rows import Reading, SourceRows
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Expr
from psoup.plan.nodes import Aggregate, Hop
from psoup.plan.way import Ways
from psoup.values.columns import Array, Column

_MAX_ROWS = 65_536
"""The most rows of the table for which HAVING is computed at once."""


@dataclass(slots=True)
class GroupRows:
    """The groups of an Aggregate, or of the `hop` above it, that satisfy `having`.

    `limit`: the most rows that remain after the first `skip`.
    """

    rows: SourceRows | FoldableRows
    node: Aggregate
    ways: Ways[GroupCase, GroupTable]
    hop: Hop | None = None
    having: Expr | None = None
    limit: int | None = None
    skip: int = 0
    _table: dict[int, Column] | None = None
    _size: int = 0
    _held: int = 0

    @property
    def reading(self) -> Reading:
        """The matches and limits of the answer."""
        return self.rows.reading

    @property
    def count(self) -> int | None:
        """None, as the number of groups is not known before the rows are folded."""
        return None

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        self.limit = rows
        self.skip = skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in the order of the keys, at most `most` rows at a time."""
        try:
            self._fold()
            stop = self._size if self.limit is None else min(self.skip + self.limit, self._size)
            self._refuse(stop - self.skip)
            for start in range(self.skip, stop, most):
                yield from self._computed(outputs, slice(start, min(start + most, stop)))
        finally:
            self.close()

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield places of rows in the table, at most `most` at once, with the values of `keys` in parts."""
        self._fold()
        for start in range(0, self._size, most):
            stop = min(start + most, self._size)
            yield np.arange(start, stop), self._computed(keys, slice(start, stop))

    def arranged(self, outputs: list[Expr], places: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows at `places`, in that order, at most `most` rows at a time."""
        self._refuse(len(places))
        for start in range(0, len(places), most):
            yield from self._computed(outputs, places[start : start + most])

    def close(self) -> None:
        """Drop the table and return its bytes to the budget. After that no row can be shown."""
        self.reading.budget.give_back_grouped(self._held)
        self._table = None
        self._held = 0

    def _refuse(self, rows: int) -> None:
        if rows > self.reading.groups.rows:
            raise _over_rows(rows, self.reading.groups.rows)

    def _hold(self, size: int) -> None:
        self.reading.budget.hold_grouped(size)
        self._held += size

    def _fold(self) -> None:
        """Fold the rows into the table and apply HAVING, unless an earlier call did."""
        if self._table is None:
            case = GroupCase(self.rows, self.node, self._hold, self.hop)
            self._table, self._size = self.ways.take(self.hop or self.node, case)
            if self.having is not None:
                self._keep(self.having)

    def _keep(self, condition: Expr) -> None:
        """Keep only the groups that satisfy HAVING. A condition that cannot be computed is counted as an error."""
        assert self._table is not None
        kept, at = [np.zeros(0, np.int64)], 0
        for start in range(0, self._size, _MAX_ROWS):
            for (column,) in self._computed([condition], slice(start, min(start + _MAX_ROWS, self._size))):
                self.reading.count([column])
                passed = column.values if column.valid is None else column.values & column.valid
                kept.append(np.flatnonzero(passed) + at)
                at += len(column)
        rows = np.concatenate(kept)
        self._table = {place: column.take(rows) for place, column in self._table.items()}
        self._size = len(rows)

    def _computed(self, outputs: list[Expr], rows: slice | Array) -> Iterator[list[Column]]:
        """Compute expressions over some rows of the table, in one part or several."""
        assert self._table is not None
        reading = self.reading
        reading.budget.check()
        if isinstance(rows, slice):
            count = max(rows.stop - rows.start, 0)
            columns = self._table
            if count < self._size:
                columns = {place: column.slice(rows.start, rows.stop) for place, column in columns.items()}
        else:
            count = len(rows)
            columns = {place: column.take(rows) for place, column in self._table.items()}
        if not count:
            return
        computed: list[Column] | None = None
        with suppress(TooMuchText):
            computed = shown(outputs, columns, count, reading.now, reading.texts, reading.budget)
        if computed is not None:
            yield computed
            return
        for half in _halves(rows):  # not in the handler: its exception would keep the values of all rows alive
            yield from self._computed(outputs, half)


def _halves(rows: slice | Array) -> Sequence[slice | Array]:
    if isinstance(rows, slice):
        middle = (rows.start + rows.stop) // 2
        return slice(rows.start, middle), slice(middle, rows.stop)
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def _over_rows(rows: int, most: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"the answer has {rows:,} groups, and one answer may show {most:,} (group_rows); add a HAVING or a LIMIT,"
        " narrow the window or the WHERE clause, or group by coarser keys",
        reason="GROUP_BUDGET",
        rows=rows,
        **GROUP_ROWS.over(rows, most),
    )
