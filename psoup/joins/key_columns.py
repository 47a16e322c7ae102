"""Operands of pair factors as int64 keys that compare exactly as the operands do.

    BIGINT, DATE, …     itself; DOUBLE: its order key        operands of one type compare as columns do
    DECIMAL(_, 1), (_, 3)    105 -> 10500 | 10500            in units of the finer scale; beyond int64 nothing is equal
    BIGINT <= DOUBLE    7 | 7.9 -> 7 | 7                     the DOUBLE becomes an integer with the same comparisons
    TEXT                a number for each text; in text order if the factor is a band

A row with a NULL operand, or without a possible partner, does not take part. A row with a failed operand does not take
part either, and counts as an error. So a comparison of keys is exact. Only a hash of several keys needs a further test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.conversion import comparable
from psoup.expressions.frame import to_large_string
from psoup.expressions.tree import Expr, of_source
from psoup.joins.budget import JoinBudget
from psoup.joins.side import JoinSide
from psoup.joins.wide_operands import wide_keys
from psoup.model import Kind
from psoup.plan.canonical import expr_text
from psoup.plan.nodes import Join, PairFactor
from psoup.values.columns import Array, Column

_LEAST = -(2**63)
"""The least key."""
_GREATEST = 2**63 - 1
"""The greatest key."""
_LIMIT = 2.0**63
"""The least DOUBLE above all BIGINTs."""
FLIPPED = {"eq": "eq", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""Each operator after its operands are swapped."""


@dataclass(frozen=True, slots=True)
class Edge:
    """A factor between two sources: the operator, and the keys of both sides, int64 by row.

    `implied`: whether other factors imply this one. `text`, `left_text`, `right_text`: of the factor and its operands.
    """

    operator: str
    left: int
    right: int
    left_keys: Array
    right_keys: Array
    implied: bool
    text: str
    left_text: str
    right_text: str

    def towards(self, source: int) -> Edge:
        """The same factor with `source` on the right."""
        if self.right == source:
            return self
        operator, left, right = FLIPPED[self.operator], self.right, self.left
        keys, texts = (self.right_keys, self.left_keys), (self.right_text, self.left_text)
        return Edge(operator, left, right, *keys, self.implied, self.text, *texts)


@dataclass(slots=True)
class JoinKeys:
    """The edges of a join. `alive`: flags of the rows of each side that take part, bool[rows]; None for all rows.

    `errors`: the number of rows with a failed operand.
    """

    edges: list[Edge]
    alive: list[Array | None]
    errors: int


def keyed(node: Join, sides: Sequence[JoinSide], room: JoinBudget) -> JoinKeys:
    """Compute the operands of all sides as keys. O(rows * operands)."""
    names = tuple([leaf.alias for leaf in node.leaves])
    factors = [_compared(factor, names) for factor in (*node.keys, *node.bands)]
    wanted: list[dict[Expr, None]] = [{} for _ in sides]
    for factor in factors:
        wanted[factor.left][factor.left_operand] = None
        wanted[factor.right][factor.right_operand] = None
    columns: list[dict[Expr, Column]] = []
    for side, exprs in zip(sides, wanted, strict=True):
        room.hold(8 * side.rows * len(exprs), "the keys of its sides")
        columns.append(dict(zip(exprs, side.columns(list(exprs)), strict=True)))
    keys = _Keys(factors, columns, room)
    edges = [keys.edge(factor) for factor in factors]
    return JoinKeys(edges, keys.alive, keys.errors)


@dataclass(frozen=True, slots=True)
class _Compared:
    """A factor whose operands have comparable types, each an expression over source 0 of its side."""

    operator: str
    left: int
    left_operand: Expr
    right: int
    right_operand: Expr
    implied: bool
    text: str
    left_text: str
    right_text: str

    def flipped(self) -> _Compared:
        """The same factor with its sides swapped."""
        operator, left, right = FLIPPED[self.operator], self.right, self.left
        operands, texts = (self.right_operand, self.left_operand), (self.right_text, self.left_text)
        return _Compared(operator, left, operands[0], right, operands[1], self.implied, self.text, *texts)


@lru_cache(4_096)
def _compared(factor: PairFactor, names: tuple[str, ...]) -> _Compared:
    """The factor with operands of comparable types. `names`: the names of the sources.

    Cached across invocations, because computing it took 15 us of the 65 us of a join of few rows.
    """
    left, right = comparable(factor.left, factor.right)
    (first, second), aliases = factor.sources, names if all(names) else ()
    texts = factor.written(aliases), expr_text(left, aliases), expr_text(right, aliases)
    return _Compared(factor.operator, first, of_source(left, 0), second, of_source(right, 0), factor.implied, *texts)


