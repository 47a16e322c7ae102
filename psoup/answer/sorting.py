"""A sort in the making: the keys of rows as they come, and in the end the tuple IDs in the order of the answer.

    group of matches ──> (IDs, keys) held ──too many?──> only those that can be in the answer (DISTINCT, LIMIT)
    all of them      ──> IDs, sorted                     keys are dropped; 4 or 8 bytes a row are left

Rows themselves are not held: the reader of the answer gathers them by their IDs, piece by piece. The bytes held are
charged to the budget of the read, and so are the rows (`sort_rows`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np

from psoup.answer.ordering import distinct_rows, flagged, pieces, sorted_rows
from psoup.budgets import SORT_ROWS
from psoup.columns import Array, Column, concat_columns, concatenated
from psoup.errors import ResourceExhausted
from psoup.expressions.tree import Expr
from psoup.plan.nodes import OrderKey
from psoup.reading import ReadBudget

_REDUCED_FROM = 262_144
"""Rows from which on it is worth while to drop those that cannot be in the answer."""
_GROWN = 4
"""How many times as many rows as could be in the answer are held before that is done again."""


def most_held(rows: int, limit: int | None) -> int:
    """The most of so many rows that a sort holds of which an answer shows the first `limit`."""
    return rows if limit is None else min(rows, max(_REDUCED_FROM, _GROWN * limit))


class Sorting:
    """The sort of one answer: its rows told apart by `distinct` (() keeps all), sorted by `order`, the first `limit`.

    `wanted`: the expressions to evaluate for each group; `close` gives everything back.
    """

    def __init__(
        self,
        distinct: Sequence[Expr],
        order: Sequence[OrderKey],
        limit: int | None,
        budget: ReadBudget,
        most_rows: int,
    ) -> None:
        self._order, self._limit = order, limit
        self._budget = budget
        self._most_rows = most_rows
        self.wanted: list[Expr] = list(dict.fromkeys(chain(distinct, (key.expr for key in order))))
        self._told_apart = len(dict.fromkeys(distinct))
        self._groups: list[tuple[Array, list[Column]]] = []
        self._rows = 0
        self._of_use = 0
        self._held = 0

    def add_all(self, ids: Array, parts: Iterable[list[Column]]) -> None:
        """Add a group of matches in parts: their tuple IDs (int64[n]) and, part by part, the values of `wanted`."""
        start = 0
        for keys in parts:
            stop = start + len(keys[0])
            self.add(ids[start:stop], keys)
            start = stop

    def add(self, ids: Array, keys: list[Column]) -> None:
        """Add one part."""
        self._groups.append((ids, keys))
        self._rows += len(ids)
        needed = _bytes(ids, keys)
        if self.reducible and (
            self._rows > max(_REDUCED_FROM, _GROWN * self._of_use)
            or self._rows > self._most_rows
            or self._budget.held + needed > self._budget.sort_bytes
        ):
            self._reduce()
        else:
            self._hold(needed)
        if self._rows > self._most_rows:
            raise over_rows(self._rows, self._most_rows)

    def order(self) -> Array:
        """Return tuple IDs in the order of the answer, int64 or (less the least of them) uint32; see `least`. Once."""
        if not self._groups:
            return np.zeros(0, np.int64)
        ids, keys = self._joined()
        with_sort = 8 * self._rows * (len(keys) + 1)
        self._hold(with_sort)
        rows = self._arranged(keys, self._limit)
        sorted_ids = _taken(ids, rows, self._budget)
        self._groups = []
        self._give_back(self._held)
        self._hold(sorted_ids.nbytes)
        return sorted_ids

    def close(self) -> None:
        """Give back all memory that is still held."""
        self._groups = []
        self._give_back(self._held)

    @property
    def reducible(self) -> bool:
        """Whether a row may turn out not to be in the answer."""
        return self._told_apart > 0 or self._limit is not None

    def _arranged(self, keys: list[Column], limit: int | None) -> Array:
        """The rows of the answer in its order, among those that are held."""
        distinct = self._distinct(keys)
        if distinct is not None:
            keys = _taken_columns(keys, distinct, self._budget)
        if self._order:
            places = [self.wanted.index(key.expr) for key in self._order]
            rows: Array = sorted_rows([keys[k] for k in places], self._order, self._budget)[:limit]
        else:
            rows = np.arange(len(keys[0]))[:limit]
        return rows if distinct is None else _taken(distinct, rows, self._budget)

    def _distinct(self, keys: list[Column]) -> Array | None:
        """The first rows of their kind, ascending; None if all rows are."""
        if not self._told_apart:
            return None
        rows = distinct_rows(keys[: self._told_apart], self._budget)
        return None if len(rows) == len(keys[0]) else rows

    def _reduce(self) -> None:
        """Hold only rows that can be in the answer, in the order in which they came."""
        ids, keys = self._joined()
        self._give_back(self._held)
        if self._limit is None:
            rows = self._distinct(keys)
        else:
            useful: Array = np.zeros(len(ids), np.bool_)
            useful[self._arranged(keys, self._limit)] = True
            rows = flagged(useful, self._budget)
        if rows is not None:
            ids, keys = _taken(ids, rows, self._budget), _taken_columns(keys, rows, self._budget)
        self._groups, self._rows, self._of_use = [(ids, keys)], len(ids), len(ids)
        self._hold(_bytes(ids, keys))

    def _joined(self) -> tuple[Array, list[Column]]:
        """All rows that are held, as one group."""
        groups, self._groups = self._groups, []
        check = self._budget.check
        ids = concatenated([ids for ids, _ in groups], check)
        return ids, [concat_columns(parts, check) for parts in zip(*(keys for _, keys in groups), strict=True)]

    def _hold(self, size: int) -> None:
        self._budget.hold(size)
        self._held += size

    def _give_back(self, size: int) -> None:
        self._budget.give_back(size)
        self._held -= size


def _taken(values: Array, rows: Array, budget: ReadBudget) -> Array:
    """`values[rows]`, by pieces. O(rows)."""
    made: Array = np.empty((len(rows), *values.shape[1:]), values.dtype)
    for piece in pieces(len(rows), budget):
        made[piece] = values[rows[piece]]
    return made


def _taken_columns(columns: list[Column], rows: Array, budget: ReadBudget) -> list[Column]:
    """The columns at some rows, one at least, by pieces."""
    return [
        concat_columns([column.take(rows[piece]) for piece in pieces(len(rows), budget)], budget.check)
        for column in columns
    ]


def over_rows(rows: int, most: int) -> ResourceExhausted:
    """The error of more rows than a sort may hold."""
    return ResourceExhausted(
        f"ORDER BY or DISTINCT over {rows:,} rows is more than the {most:,} that one invocation may hold (sort_rows);"
        " narrow the window or the WHERE clause, or add a LIMIT",
        reason="SORT_BUDGET",
        rows=rows,
        **SORT_ROWS.over(rows, most),
    )


def _bytes(ids: Array, keys: Sequence[Column]) -> int:
    return int(ids.nbytes) + sum(column.nbytes for column in keys)
