"""The evaluators of plan nodes. Each node turns the rows of its input into rows, and columns are computed last.

    Source ─ matches ─> Project ──> Distinct ──> Sort ──> Limit ─ rows ─> columns, gathered group by group
    Source ┐
    Source ┴ Join ────> Project ──> …

    Arrivals   the matches of a source in stream order           chunk, ascending offsets
    JoinRows   the rows of several sources that belong together  a position in each source
    GroupRows  a row for each group of either (`groups`)         a place in a table, once all rows have been folded
    Arranged   any of them, after DISTINCT and ORDER BY          tuple IDs or positions, once all keys have been seen

The right column says what a row is until its columns are gathered. LIMIT cuts rows of any kind (`cut`). No tuple is
read before the caller asks for the first row. `psoup.execution.rows.select_list` computes the columns of SELECT. If
SELECT has plain columns only, `psoup.execution.rows.record_batch` gathers them straight into a message.
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
    """Make the rows of a plan node. Reads no tuple. O(nodes)."""
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
    """Return the rows of the input unchanged. The reader computes the columns of SELECT last."""
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
    rows.order = node.keys  # one pass over the keys serves DISTINCT and ORDER BY
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
"""The most rows whose sort keys are computed at once."""


@dataclass(slots=True)
class Arranged:
    """The rows of `rows` after DISTINCT, ORDER BY and LIMIT.

    `distinct`: of rows with equal values of these expressions only the first remains. Empty means that all remain.
    `skip`, `limit`: only the rows [skip, limit) in this order remain. The IDs of all rows are in memory while the
    caller reads the rows. Each piece of columns is gathered when the caller asks for it.
    """

    rows: SourceRows | JoinRows | GroupRows
    distinct: tuple[Expr, ...] = ()
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    skip: int = 0

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1): `columns` drops the other rows later."""
        self.limit = None if rows is None else skip + rows
        self.skip = skip

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order. Raises ResourceExhausted if it must sort too many rows."""
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
        """Yield the key columns, and count their errors. Errors in outputs are counted later, when they are shown."""
        reading, shown = self.rows.reading, set(outputs)
        for columns in parts:
            reading.count([column for expr, column in zip(wanted, columns, strict=True) if expr not in shown])
            yield columns


Rows = SourceRows | JoinRows | GroupRows | Arranged
