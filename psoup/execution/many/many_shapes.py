"""DISTINCT, ORDER BY and LIMIT of many queries of one plan, in one pass for each step.

    clause  0  0  0  1  1         the clause of each row, ascending
    price   7  9  9  3  8         ORDER BY price DESC LIMIT 2
    rows    1  2  4  3            rows of the answers, by clause, then in order

Each pass goes over the rows of all clauses. `psoup.execution.many.many_groups` has GROUP BY.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.execution.rows.select_list import computed_at_once
from psoup.execution.rows.sort_keys import distinct_rows, ranks
from psoup.execution.rows.source_rows import Reading
from psoup.execution.select.many_matches import ManyMatches
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.frame import text_bytes
from psoup.expressions.tree import AttributeRef, Expr
from psoup.kernels.fold.segments import count_rows, cut_within, order_within, place_rows, put_values
from psoup.model import BIGINT, Kind
from psoup.plan.nodes import Aggregate, Distinct, Having, Join, Limit, Node, OrderKey, Project, Sort, Source
from psoup.results.runs import order_of
from psoup.results.sets import TooManyPairs
from psoup.values.columns import Array, Column, plain, value_bytes
from psoup.work.read_budget import NO_LIMIT, ReadBudget

_RANK_BYTES = 32
"""Bytes of a key in a sort: its rank and its row, each with a copy."""
_TEXT_COPIES = 2
"""The copies of distinct texts while they are ranked: in the dictionary, and as bytes to sort."""


@dataclass(frozen=True, slots=True)
class PlanShape:
    """The steps of a plan above its stream, or above its join. `node`: the Aggregate, or None."""

    node: Aggregate | None
    having: Expr | None
    outputs: tuple[Expr, ...]
    distinct: bool
    order: tuple[OrderKey, ...]
    limit: int | None
    skip: int

    @property
    def plain(self) -> bool:
        """Whether the plan has no DISTINCT, ORDER BY, LIMIT or OFFSET."""
        return not (self.distinct or self.order or self.skip) and self.limit is None

    @property
    def arranged_by(self) -> list[Expr]:
        """The distinct expressions of DISTINCT and ORDER BY."""
        return list(dict.fromkeys([*(self.outputs if self.distinct else ()), *(key.expr for key in self.order)]))

    def arranged(self, starts: Array, keys: Mapping[Expr, Column], budget: ReadBudget) -> tuple[Array, Array]:
        """Apply DISTINCT, ORDER BY and LIMIT to the rows of each clause.

        `starts`: the first input row of each clause, int64[k + 1]. `keys`: the values of `arranged_by`. Returns the
        first output row of each clause, int64[k + 1], and the input row of each output row.
        """
        rows: Array = np.arange(starts[-1])
        if self.distinct and len(rows):
            clause = Column(BIGINT, np.repeat(np.arange(len(starts) - 1), np.diff(starts)))
            rows = distinct_rows([clause, *[keys[expr] for expr in dict.fromkeys(self.outputs)]], budget)
            starts = starts_of_kept(starts, rows)
        for key in reversed(self.order):
            budget.check()
            column = keys[key.expr]
            rank = ranks(column)
            order_within(~rank if key.descending else plain(rank), starts, rows)
            if column.valid is not None:
                last = column.valid if key.nulls_first else ~column.valid
                order_within(last.astype(np.int64), starts, rows)
        counts = np.diff(starts)
        limit = NO_LIMIT if self.limit is None else self.limit
        if self.skip or int(counts.max(initial=0)) > limit:
            after = np.empty_like(starts)
            return after, rows[: cut_within(starts, self.skip, limit, rows, after)]
        return starts, rows


def shape_of(plan: Node) -> PlanShape | None:
    """The shape of a plan. None if the plan has a join without an Aggregate."""
    limit, skip, distinct, having = None, 0, False, None
    order: Sequence[OrderKey] = ()
    node = plan
    if isinstance(node, Limit):
        limit, skip, node = node.rows, node.skip, node.input
    if isinstance(node, Sort):
        order, node = node.keys, node.input
    if isinstance(node, Distinct):
        distinct, node = True, node.input
    if not isinstance(node, Project):
        return None
    outputs, below = tuple(output.expr for output in node.schema), node.input
    if isinstance(below, Having):
        having, below = below.condition, below.input
    grouped = below if isinstance(below, Aggregate) else None
    below = grouped.input if grouped is not None else below
    if not isinstance(below, Source) and (grouped is None or not isinstance(below, Join) or not below.joins_streams):
        return None
    return PlanShape(grouped, having, outputs, distinct, tuple(order), limit, skip)


class MatchBuffer:
    """Collects the matches of many clauses chunk by chunk, then orders them by clause.

    `errors`: the errors in WHERE of each clause, int64[k]. `group`: the matches, in the order of `add`. `count`: their
    number.
    """

    def __init__(self, reading: Reading, clauses: int) -> None:
        self._reading = reading
        self._which = list[Array]()
        self._places = list[Array]()
        self.group: list[tuple[Chunk, Array]] = []
        self.errors: Array = np.zeros(clauses, np.int64)
        self.count = 0
        self.starts: Array = np.zeros(clauses + 1, np.int64)
        """The first match of each clause in the order of clauses, int64[k + 1]. Set by `placed`."""

    def add(self, matches: ManyMatches) -> None:
        """Add the matches of a chunk."""
        which, offsets = matches.pairs
        if matches.errors is not None:
            self.errors += matches.errors
        if not len(which):
            return
        if not matches.entry.data.in_memory:  # read the file in its order
            order = order_of(offsets)
            which, offsets = which[order], offsets[order]
        self._which.append(which)
        self.group.append((matches.entry.data, offsets))
        self.count += len(which)

    def placed(self) -> None:
        """Compute the place of each match in the order of clauses. Called after the last `add`."""
        counts: Array = np.zeros(len(self.errors), np.int64)
        for which in self._which:
            count_rows(which, counts)
        self.starts = starts_of(counts)
        free, places, at = self.starts[:-1].copy(), np.empty(self.count, np.int64), 0
        for which in self._which:
            free_places = places[at : at + len(which)]
            place_rows(which, free, free_places)
            self._places.append(free_places)
            at += len(which)

    def columns(self, exprs: Sequence[Expr]) -> dict[Expr, Column]:
        """Compute expressions over all matches, ordered by clause. There must be at least one. Raises TooMuchText."""
        room = self._reading.charged()
        room.hold(self.count * sum([value_bytes(expr.type) for expr in dict.fromkeys(exprs)]))
        columns = {expr: column for expr in exprs if (column := self._put(expr)) is not None}
        rest = [expr for expr in dict.fromkeys(exprs) if expr not in columns]
        if rest:
            reading, rows = self._reading, self.rows()
            values = computed_at_once(rest, self.group, reading.now, reading.texts, reading.budget)
            room.hold(sum([column.nbytes for column in values]))  # a second copy, in the order of chunks
            columns |= {expr: column.take(rows) for expr, column in zip(rest, values, strict=True)}
        return columns

    def _put(self, expr: Expr) -> Column | None:
        """Copy a stored column straight to the order of clauses.

        None unless all chunks are in memory, and all values have 8 bytes and are not NULL.
        """
        if not isinstance(expr, AttributeRef) or expr.index < 0:
            return None
        columns = [chunk.columns[expr.index] for chunk, _ in self.group if chunk.in_memory]
        if len(columns) < len(self.group) or any(c.valid is not None or c.values.dtype.itemsize != 8 for c in columns):
            return None
        if expr.type.kind is Kind.TEXT:
            return None
        out = np.empty(self.count, np.int64)
        for column, (_, offsets), places in zip(columns, self.group, self._places, strict=True):
            put_values(column.values.view(np.int64), offsets, places, out)
        return Column(expr.type, out.view(columns[0].values.dtype))

    def rows(self) -> Array:
        """For each match in the order of clauses, its number in the order of `add`: int64."""
        rows: Array = np.empty(self.count, np.int64)
        at = 0
        for places in self._places:
            rows[places] = np.arange(at, at + len(places))
            at += len(places)
        return rows

    @property
    def nbytes(self) -> int:
        """Bytes of the matches and their places."""
        return 24 * self.count + self.errors.nbytes + self.starts.nbytes


class ShownRows(NamedTuple):
    """The rows of all answers, ordered by clause, then as in the answer. `counts`: the rows of each clause, int64[k].

    `rows`: the match of each row, or None if `columns` has the values. `errors`: errors in WHERE and in the arguments
    of groups, int64[k]. `hidden`: errors in expressions that choose or order rows, but are not in SELECT, int64[k].
    """

    counts: Array
    rows: Array | None
    columns: Sequence[Column]
    errors: Array
    hidden: Array


def arranged(shape: PlanShape, gathered: MatchBuffer, reading: Reading, whole: bool) -> ShownRows:
    """Arrange the gathered matches into the rows of all answers, by the `shape` of their plan.

    `whole`: also compute the columns, if the plan has no DISTINCT, ORDER BY or LIMIT. Raises TooManyPairs if a clause
    has more rows than a sort may hold. Raises TooMuchText if texts to sort are too large.
    """
    starts, errors, hidden = gathered.starts, gathered.errors, np.zeros_like(gathered.errors)
    if not gathered.count:
        return ShownRows(hidden, None, (), errors, hidden)
    if shape.plain:
        with suppress(TooMuchText):
            if whole:
                columns = gathered.columns(shape.outputs)
                return ShownRows(np.diff(starts), None, [columns[expr] for expr in shape.outputs], errors, hidden)
        return ShownRows(np.diff(starts), gathered.rows(), (), errors, hidden)
    if shape.distinct or shape.order:
        refuse_many(starts, reading.sort_rows)
    keys = gathered.columns(shape.arranged_by)
    count_within([column for expr, column in keys.items() if expr not in shape.outputs], starts, hidden)
    reading.charged().hold(arranging_bytes(keys.values()))
    starts, rows = shape.arranged(starts, keys, reading.budget)
    return ShownRows(np.diff(starts), gathered.rows()[rows], (), errors, hidden)


def arranging_bytes(keys: Iterable[Column]) -> int:
    """An upper bound of the bytes that ORDER BY or DISTINCT allocates, without the keys themselves. O(keys)."""
    return sum([_RANK_BYTES * len(key) + _TEXT_COPIES * _text_bytes(key) for key in keys])


def _text_bytes(column: Column) -> int:
    return text_bytes(column) if column.type.kind is Kind.TEXT else 0


def starts_of(counts: Array) -> Array:
    """The first row of each clause, int64[k + 1]: the prefix sum of `counts`, the rows of each clause."""
    starts: Array = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=starts[1:])
    return starts


def starts_of_kept(starts: Array, selected: Array) -> Array:
    """The first row of each clause, int64[k + 1], if only the rows `selected` (int64, ascending) remain."""
    flags: Array = np.zeros(starts[-1], np.bool_)
    flags[selected] = True
    return starts_of(flags)[starts]


def refuse_many(starts: Array, limit: int) -> None:
    """Raise TooManyPairs if a clause has more than `limit` rows.

    Then the caller halves the queries of the call, down to a few that it answers one by one.
    """
    if starts[-1] > limit and int(np.diff(starts).max()) > limit:
        raise TooManyPairs


def count_within(columns: Sequence[Column], starts: Array, errors: Array) -> None:
    """Add the errors of the columns to their clauses. `starts`: int64[k + 1], the first row of each clause."""
    if any(column.error is not None for column in columns):
        count_errors(columns, np.repeat(np.arange(len(errors)), np.diff(starts)), errors)


def count_errors(columns: Iterable[Column], clauses: Array, errors: Array) -> None:
    """Add the errors of the columns to their clauses. `clauses`: int64[m], the clause of each row."""
    for column in columns:
        if column.error is not None:
            errors += np.bincount(clauses[column.error], minlength=len(errors))