class _Keys:
    """Computes the keys of all operands. An operand has one array for each form, so that steps can share its builds."""

    def __init__(self, factors: Sequence[_Compared], columns: Sequence[dict[Expr, Column]], room: JoinBudget) -> None:
        self.alive: list[Array | None] = [None] * len(columns)
        self.errors = 0
        self._columns = columns
        self._room = room
        self._made: dict[tuple[int, Expr, str], Array] = {}
        for source, operands in enumerate(columns):
            self._leave_out(source, list(operands.values()))
        for ordered in (False, True):
            texts = [f for f in factors if f.left_operand.type.kind is Kind.TEXT and (f.operator != "eq") == ordered]
            if texts:
                self._number_texts(texts, ordered)

    def edge(self, factor: _Compared) -> Edge:
        """The keys of a factor."""
        operator, left, right = (
            factor.operator,
            (factor.left, factor.left_operand),
            (factor.right, factor.right_operand),
        )
        first, second = left[1].type, right[1].type
        kinds = (first.kind, second.kind)
        if kinds in ((Kind.DOUBLE, Kind.BIGINT), (Kind.DOUBLE, Kind.WIDE)):
            return self.edge(factor.flipped())
        if kinds == (Kind.BIGINT, Kind.DOUBLE):
            keys = self._scaled(left, 0, True), self._whole(right, operator)
            operator = {"lt": "le", "gt": "ge"}.get(operator, operator)
        elif Kind.WIDE in kinds:
            first_keys, second_keys, operator = self._wide(left, right, operator)
            keys = first_keys, second_keys
        elif kinds[0] is Kind.TEXT:
            form = "text" if operator == "eq" else "ranked"
            keys = self._made[*left, form], self._made[*right, form]
        else:
            places, exact = second.scale - first.scale, operator == "eq"
            keys = self._scaled(left, max(places, 0), exact), self._scaled(right, max(-places, 0), exact)
        texts = factor.text, factor.left_text, factor.right_text
        return Edge(operator, factor.left, factor.right, *keys, factor.implied, *texts)

    def _leave_out(self, source: int, columns: Sequence[Column]) -> None:
        """Exclude the rows with a NULL operand. Count each row with a failed operand once."""
        failed = [column.error for column in columns if column.error is not None]
        if failed:
            self.errors += int(np.count_nonzero(np.logical_or.reduce(failed)))
        for column in columns:
            if column.valid is not None:
                self._only(source, column.valid)

    def _only(self, source: int, can: Array) -> None:
        if not can.all():
            alive = self.alive[source]
            self.alive[source] = can if alive is None else alive & can

    def _scaled(self, operand: tuple[int, Expr], places: int, exact: bool) -> Array:
        """The order keys of an operand times 10**places. A key beyond int64 becomes the least or the greatest int64.

        `exact`: whether rows with such a key are excluded.
        """
        name = (*operand, f"{places} {exact}" if places else "plain")
        keys = self._made.get(name)
        if keys is None:
            source, expr = operand
            keys = self._columns[source][expr].order_keys()
            if places:
                limit = _GREATEST // 10**places
                within = (keys >= -limit) & (keys <= limit)
                beyond = np.where(keys < 0, _LEAST, _GREATEST)
                keys = np.where(within, np.where(within, keys, 0) * 10**places, beyond)
                if exact:
                    self._only(source, within)
            self._made[name] = keys
        return keys

    def _whole(self, operand: tuple[int, Expr], operator: str) -> Array:
        """Integer keys of a DOUBLE operand; see `whole_keys`. Rows that no BIGINT can satisfy are excluded."""
        name = (*operand, operator)
        keys = self._made.get(name)
        if keys is None:
            source, expr = operand
            keys, can = whole_keys(self._columns[source][expr].values, operator)
            self._only(source, can)
            self._made[name] = keys
        return keys

    def _wide(self, left: tuple[int, Expr], right: tuple[int, Expr], operator: str) -> tuple[Array, Array, str]:
        """The keys of operands of which one has 128 bits, and the operator between them."""
        columns = [self._columns[source][expr] for source, expr in (left, right)]
        first, second, can, operator = wide_keys(columns[0], columns[1], operator)
        self._only(right[0], can)
        return first, second, operator

    def _number_texts(self, factors: Sequence[_Compared], ordered: bool) -> None:
        """Give each distinct text of all operands a number, its key. `ordered`: numbers follow the order of texts."""
        both = [((f.left, f.left_operand), (f.right, f.right_operand)) for f in factors]
        names = list(dict.fromkeys(operand for operands in both for operand in operands))
        columns = [self._columns[source][expr] for source, expr in names]
        texts = [to_large_string(column) for column in columns]
        self._room.hold(sum(int(c.values[-1] - c.values[0]) for c in columns), "the texts of its keys")
        encoded = pa.chunked_array(texts, pa.large_string()).dictionary_encode()
        ranks = None
        if ordered:
            dictionary = encoded.chunk(0).dictionary
            ranks = np.empty(len(dictionary), np.int64)
            ranks[pc.sort_indices(dictionary).to_numpy()] = np.arange(len(dictionary))
        for (source, expr), numbers in zip(names, encoded.chunks, strict=True):
            codes = numbers.indices.fill_null(0).to_numpy().astype(np.int64)
            keys = codes if ranks is None or not len(ranks) else ranks[codes]
            self._made[source, expr, "ranked" if ordered else "text"] = keys


def whole_keys(values: Array, operator: str) -> tuple[Array, Array]:
    """Integer keys for float64 values, and flags of the values that some BIGINT can satisfy.

    For every BIGINT `whole`, `whole operator value` equals the comparison of `whole` with the key. The latter uses <=
    in place of <, and >= in place of >.
    """
    floor, ceiling = np.floor(values), np.ceil(values)
    above = ~(values < _LIMIT)  # also NaN, which sorts last
    below = values < -_LIMIT
    inside = ~(above | below)
    if operator == "eq":
        can = inside & (floor == values)
        return np.where(can, floor, 0.0).astype(np.int64), can
    keys = np.where(inside, floor if operator in ("le", "gt") else ceiling, 0.0).astype(np.int64)
    if operator in ("ge", "gt"):
        return np.where(below, _LEAST, keys + (operator == "gt")), ~above
    none_below = below | ((keys == _LEAST) & (operator == "lt"))
    return np.where(above, _GREATEST, keys - (operator == "lt")), ~none_below
