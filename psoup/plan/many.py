"""Clauses of one form as columns: what a block of queries is joined as, without an object for each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.columns import Array
from psoup.expressions.tree import Expr
from psoup.plan.factors import Factor


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
