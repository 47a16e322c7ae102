"""What a plan over one stream makes of the rows of a query; and DISTINCT, ORDER BY and LIMIT of many queries at once.

    of      0  0  0  1  1         the clause of each row, ascending
    price   7  9  9  3  8         ORDER BY price DESC LIMIT 2
    kept    1  2  4  3            rows, by clause, then in the order of its answer

Rows are told apart, sorted and cut within each clause by passes over all rows. Groups: `psoup.answer.ranked`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from psoup.answer.ordering import distinct_rows, sorted_by, sorted_rows
from psoup.answer.source_rows import Reading
from psoup.answer.together import Found
from psoup.columns import Array, Column, concat_columns
from psoup.data.archived import Chunk
from psoup.expressions.tree import Expr
from psoup.kernels.order import digit_pass
from psoup.model import BIGINT
from psoup.plan.nodes import Aggregate, Distinct, Having, Limit, Node, OrderKey, Project, Sort, Source
from psoup.reading import ReadBudget
from psoup.results.runs import order_of
from psoup.results.sets import TooManyPairs


@dataclass(frozen=True, slots=True)
class Shape:
    """The nodes of a plan over one stream. `node`: what its rows are grouped by, or None."""

    node: Aggregate | None
    having: Expr | None
    outputs: tuple[Expr, ...]
    distinct: bool
    order: tuple[OrderKey, ...]
    limit: int | None
    skip: int

    @property
    def plain(self) -> bool:
        """Whether rows are shown as they come: neither told apart, nor sorted, nor cut."""
        return not (self.distinct or self.order or self.skip) and self.limit is None

    @property
    def arranged_by(self) -> list[Expr]:
        """The expressions that rows are told apart and sorted by, each once."""
        return list(dict.fromkeys([*(self.outputs if self.distinct else ()), *(key.expr for key in self.order)]))

    def arranged(self, of: Array, keys: Mapping[Expr, Column], budget: ReadBudget) -> Array:
        """The rows that are shown (int64[k]): by clause, then in the order of its answer.

        of: int64[m], ascending, the clause of each row; keys: the values of `arranged_by`. O(m) for each pass.
        """
        rows: Array = np.arange(len(of))
        if self.distinct and len(of):
            rows = distinct_rows([Column(BIGINT, of), *[keys[expr] for expr in dict.fromkeys(self.outputs)]], budget)
        if self.order:
            ordered = sorted_rows([keys[key.expr].take(rows) for key in self.order], self.order, budget)
            rows = rows[sorted_by(of[rows], ordered, budget)]
        if self.skip or self.limit is not None:
            rows = rows[_within(of[rows], self.skip, self.limit)]
        return rows


def shape_of(plan: Node) -> Shape | None:
    """The shape of a plan; None if it is over a join."""
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
    if not isinstance(below, Source):
        return None
    return Shape(grouped, having, outputs, distinct, tuple(order), limit, skip)


class Gathered:
    """The matches of some clauses as they come, chunk by chunk, and expressions over them.

    `group`: the tuples; `errors`: of WHERE, of each clause, int64[k].
    """

    def __init__(self, wanted: Sequence[Expr], reading: Reading, clauses: int) -> None:
        self._wanted, self._reading = list(wanted), reading
        self.group: list[tuple[Chunk, Array]] = []
        self.errors: Array = np.zeros(clauses, np.int64)
        self._of = list[Array]()
        self._parts: list[list[Column]] = []

    def add(self, found: Found) -> None:
        """Add the matches of a chunk."""
        which, offsets = found.pairs
        if found.errors is not None:
            self.errors += found.errors
        if not len(which):
            return
        if not found.entry.data.in_memory:  # files are read in that order
            order = order_of(offsets)
            which, offsets = which[order], offsets[order]
        self._of.append(which)
        self.group.append((found.entry.data, offsets))
        if self._wanted:
            self._parts += self._reading.computed(self._wanted, self.group[-1:])

    @property
    def of(self) -> Array:
        """The clause of each match, in the order in which they came: int64[m]."""
        return np.concatenate(self._of) if self._of else np.zeros(0, np.int64)

    def columns(self) -> dict[Expr, Column]:
        """The expressions over all matches, of which there is one at least."""
        return dict(zip(self._wanted, map(concat_columns, zip(*self._parts, strict=True)), strict=True))

    @property
    def nbytes(self) -> int:
        """Bytes of what was added."""
        return sum(column.nbytes for columns in self._parts for column in columns) + 16 * sum(map(len, self._of))


class Shown(NamedTuple):
    """Rows that are shown: the clause of each, int64[m], ascending, then in the order of its answer.

    `rows`: which matches they are, or None if `columns` are what they show. `errors`, `hidden`: values that could not
    be computed, of each clause, int64[k]: of WHERE, and of groups; and of what rows are chosen by, but do not show.
    """

    of: Array
    rows: Array | None
    columns: Sequence[Column]
    errors: Array
    hidden: Array


def arranged(shape: Shape, gathered: Gathered, most_rows: int, budget: ReadBudget) -> Shown:
    """The matches that are shown. Raises TooManyPairs if a clause has more than `most_rows`, which it may sort."""
    of, hidden = gathered.of, np.zeros_like(gathered.errors)
    rows = by_clause(of, len(hidden))
    of = of[rows]
    if len(of):
        if shape.distinct or shape.order:
            refuse_many(of, most_rows)
        keys = gathered.columns() if shape.arranged_by else {}
        keys = {expr: column.take(rows) for expr, column in keys.items()}
        count_errors([column for expr, column in keys.items() if expr not in shape.outputs], of, hidden)
        kept = shape.arranged(of, keys, budget)
        of, rows = of[kept], rows[kept]
    return Shown(of, rows, (), gathered.errors, hidden)


def by_clause(of: Array, clauses: int) -> Array:
    """The rows (int64) by clause, those of one clause as they come. of: int64[m], below `clauses`. O(m + clauses)."""
    rows: Array = np.arange(len(of))
    if len(of) < 2:
        return rows
    out, ends = np.empty_like(rows), np.empty(1 << (clauses - 1).bit_length(), np.int64)
    digit_pass(of, 0, 0, rows, ends, out)  # a place for each clause: rows of a chunk come by clause, so they lie near
    return out


def refuse_many(of: Array, most: int) -> None:
    """Raise TooManyPairs if a clause has more than so many rows: it is answered, or refused, by itself."""
    if len(of) > most and int(np.bincount(of).max()) > most:
        raise TooManyPairs


def count_errors(columns: Iterable[Column], of: Array, errors: Array) -> None:
    """Add the values that could not be computed to the errors of their clauses."""
    for column in columns:
        if column.error is not None:
            errors += np.bincount(of[column.error], minlength=len(errors))


def _within(of: Array, skip: int, limit: int | None) -> Array:
    """The rows (int64) that are among the first `limit` of their query after the first `skip`. of: ascending. O(m)."""
    starts = np.flatnonzero(np.append(True, of[1:] != of[:-1])) if len(of) else np.zeros(0, np.int64)
    counts = np.diff(np.append(starts, len(of)))
    place = np.arange(len(of)) - np.repeat(starts, counts)
    return np.flatnonzero(place >= skip if limit is None else (place >= skip) & (place < skip + limit))
