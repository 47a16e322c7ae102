"""Rows of groups: the evaluator of Aggregate and Having, which folds the rows below part by part, in one pass.

    rows below ─ keys, arguments, FILTER ─> numbers of groups ─ psoup.aggregates ─> states ─> a table: keys, measures
                                                                                                │ HAVING
    Project, Distinct, Sort, Limit  <── rows of the table, in the order of the keys ────────────┘

The table is made when the first of its rows is asked for. Bytes that keys and states take are charged to the budget of
the read before they are taken; how many groups there may be is bounded (`group_keys`), and so are the rows that an
answer shows of them (`group_rows`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from psoup.aggregates.keys import coded_column
from psoup.budgets import GROUP_ROWS
from psoup.columns import Array, Column
from psoup.data.chunk import ChunkView
from psoup.data.coded import Coded
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.fold_rows import Folder
from psoup.execution.aggregate.window_ends import first_of, row_of
from psoup.execution.join.join_rows import JoinRows
from psoup.execution.rows.select_list import Group, shown
from psoup.execution.rows.source_rows import Arrivals, Reading
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import Kind
from psoup.plan.nodes import Aggregate

_MAX_ROWS = 65_536
"""Rows that are folded at once."""

_MOST_BYTES, _PIECE_SHARE = 1 << 28, 16
"""Bytes of the room of groups, of a read that has no limit, and the share of the room that a piece's texts take."""
_ALONE, _TEXTS_ALONE = 4_096, 1_024
"""Matches of a chunk from which on they are folded by themselves: a chunk all of whose rows match is not copied, and
what is known as numbers is not told apart. Of texts fewer: to hash one takes as long as to count several."""

Part = tuple[int, Sequence[Column | Coded]]
"""How many rows, and the expressions over them."""


@dataclass(slots=True)
class GroupRows:
    """The rows of an Aggregate that satisfy `having`; `limit`: only the first of them after `skip`."""

    rows: Arrivals | JoinRows
    node: Aggregate
    having: Expr | None = None
    limit: int | None = None
    skip: int = 0
    _table: dict[int, Column] | None = None
    _size: int = 0
    _held: int = 0

    @property
    def reading(self) -> Reading:
        """What all rows of the answer are evaluated with."""
        return self.rows.reading

    @property
    def count(self) -> int | None:
        """The number of rows: not known before they are folded."""
        return None

    def cut(self, rows: int | None, skip: int) -> None:
        """Leave only the first rows after `skip`; once. O(1)."""
        self.limit, self.skip = rows, skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in the order of the keys, at most so many rows at a time."""
        try:
            self._fold()
            stop = self._size if self.limit is None else min(self.skip + self.limit, self._size)
            self._refuse(stop - self.skip)
            for start in range(self.skip, stop, most):
                yield from self._computed(outputs, slice(start, min(start + most, stop)))
        finally:
            self.close()

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """The places of the rows in the table, at most so many at once, and expressions over them, in parts."""
        self._fold()
        for start in range(0, self._size, most):
            stop = min(start + most, self._size)
            yield np.arange(start, stop), self._computed(keys, slice(start, stop))

    def arranged(self, outputs: list[Expr], places: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over rows at some places, in that order, at most so many at a time."""
        self._refuse(len(places))
        for start in range(0, len(places), most):
            yield from self._computed(outputs, places[start : start + most])

    def close(self) -> None:
        """Give back what the table holds: no row can be shown any more."""
        self.reading.budget.give_back_grouped(self._held)
        self._table, self._held = None, 0

    def _refuse(self, rows: int) -> None:
        if rows > self.reading.groups.rows:
            raise _over_rows(rows, self.reading.groups.rows)

    def _hold(self, size: int) -> None:
        self.reading.budget.hold_grouped(size)
        self._held += size

    def _fold(self) -> None:
        """Make the table, if it is not made yet."""
        if self._table is None and (row := self._row()) is not None:
            self._table, self._size = row, 1
            if self.having is not None:
                self._keep(self.having)
        if self._table is None:
            between = self.reading.between
            folder = Folder(self.node, self.reading, self._hold, None if between is None else between.fold)
            most = min(self.reading.budget.sort_bytes, _MOST_BYTES) // _PIECE_SHARE
            with self.reading.texts_within(self.reading.texts.in_pieces(most)):
                for rows in self._pieces(folder):
                    for part in parts_of(rows, folder.wanted, folder.coded):
                        folder.add(*part)
            self._table, self._size = folder.table()
            if self.having is not None:
                self._keep(self.having)

    def _row(self) -> dict[int, Column] | None:
        """The only row, if a window is folded already but for its two ends, and these need no evaluator."""
        between = self.reading.between
        return None if between is None or not isinstance(self.rows, Arrivals) else row_of(between, self.rows.matches)

    def _pieces(self, folder: Folder) -> Iterator[Arrivals | JoinRows]:
        """The rows below; between those of the two ends of a window what is folded already is put to the states."""
        rows, between = self.rows, self.reading.between
        if between is None or between.fold is None or not isinstance(rows, Arrivals):
            yield rows
            return
        if between.recipe.commutes:
            folder.join(between.fold)
            yield rows
            return
        some = [match for match in rows.matches if match.count]
        yield replace(rows, matches=[match for match in some if first_of(match) < between.begins])
        folder.join(between.fold)
        yield replace(rows, matches=[match for match in some if first_of(match) >= between.begins])

    def _keep(self, condition: Expr) -> None:
        """Leave only the groups that satisfy HAVING; a condition that cannot be computed is counted."""
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
        for half in _halves(rows):  # not in a handler, which would hold the whole
            yield from self._computed(outputs, half)


