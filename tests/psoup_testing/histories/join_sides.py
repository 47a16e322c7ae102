"""Joins for tests: sides made of columns, and the tuples of a join found by looking at all that there could be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psoup.expressions.conversion import comparable
from psoup.expressions.evaluate import Scope, evaluate
from psoup.expressions.tree import AttributeRef, Call, Expr, of_source, source_of
from psoup.joins.join_pieces import Joined, joined
from psoup.model import BOOLEAN, Attribute, Schema, StreamSpec, WindowClause
from psoup.plan.nodes import Join, PairFactor, Source
from psoup.values.columns import Array, Column


@dataclass
class Side:
    """Rows of columns."""

    own: list[Column]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.own[0])

    def columns(self, exprs: Sequence[Expr]) -> list[Column]:
        """The values of expressions in all rows."""
        return [self._value(expr, self.own) for expr in exprs]

    def take(self, exprs: Sequence[Expr], positions: Array) -> list[Column]:
        """The values of expressions in some rows."""
        rows = [column.take(positions) for column in self.own]
        return [self._value(expr, rows) for expr in exprs]

    def _value(self, expr: Expr, rows: list[Column]) -> Column:
        if isinstance(expr, AttributeRef):
            return rows[expr.index]
        return evaluate(expr, Scope(rows, len(rows[0])))


def ref(sides: Sequence[Side], source: int, index: int) -> AttributeRef:
    """A column of a source."""
    return AttributeRef(sides[source].own[index].type, index, f"c{index}", source)


def factor(operator: str, left: Expr, right: Expr, implied: bool = False) -> PairFactor:
    """A key or a band."""
    return PairFactor(operator, left, right, implied)


def node_of(sides: Sequence[Side], factors: Sequence[PairFactor], rest: Sequence[Expr] = ()) -> Join:
    """The join of some sides by some factors."""
    sources = []
    for place, side in enumerate(sides):
        schema = Schema(tuple(Attribute(f"c{i}", column.type) for i, column in enumerate(side.own)))
        sources.append(Source(place, StreamSpec(f"s{place}", schema), WindowClause()))
    keys = tuple(factor for factor in factors if factor.operator == "eq")
    bands = tuple(factor for factor in factors if factor.operator != "eq")
    return Join(tuple(sources), keys, bands, tuple(rest))


def tuples_of(pieces: Joined) -> list[tuple[int, ...]]:
    """All tuples, as they come."""
    return [row for piece in pieces for row in zip(*(column.tolist() for column in piece), strict=True)]


def run(node: Join, sides: Sequence[Side], **options: Any) -> tuple[list[tuple[int, ...]], int]:
    """The tuples of a join and its errors."""
    result = joined(node, sides, **options)
    return tuples_of(result), result.errors


def by_looking(node: Join, sides: Sequence[Side]) -> tuple[list[tuple[int, ...]], int]:
    """The same, by evaluating every condition for every tuple of the product of all sides."""
    if not all(side.rows for side in sides):
        return [], 0
    grid = np.meshgrid(*(np.arange(side.rows) for side in sides), indexing="ij")
    places = [rows.reshape(-1) for rows in grid]
    pairs = [comparable(f.left, f.right) for f in (*node.keys, *node.bands)]
    errors = 0
    for source, side in enumerate(sides):
        failed = np.zeros(side.rows, np.bool_)
        for operand in (operand for pair in pairs for operand in pair if source_of(operand) == source):
            (column,) = side.columns([of_source(operand, 0)])
            failed |= False if column.error is None else column.error
        errors += int(failed.sum())
    flat = [column.take(rows) for side, rows in zip(sides, places, strict=True) for column in side.own]
    scope = Scope(flat, len(places[0]))
    starts = np.cumsum([0, *(len(side.own) for side in sides)])
    true = np.ones(len(places[0]), np.bool_)
    for factor, (left, right) in zip((*node.keys, *node.bands), pairs, strict=True):
        outcome = evaluate(Call(BOOLEAN, factor.operator, (_flat(left, starts), _flat(right, starts))), scope)
        true &= outcome.values & (True if outcome.valid is None else outcome.valid)
    if node.rest:
        conditions = [evaluate(_flat(condition, starts), scope) for condition in node.rest]
        failed = np.logical_or.reduce([c.error if c.error is not None else np.zeros_like(true) for c in conditions])
        valid = [np.ones_like(true) if c.valid is None else c.valid for c in conditions]
        refused = np.logical_or.reduce([v & ~c.values for c, v in zip(conditions, valid, strict=True)])
        errors += int((true & failed & ~refused).sum())
        true &= np.logical_and.reduce([c.values & v for c, v in zip(conditions, valid, strict=True)])
    return list(zip(*(rows[true].tolist() for rows in places), strict=True)), errors


def _flat(expr: Expr, starts: Array) -> Expr:
    if isinstance(expr, AttributeRef):
        return AttributeRef(expr.type, int(starts[expr.source]) + expr.index, expr.name)
    if isinstance(expr, Call):
        return Call(expr.type, expr.name, tuple(_flat(arg, starts) for arg in expr.args))
    return expr
