"""The evaluators of plan nodes. Each node turns the rows of its input into rows, and columns are computed last.

    Source ─ matches ─> Project ──> Distinct ──> Sort ──> Limit ─ rows ─> columns, gathered group by group
    Source ┐
    Source ┴ Join ────> Project ──> …

    SourceRows    the matches of a source in stream order           chunk, ascending offsets
    JoinRows      the rows of several streams that belong together  a position in each stream
    ComposedRows  the rows of outer joins and their like            a position in each leaf, or MISSING
    TableRows     the rows of a subselect or a set operation        a number among rows that are kept, if a reader must
    GroupRows     a row for each group of them                      a place in a table, once all rows have been folded
    OverRows      any of them, with the columns of OVER             a place among all rows, once all have been read
    FilteredRows  the rows of any of them that satisfy a condition  as before
    Arranged      any of them, after DISTINCT and ORDER BY          references, once all keys have been seen

The right column says what a row is until its columns are gathered. LIMIT cuts rows of any kind (`cut`). No tuple is
read before the caller asks for the first row. `psoup.execution.rows.select_list` computes the columns of SELECT. If
SELECT has plain columns only, `psoup.execution.rows.record_batch` gathers them straight into a message.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from psoup.execution.aggregate.groups import GroupRows
from psoup.execution.join.join_rows import JoinRows
from psoup.execution.join.sides import MatchedSide
from psoup.execution.over.over_rows import OverRows
from psoup.execution.partners.composed_rows import ComposedRows, is_composed
from psoup.execution.partners.evaluation import Openers
from psoup.execution.partners.filtered_rows import FilteredRows
from psoup.execution.partners.join_inputs import InputSide
from psoup.execution.relations.constants import constant_pieces
from psoup.execution.relations.relation_side import RelationSide
from psoup.execution.relations.scalar_row import scalar_row
from psoup.execution.relations.set_rows import SetRows, set_name
from psoup.execution.relations.table_rows import Pieces, TableRows
from psoup.execution.rows.leaf_rows import LeafRows
from psoup.execution.rows.plan_rows import PlanRows
from psoup.execution.rows.sort import Sorting, over_rows
from psoup.execution.rows.source_rows import Reading, SourceRows
from psoup.execution.ways import BUCKETS, GROUPS, JOIN, JOIN_WAYS
from psoup.expressions.tree import Expr
from psoup.invariants import corrupt, ensure
from psoup.plan.canonical import exact_name
from psoup.plan.nodes import (
    Aggregate,
    Distinct,
    Filter,
    Having,
    Hop,
    Join,
    LastRows,
    Leaf,
    Limit,
    Node,
    OrderKey,
    Over,
    PartnerJoin,
    Project,
    Relation,
    SetOperation,
    Sort,
    Source,
    Values,
)
from psoup.values.columns import Column

__all__ = ["SourceRows", "GroupRows", "JoinRows", "Reading", "TableRows", "rows_of"]


def rows_of(node: Node, reading: Reading) -> Rows:
    """Make the rows of a plan node. Reads no tuple. O(nodes)."""
    return _EVALUATORS[type(node)](node, reading)


def _source(node: Source, reading: Reading) -> Rows:
    return SourceRows(reading, reading.matches[node.place])


def _last_rows(node: LastRows, reading: Reading) -> Rows:
    """The rows of the source, whose matches are in the window already (`psoup.execution.rows.last_rows`)."""
    return _source(node.input, reading)


def _join(node: Join, reading: Reading) -> Rows:
    if len(node.inputs) == len(reading.matches) and node.joins_streams:
        return JoinRows(reading, node, JOIN_WAYS)
    return ComposedRows(reading, node, _OPENERS)


def _partner_join(node: PartnerJoin, reading: Reading) -> Rows:
    return ComposedRows(reading, node, _OPENERS)


def _filter(node: Filter, reading: Reading) -> Rows:
    if isinstance(node.input, Relation):
        table = _relation(node.input, reading)
        table.keep(node.condition)
        return table
    if is_composed(node):
        return ComposedRows(reading, node, _OPENERS)
    return FilteredRows(_as_they_come(node.input, reading), node.condition)


def _as_they_come(node: Node, reading: Reading) -> PlanRows:
    """The rows of a node that comes before DISTINCT and ORDER BY."""
    rows = rows_of(node, reading)
    if isinstance(rows, Arranged):
        raise corrupt("plan", "rows are arranged last")
    return rows


def _source_side(node: Source, reading: Reading) -> InputSide:
    matches = reading.matches[node.place]
    return MatchedSide(matches, reading.texts, reading.budget, reading.joins.bytes, reading.run)


def _leaf_side(node: Leaf, reading: Reading) -> InputSide:
    """Open a leaf of a join."""
    return _LEAVES[type(node)](node, reading)


def _relation_side(node: Relation, reading: Reading) -> InputSide:
    return RelationSide(_relation(node, reading))


_LEAVES: dict[type[Leaf], Callable[[Any, Reading], InputSide]] = {Source: _source_side, Relation: _relation_side}
_OPENERS = Openers(JOIN, _leaf_side)


def _relation(node: Relation, reading: Reading) -> TableRows:
    types = [output.type for output in node.schema]
    pieces = _pieces_of(node.input, reading)
    if node.single:
        pieces = partial(scalar_row, pieces, types)
    return TableRows(reading, _subject(node), types, pieces)


_UNNAMED = ("", "subselect", "operand")
"""The aliases of subselects that have none in the statement."""


def _subject(node: Relation) -> str:
    """The name of a relation in messages. The binder names relations without an alias `subselect`, `union` etc."""
    operation = node.input if isinstance(node.input, SetOperation) else None
    if operation is not None and node.alias.upper() in ("", operation.operator.value):
        return set_name(operation)
    return "a subselect" if node.alias in _UNNAMED else f"the subselect {exact_name(node.alias)}"


def _set_operation(node: SetOperation, reading: Reading) -> Rows:
    types = [output.type for output in node.outputs]
    return TableRows(reading, set_name(node), types, _pieces_of(node, reading))


def _values(node: Values, reading: Reading) -> Rows:
    types = [output.type for output in node.outputs]
    return TableRows(reading, "VALUES", types, _pieces_of(node, reading))


def _pieces_of(node: Node, reading: Reading) -> Pieces:
    """The rows of a node as pieces of columns. Reads no tuple before the first piece."""
    if isinstance(node, SetOperation):
        return SetRows(node, reading, *[_pieces_of(side, reading) for side in node.inputs]).pieces
    if isinstance(node, Values):
        return partial(constant_pieces, node)
    return partial(_selected, node, reading)


def _selected(node: Node, reading: Reading, most: int) -> Generator[list[Column], None, None]:
    """Yield the columns of a SELECT, and count their errors. A large piece is charged while the caller reads it."""
    outputs, budget = [output.expr for output in node.schema], reading.budget
    for columns in rows_of(node, reading).columns(outputs, most):
        reading.count(columns)
        size = sum([column.nbytes for column in columns])
        charged = size if size > _SMALL_PIECE else 0
        budget.hold(charged, "a subselect")
        try:
            yield columns
        finally:
            budget.give_back(charged)


def _aggregate(node: Aggregate, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    assert isinstance(rows, SourceRows | LeafRows | FilteredRows | TableRows), (
        "rows are grouped before they are arranged"
    )
    return GroupRows(rows, node, GROUPS)


def _hop(node: Hop, reading: Reading) -> Rows:
    panes = rows_of(node.input, reading)
    assert isinstance(panes, GroupRows)
    return replace(panes, ways=BUCKETS, hop=node)


def _having(node: Having, reading: Reading) -> Rows:
    rows = rows_of(node.input, reading)
    assert isinstance(rows, GroupRows)
    rows.having = node.condition
    return rows


def _over(node: Over, reading: Reading) -> Rows:
    return OverRows(_as_they_come(node.input, reading), node)


def _project(node: Project, reading: Reading) -> Rows:
    """Return the rows of the input unchanged. The reader computes the columns of SELECT last."""
    return rows_of(node.input, reading)


def _distinct(node: Distinct, reading: Reading) -> Rows:
    rows = _as_they_come(node.input, reading)  # of equal ones the first is kept
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
    LastRows: _last_rows,
    Join: _join,
    PartnerJoin: _partner_join,
    Filter: _filter,
    Relation: _relation,
    SetOperation: _set_operation,
    Values: _values,
    Aggregate: _aggregate,
    Hop: _hop,
    Having: _having,
    Over: _over,
    Project: _project,
    Distinct: _distinct,
    Sort: _sort,
    Limit: _limit,
}


_SMALL_PIECE = 1 << 22
"""The most bytes of a piece of a subselect that are not charged. Nested subselects hold a piece each."""

_MAX_ROWS = 65_536
"""The most rows whose sort keys are computed at once."""


@dataclass(slots=True)
class Arranged:
    """The rows of `rows` after DISTINCT, ORDER BY and LIMIT.

    `distinct`: of rows with equal values of these expressions only the first remains. Empty means that all remain.
    `skip`, `limit`: only the rows [skip, limit) in this order remain. The IDs of all rows are in memory while the
    caller reads the rows. Each piece of columns is gathered when the caller asks for it.
    """

    rows: PlanRows
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
        if isinstance(rows, TableRows):
            sorting.beside = rows
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


Rows = SourceRows | LeafRows | GroupRows | OverRows | FilteredRows | TableRows | Arranged