def _halves(rows: slice | Array) -> Sequence[slice | Array]:
    if isinstance(rows, slice):
        middle = (rows.start + rows.stop) // 2
        return slice(rows.start, middle), slice(middle, rows.stop)
    return rows[: len(rows) // 2], rows[len(rows) // 2 :]


def parts_of(rows: Arrivals | JoinRows, wanted: list[Expr], coded: Sequence[AttributeRef] = ()) -> Iterator[Part]:
    """Compute expressions over all rows, part by part, in their order; columns of `coded` may come as numbers."""
    if isinstance(rows, JoinRows):
        try:
            for count in () if wanted else rows.counts(_MAX_ROWS):
                yield count, []
            for ids, parts in rows.keyed(wanted, _MAX_ROWS) if wanted else ():
                for columns in parts:
                    yield len(columns[0]) if columns else len(ids), columns
        finally:
            rows.close()
        return
    if not wanted:
        yield rows.count, []
        return
    alone = _TEXTS_ALONE if any(ref.type.kind is Kind.TEXT for ref in coded) else _ALONE
    for group in _groups(rows, alone):
        rows.reading.budget.check()
        known = _coded(group, coded, alone)
        rest = [expr for expr in wanted if expr not in known]
        start, parts = 0, rows.reading.computed(rest, group) if rest else iter([[]])
        for columns in parts:
            count = len(columns[0]) if columns else sum(len(offsets) for _, offsets in group)
            own = iter(columns)
            yield count, [known[e].slice(start, start + count) if e in known else next(own) for e in wanted]
            start += count


def _coded(group: Group, wanted: Sequence[AttributeRef], alone: int) -> dict[Expr, Coded]:
    """The columns that are known as numbers of their values, of the only chunk of a group."""
    data, offsets = group[0]
    if len(group) > 1 or len(offsets) < alone or not isinstance(data, ChunkView):
        return {}
    found = {ref: coded_column(data, ref.index) for ref in wanted}
    known: dict[Expr, Coded] = {ref: column for ref, column in found.items() if column is not None}
    if int(offsets[-1]) - int(offsets[0]) + 1 == len(offsets):
        first = int(offsets[0])
        return {ref: column.slice(first, first + len(offsets)) for ref, column in known.items()}
    return {ref: column.take(offsets) for ref, column in known.items()}


def _groups(rows: Arrivals, alone: int) -> Iterator[Group]:
    """The matches in their order: those of a chunk by themselves from `alone` on, else of several chunks together."""
    group: Group = []
    room = _MAX_ROWS
    for match in rows.matches:
        count = match.count
        if group and (count >= alone or count > room):
            yield group
            group, room = [], _MAX_ROWS
        if count:
            group.append((match.data, match.offsets))
            room -= count
        if count >= alone:
            yield group
            group, room = [], _MAX_ROWS
    if group:
        yield group


def _over_rows(rows: int, most: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"the answer has {rows:,} groups, and one answer may show {most:,} (group_rows); add a HAVING or a LIMIT,"
        " narrow the window or the WHERE clause, or group by coarser keys",
        reason="GROUP_BUDGET",
        rows=rows,
        **GROUP_ROWS.over(rows, most),
    )
