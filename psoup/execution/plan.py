"""The plan evaluated: each node makes rows of its input's rows, as references to tuples; columns come last.

    Source ─ matches ─> Project ──> Distinct ──> Sort ──> Limit ─ rows ─> columns, gathered group by group
    Source ┐
    Source ┴ Join ────> Project ──> …

    Arrivals   the matches of a source in stream order           chunk, ascending offsets
    JoinRows   the rows of several sources that belong together  a position in each source
    GroupRows  a row for each group of either (`groups`)         a place in a table, once all rows have been folded
    Arranged   any of them, told apart (DISTINCT) and sorted     tuple IDs or positions, once all keys have been seen

All may be `cut`. Nothing is read before the reader of the answer asks for rows. `psoup.execution.rows.select_list`
computes the
columns of a group; a group that needs no computing leaves as a message (`psoup.execution.rows.record_batch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from psoup.execution.aggregate.groups import GroupRows
from psoup.execution.join.join_rows import JoinRows
from psoup.execution.rows.sort import Sorting, over_rows
from psoup.execution.rows.source_rows import Reading, SourceRows
from psoup.execution.ways import GROUPS, JOIN_WAYS
from psoup.expressions.tree import Expr
from psoup.invariants import ensure
from psoup.plan.nodes import Aggregate, Distinct, Having, Join, Limit, Node, OrderKey, Project, Sort, Source
from psoup.values.columns import Column

__all__ = ["SourceRows", "GroupRows", "JoinRows", "Reading", "rows_of"]


def rows_of(node: Node, reading: Reading) -> Rows:
    """The rows of a node. O(nodes)."""
    return _EVALUATORS[type(node)](node, reading)


def _source(node: Source, reading: Reading) -> Rows:
    return SourceRows(reading, reading.matches[node.place])


def _join(node: Join, reading: Reading) -> Rows:
    return JoinRows(reading, node, JOIN_WAYS)


def _aggregate(node: Aggregate, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    assert isinstance(rows, SourceRows | JoinRows), "rows are grouped as they come from their sources"
    return GroupRows(rows, node, GROUPS)


def _having(node: Having, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    assert isinstance(rows, GroupRows)
    rows.having = node.condition
    return rows


def _project(node: Project, reading: Reading) -> Rows:
    """Leave the rows as they are: what they show is computed last."""
    return rows_of(node.input, reading)


def _distinct(node: Distinct, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    assert isinstance(rows, SourceRows | JoinRows | GroupRows), (
        "rows are told apart as they come: of equal ones the first is kept"
    )
    return Arranged(rows, distinct=tuple(output.expr for output in node.schema))


def _sort(node: Sort, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    if not isinstance(rows, Arranged):
        return Arranged(rows, order=node.keys)
    ensure(not rows.order and rows.limit is None, "plan", "rows are sorted once, and before they are cut")
    rows.order = node.keys  # one pass over the keys tells apart and sorts
    return rows


def _limit(node: Limit, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    rows.cut(node.rows, node.skip)
    return rows


_EVALUATORS: dict[type[Node], Callable[[Any, Reading], Rows]] = {
    Source: _source,
    Join: _join,
    Aggregate: _aggregate,
    Having: _having,
    Project: _project,
    Distinct: _distinct,
    Sort: _sort,
    Limit: _limit,
}


_MAX_ROWS = 65_536
"""Rows whose keys are computed at once."""


@dataclass(slots=True)
class Arranged:
    """Rows of `rows` that differ in `distinct` (all if that is empty), sorted by `order`, the first `limit` but `skip`.

    The IDs of all rows are held while it is read, and each piece is gathered when it is asked for.
    """

    rows: SourceRows | JoinRows | GroupRows
    distinct: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    skip: int = 0

    def cut(self, rows: int | None, skip: int) -> None:
        """Leave only the first rows after `skip`; once. O(1): others are dropped while the keys are read."""
        self.limit = None if rows is None else skip + rows
        self.skip = skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order. Raises ResourceExhausted if too many would have to be sorted."""
        rows, reading = self.rows, self.rows.reading
        sorting = Sorting(self.distinct, self.order, self.limit, reading.budget, reading.sort_rows)
        total = rows.count
        if total is not None and total > reading.sort_rows and not sorting.reducible:
            raise over_rows(total, reading.sort_rows)
        try:
            with reading.texts_within(sorting.texts(reading.texts)):
                for ids, keys in rows.keyed(sorting.wanted, sorting.rows_at_once(_MAX_ROWS)):
                    sorting.add_all(ids, self._counted(sorting.wanted, outputs, keys))
            yield from rows.arranged(outputs, sorting.order()[self.skip :], most)
        finally:
            sorting.close()
            rows.close()

    def _counted(
        self, wanted: list[Expr], outputs: list[Expr], parts: Iterator[list[Column]]
    ) -> Iterator[list[Column]]:
        """The keys to sort by; errors in values that rows show are counted when they are given out."""
        reading, shown = self.rows.reading, set(outputs)
        for columns in parts:
            reading.count([column for expr, column in zip(wanted, columns, strict=True) if expr not in shown])
            yield columns


Rows = SourceRows | JoinRows | GroupRows | Arranged
