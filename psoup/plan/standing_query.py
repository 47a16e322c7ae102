"""Bound standing queries, as the engine joins them with data: single queries, and many clauses of one form as columns.

StandingQuery    one query: its factors, sources and plan
ClauseColumns    the clauses of up to a million queries: for each attribute, the ends of its interval as columns
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from psoup.expressions.tree import Expr
from psoup.model import WindowClause
from psoup.plan.column_names import unique_names
from psoup.plan.factors import Factor
from psoup.plan.nodes import Node, Output, Source
from psoup.plan.written_text import written_clause
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Edges:
    """The lower or the upper ends of the intervals of n clauses. An end is at its key, or with `past` just after it.

    `keys`: int64[n], or a LargeBinaryArray without NULL for TEXT. `open`: bool[n], True for clauses whose interval has
    no such end.
    """

    keys: Array | pa.LargeBinaryArray
    past: bool
    open: Array

    def take(self, rows: Array) -> Edges:
        """The ends of the clauses at positions `rows` (int64[k])."""
        keys = self.keys[rows] if isinstance(self.keys, np.ndarray) else self.keys.take(pa.array(rows))
        return Edges(keys, self.past, self.open[rows])


@dataclass(frozen=True, slots=True)
class TermColumn:
    """A factor for each of n clauses: the key of `attribute` lies in one interval, from `low` to `high`.

    An end is None if no clause has it. For int64 keys both ends exist: an open end has the least or the greatest key of
    the type.
    """

    attribute: Expr
    low: Edges | None
    high: Edges | None

    def take(self, rows: Array) -> TermColumn:
        """The factors of the clauses at positions `rows` (int64[k])."""
        low, high = (None if edges is None else edges.take(rows) for edges in (self.low, self.high))
        return TermColumn(self.attribute, low, high)


@dataclass(frozen=True, slots=True)
class ClauseColumns:
    """A number of clauses of one form. Each has one factor from each column of `terms`, and all factors of `fixed`.

    All these factors have different attributes. `never`: bool[count], True for clauses that no tuple can match,
    whatever their factors are. None if there are no such clauses.
    """

    count: int
    terms: tuple[TermColumn, ...]
    fixed: tuple[Factor, ...]
    never: Array | None = None

    def take(self, rows: Array) -> ClauseColumns:
        """The clauses at positions `rows` (int64[k]), in this order."""
        never = None if self.never is None else self.never[rows]
        return ClauseColumns(len(rows), tuple(term.take(rows) for term in self.terms), self.fixed, never)


Parameter = bool | int | float | str | Decimal | datetime.datetime | datetime.date | None
"""A value for a parameter of a statement. A time without a zone is in UTC."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of a query from one stream: one source of FROM, and the conditions of WHERE on it.

    `clause`: the canonical FROM-WHERE text. It identifies the standing query clause (SQC), which queries share. Equal
    clauses of one stream have equal factors. A selection without `factors` matches every tuple.
    """

    source: Source
    clause: str
    factors: tuple[Factor, ...]

    @property
    def written(self) -> str:
        """The clause for people, with the operators of SQL (`psoup.plan.written_text`). O(its size)."""
        return written_clause(self.clause, self.source.spec.name, self.factors)


@dataclass(frozen=True, slots=True)
class StandingQuery:
    """A bound statement: its plan, and its selection of each source of the plan, in the order of FROM.

    A join has several selections, and `sides`. A side is a selection as a query over one stream, which a user could
    register. `stream`, `window`, `clause` and `factors` belong to the only source. They raise ValueError for a join.
    `notes`: remarks for the author, such as a LEFT JOIN that WHERE turns into an inner join. EXPLAIN shows them.
    """

    text: str
    selections: tuple[Selection, ...]
    plan: Node
    sides: tuple[StandingQuery, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def select(self) -> tuple[Output, ...]:
        """The columns of the answer."""
        return self.plan.schema

    @property
    def names(self) -> tuple[str, ...]:
        """Different names for the columns of the answer, without regard to case. O(columns)."""
        return unique_names([output.name for output in self.select])

    @property
    def sources(self) -> tuple[Source, ...]:
        """The sources, in the order of FROM, possibly with a stream several times."""
        return tuple([selection.source for selection in self.selections])

    @property
    def streams(self) -> tuple[str, ...]:
        """The names of the streams, each once, in the order of FROM."""
        return tuple(dict.fromkeys([selection.source.spec.name for selection in self.selections]))

    @property
    def stream(self) -> str:
        """The stream's name."""
        return self._only.source.spec.name

    @property
    def window(self) -> WindowClause:
        """The window's bounds."""
        return self._only.source.window

    @property
    def clause(self) -> str:
        """The canonical FROM-WHERE text."""
        return self._only.clause

    @property
    def written(self) -> str:
        """The FROM-WHERE text for people."""
        return self._only.written

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The factors that a tuple must satisfy."""
        return self._only.factors

    @property
    def _only(self) -> Selection:
        (selection,) = self.selections
        return selection
