"""A standing query after binding: what the engine joins with data.

WHERE is a conjunction of *boolean factors*; a factor is a union of *terms*; a term says that the order key of
one attribute (a column, or an expression that is treated as a column: a *derived attribute*) lies in one of
some intervals:

    a > 3 AND (b = 1 OR c IS NULL) AND a*b < 9
      factor 1: { a in [4, inf) }
      factor 2: { b in [1, 2) } or { c NULL }
      factor 3: { (a*b) in (-inf, 9) }
    name LIKE '%x%y'  ->  factor: { (name LIKE '%x%y') in [1, 2) }, a derived BOOLEAN: an *opaque factor*

NOT has been pushed to the leaves, so only the TRUE set of each leaf matters: NULL and errors lie outside every
interval, and in a term only if it says `nulls`.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa

from psoup.columns import Array
from psoup.expressions.tree import Expr
from psoup.model import DataType, WindowClause

Key = int | bytes

Parameter = bool | int | float | str | Decimal | datetime.datetime | datetime.date | None
"""A value for a parameter of a statement; a time without a zone is UTC."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Order keys k with low <= k < high; None is unbounded. Keys are int64, or bytes for TEXT."""

    low: Key | None
    high: Key | None


@dataclass(frozen=True, slots=True)
class Term:
    """The order key of `attribute` lies in one of `intervals` (sorted, disjoint, none empty), or is NULL if `nulls`."""

    attribute: Expr
    intervals: tuple[Interval, ...]
    nulls: bool = False


@dataclass(frozen=True, slots=True)
class Factor:
    """One conjunct: at least one of `terms` holds. No terms: never true. Terms have different attributes."""

    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Output:
    """One column of the SELECT list."""

    name: str
    expr: Expr

    @property
    def type(self) -> DataType:
        """The column's type."""
        return self.expr.type


@dataclass(frozen=True, slots=True)
class OrderKey:
    """One key of ORDER BY; NULLs come last unless `nulls_first`, in both directions."""

    expr: Expr
    descending: bool = False
    nulls_first: bool = False


@dataclass(frozen=True, slots=True)
class StandingQuery:
    """A registered text, bound to one stream.

    `clause` is the canonical FROM-WHERE text, the identity of the standing query clause (SQC) that queries share:
    equal clauses of one stream have equal factors. `factors` () matches every tuple.
    """

    text: str
    stream: str
    clause: str
    select: tuple[Output, ...]
    factors: tuple[Factor, ...]
    distinct: bool = False
    order: tuple[OrderKey, ...] = ()
    limit: int | None = None
    window: WindowClause = WindowClause()


@dataclass(frozen=True, slots=True)
class Edges:
    """One end of an interval in each of n clauses: at the key of each, or (`past`) just past it.

    `keys`: int64[n], or a LargeBinaryArray without NULL for TEXT. `open`: bool[n], where there is no such end.
    """

    keys: Array | pa.LargeBinaryArray
    past: bool
    open: Array

    def take(self, rows: Array) -> Edges:
        """Those of some clauses (int64[k])."""
        keys = self.keys[rows] if isinstance(self.keys, np.ndarray) else self.keys.take(pa.array(rows))
        return Edges(keys, self.past, self.open[rows])


@dataclass(frozen=True, slots=True)
class TermColumn:
    """A factor of each of n clauses: the key of `attribute` lies in one interval. An end that none has is None.

    Keys that are int64 have both ends: where an end is open, its key is the least or the greatest of the type.
    """

    attribute: Expr
    low: Edges | None
    high: Edges | None

    def take(self, rows: Array) -> TermColumn:
        """Those of some clauses (int64[k])."""
        low, high = (None if edges is None else edges.take(rows) for edges in (self.low, self.high))
        return TermColumn(self.attribute, low, high)


@dataclass(frozen=True, slots=True)
class ClauseColumns:
    """`count` clauses of one form: a factor of each column of `terms`, and all of `fixed`. No two concern the same.

    `never`: bool[count], clauses that no tuple satisfies, whatever their columns say; None if there is none.
    """

    count: int
    terms: tuple[TermColumn, ...]
    fixed: tuple[Factor, ...]
    never: Array | None = None

    def take(self, rows: Array) -> ClauseColumns:
        """Some clauses (int64[k]), in that order."""
        never = None if self.never is None else self.never[rows]
        return ClauseColumns(len(rows), tuple(term.take(rows) for term in self.terms), self.fixed, never)
