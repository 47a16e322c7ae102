"""The factors of many clauses as rows. Making them is the slow part of a bulk registration, so the binder does it.

    binder's thread    query 0: f, g    query 1: f, h    ──>  0: f   1: g   2: h     each converted to rows once
                                                              then the boundaries of each attribute are sorted
    writer             slots and attribute IDs are known ──>  the rows of 0 1 | 0 2, gathered (`psoup.clauses.block`)

The table finds a factor by its object identity: hashing factors is slow, and queries of one template share their
factors. A table refers to no stream, so any thread may make it. After `done` a table never changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from psoup.clauses.index.bounds import Bounds, int_bounds, text_bounds
from psoup.clauses.index.clause_rows import ClauseRows
from psoup.clauses.index.delta import END, PAST_NULL, START, Edge, edges_of
from psoup.clauses.index.predicate_index import bases
from psoup.clauses.names import ClauseNames
from psoup.expressions.tree import Expr
from psoup.model import Kind
from psoup.plan.factors import Factor
from psoup.plan.standing_query import StandingQuery
from psoup.values.columns import Array

_OPEN: dict[Edge, int] = {START: -1, END: -2, PAST_NULL: -3}


class FactorTable:
    """The factors of many clauses. Add factors, call `done`, then read; see the module."""

    def __init__(self) -> None:
        self.factors: list[Factor] = []
        self.used: list[tuple[int, ...]] = []
        """The attributes of each factor, as places in `exprs`."""
        self.exprs: list[Expr] = []
        self.rows: ClauseRows | None = None
        """Each factor as a clause of its own, once `done`. Attributes are places in `exprs`."""
        self.bounds: tuple[Bounds, ...] = ()
        self._numbers: dict[int, int] = {}
        self._places: dict[Expr, int] = {}
        self._codes: list[dict[Edge, int]] = []
        """For each attribute, its boundaries, each with a number in the order of addition."""
        self._spans: list[tuple[int, int, int]] = []
        self._ends = [0]

    @classmethod
    def of(cls, clauses: Iterable[Iterable[Factor]]) -> FactorTable:
        """The table of some clauses. O(n log n), some microseconds for each factor."""
        table = cls()
        for factors in clauses:
            table.add(factors)
        table.done()
        return table

    def number(self, factor: Factor) -> int:
        """The place of a factor, which must have been added."""
        return self._numbers[id(factor)]

    def add(self, factors: Iterable[Factor]) -> None:
        """Add the factors that the table lacks."""
        for factor in factors:
            if id(factor) in self._numbers:
                continue
            self._numbers[id(factor)] = len(self.factors)
            self.factors.append(factor)
            used = []
            for term in factor.terms:
                used.append(place := self._place(term.attribute))
                codes = self._codes[place]
                for low, high in edges_of(term):
                    first = codes.setdefault(low, len(codes) - len(_OPEN))
                    self._spans.append((place, first, codes.setdefault(high, len(codes) - len(_OPEN))))
            self.used.append(tuple(used))
            self._ends.append(len(self._spans))

    def _place(self, expr: Expr) -> int:
        place = self._places.setdefault(expr, len(self.exprs))
        if place == len(self.exprs):
            self.exprs.append(expr)
            self._codes.append(dict(_OPEN))
        return place

    def done(self) -> None:
        """Sort the boundaries of each attribute, and complete the table. O(n log n)."""
        ordered = [_in_order(expr, [*codes][len(_OPEN) :]) for expr, codes in zip(self.exprs, self._codes, strict=True)]
        self.bounds = tuple(bounds for bounds, _ in ordered)
        base = bases(self.bounds)
        ranks = np.array([rank for _, ranks in ordered for rank in ranks], np.int64)
        sizes = np.diff(base)
        attribute, low, high = np.array(self._spans, np.int64).reshape(-1, 3).T
        first = (np.cumsum([0, *map(len, self.bounds)]))[attribute]

        def row(codes: Array) -> Array:
            rows = base[attribute] + np.select([codes == -1, codes < -1], [0, sizes[attribute] - 5 - codes], 0)
            keyed = codes >= 0
            rows[keyed] += 1 + ranks[first[keyed] + codes[keyed]]
            return rows.astype(np.int32)

        count = len(self.factors)
        clause_ptr = np.arange(count + 1, dtype=np.int32)
        factor_ptr = np.array(self._ends, np.int32)
        self.rows = ClauseRows(
            np.arange(count, dtype=np.uint32), clause_ptr, factor_ptr, attribute, row(low), row(high)
        )
        self._places = {}
        self._codes = []
        self._spans = []


def _in_order(expr: Expr, keys: Sequence[Any]) -> tuple[Bounds, list[int]]:
    """The sorted boundaries of an attribute, and the place of each of `keys` among them."""
    ordered = sorted(keys)
    bounds = text_bounds(ordered) if expr.type.kind is Kind.TEXT else int_bounds(np.array(ordered, np.int64))
    if len(keys) == 1:
        return bounds, [0]
    ranks = {key: rank for rank, key in enumerate(ordered)}
    return bounds, [ranks[key] for key in keys]


class Preparation:
    """Builds `PreparedQueries` from one query after the other. Takes about 30 microseconds for each query."""

    def __init__(self) -> None:
        self._namer = ClauseNames()
        self._names = [np.zeros((0, 2), np.uint64)]
        self._table = FactorTable()

    def add(self, query: StandingQuery) -> None:
        """Add the next query of the block."""
        self._names.append(self._namer.of_clause(query.factors))
        self._table.add(query.factors)

    def done(self, queries: Sequence[StandingQuery]) -> PreparedQueries:
        """Finish the block. `queries`: the added queries, in order."""
        self._table.done()
        return PreparedQueries(queries, np.concatenate(self._names), self._table)


class PreparedQueries(Sequence[StandingQuery]):
    """The queries of a bulk registration, with the names of their clauses and the table of their factors.

    `names`: uint64[n, 2], see `psoup.clauses.names`; they are valid in this process only. The object equals a list of
    the same queries.
    """

    __slots__ = ("_queries", "names", "table")

    def __init__(self, queries: Sequence[StandingQuery], names: Array, table: FactorTable) -> None:
        self._queries = queries
        self.names = names
        self.table = table

    def __len__(self) -> int:
        return len(self._queries)

    @overload
    def __getitem__(self, position: int) -> StandingQuery: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[StandingQuery]: ...
    def __getitem__(self, position: int | slice) -> StandingQuery | Sequence[StandingQuery]:
        """The query at a position, or the list of queries of a slice."""
        return self._queries[position]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self._queries) == list(other)
