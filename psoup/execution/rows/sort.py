"""The sort of one answer. It collects tuple IDs and sort keys part by part, and returns the IDs in the answer's order.

    group of matches ──> (IDs, keys) held ──too many?──> only those that can be in the answer (DISTINCT, LIMIT)
    all of them      ──> IDs, sorted                     keys are dropped; 4 or 8 bytes a row are left

Other columns are not in memory. The caller gathers them by the IDs, piece by piece. The sort charges its bytes to the
budget of the read, and `sort_rows` bounds its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Protocol

import numpy as np

from psoup.budgets import SORT_ROWS
from psoup.config import TextLimits
from psoup.errors import ResourceExhausted
from psoup.execution.rows.sort_keys import distinct_rows, flagged, pieces, sorted_rows
from psoup.expressions.tree import Expr
from psoup.model import Kind
from psoup.plan.nodes import OrderKey
from psoup.values.columns import Array, Column, concat_columns, concatenated, value_bytes
from psoup.work.read_budget import ReadBudget

_REDUCED_FROM = 262_144
"""The least number of held rows at which the sort drops rows that cannot be in the answer."""
_GROWN = 4
"""The factor by which the rows, or their bytes, must grow after a drop before the sort drops rows again."""
_REDUCED_BYTES = 1 << 25
"""The least bytes of new rows at which the sort drops rows, unless the budget is short. It matters for long keys."""
_ROOM_SHARE = 8
"""The budget is short if new rows take more than an eighth of the bytes that older rows leave."""
_FREE_SHARE = 4
"""New rows beside the keys take at most a quarter of the free bytes. A drop copies the rows that remain."""
_PIECE_SHARE = 16
"""The keys of one piece of rows take at most a sixteenth of the bytes that the budget allows."""
_MOST_BYTES = 1 << 28
"""The bytes that a read without a limit assumes, to derive the size of a piece."""
_LEAST_ROWS = 64
"""The least number of rows of a piece."""
_ID_BYTES = 8
"""Bytes of a tuple ID."""


def most_held(rows: int, limit: int | None) -> int:
    """An upper bound of the rows that a sort of `rows` rows holds at once. `limit`: the rows of the answer."""
    return rows if limit is None else min(rows, max(_REDUCED_FROM, _GROWN * limit))


class KeptRows(Protocol):
    """Rows that are kept beside their sort keys, until they are shown."""

    @property
    def fresh_bytes(self) -> int:
        """The bytes of the rows that came after the last call of `drop`."""
        ...

    def drop(self, remaining: Array, last: int) -> None:
        """Drop the rows with IDs of at most `last`, except for `remaining` (int64, ascending)."""
        ...


class Sorting:
    """The sort of one answer.

    `distinct`: of rows with equal values of these expressions only the first remains. () keeps all rows. `order`: the
    keys of ORDER BY. `limit`: only the first rows of the order remain. `wanted`: the expressions whose values `add`
    takes. `close` returns all bytes to the budget.
    """

    def __init__(
        self,
        distinct: Sequence[Expr],
        order: Sequence[OrderKey],
        limit: int | None,
        budget: ReadBudget,
        most_rows: int,
    ) -> None:
        self._order = order
        self._limit = limit
        self._budget = budget
        self._most_rows = most_rows
        self.wanted: list[Expr] = list(dict.fromkeys(chain(distinct, (key.expr for key in order))))
        self._told_apart = len(dict.fromkeys(distinct))
        self._piece = max(min(budget.sort_bytes, _MOST_BYTES) // _PIECE_SHARE, 1)
        """The approximate bytes of the sort keys of one piece of rows."""
        self._groups: list[tuple[Array, list[Column]]] = []
        self.beside: KeptRows | None = None
        """Rows whose IDs are sorted, if they are kept. They are dropped together with their keys."""
        self.reduced = 0
        """The number of times that the sort dropped rows that cannot be in the answer."""
        self._fresh = 0
        """The bytes that were added after the last drop of rows."""
        self._rows = 0
        self._of_use = 0
        self._held = 0

    def rows_at_once(self, most: int) -> int:
        """The most rows for one call of `add_all`: at most `most`, and their keys without texts fit in one piece."""
        each = _ID_BYTES + sum([value_bytes(expr.type) for expr in self.wanted])
        return min(most, max(self._piece // each, _LEAST_ROWS))

    def texts(self, limits: TextLimits) -> TextLimits:
        """Reduce the limits of texts so that the texts of several rows fit in one piece."""
        return limits.in_pieces(self._piece)

    def add_all(self, ids: Array, parts: Iterable[list[Column]]) -> None:
        """Add a group of matches: their tuple IDs (int64[n]), and the values of `wanted` in parts.

        Each part is charged before the caller computes the next one.
        """
        start = 0
        for keys in parts:
            stop = start + len(keys[0])
            self.add(ids[start:stop], keys)
            start = stop

    def add(self, ids: Array, keys: list[Column]) -> None:
        """Add one part: tuple IDs, and the values of `wanted`. Raises ResourceExhausted."""
        needed = _bytes(ids, keys)
        self._hold(needed)
        self._groups.append((ids, keys))
        self._rows += len(ids)
        self._fresh += needed
        if self.reducible and (
            self._rows > max(_REDUCED_FROM, _GROWN * self._of_use)
            or self._rows > self._most_rows
            or self._fresh > self._enough()
            or (self.beside is not None and self.beside.fresh_bytes > min(self._enough(), self._free // _FREE_SHARE))
        ):
            self._reduce()
        if self._rows > self._most_rows:
            raise over_rows(self._rows, self._most_rows)

    def order(self) -> Array:
        """Return the IDs that `add` took, in the order of the answer. Called once."""
        if not self._groups:
            return np.zeros(0, np.int64)
        ranks = 8 * self._rows * (len(self.wanted) + 1)
        with self._while_held(self._work() if self.reduced else ranks):
            ids, keys = self._joined()
            rows = self._arranged(keys, self._limit)
        sorted_ids = _taken(ids, rows, self._budget)
        self._groups = []
        self._give_back(self._held)
        self._hold(sorted_ids.nbytes)
        return sorted_ids

    def close(self) -> None:
        """Drop all rows, and return their bytes to the budget. Idempotent."""
        self._groups = []
        self._give_back(self._held)

    @property
    def reducible(self) -> bool:
        """Whether the sort can drop rows, because of DISTINCT or LIMIT."""
        return self._told_apart > 0 or self._limit is not None

    def _arranged(self, keys: list[Column], limit: int | None) -> Array:
        """The places of the answer's rows among `keys`, in the order of the answer."""
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
        """The places of the rows that DISTINCT keeps, ascending. None if it keeps all."""
        if not self._told_apart:
            return None
        rows = distinct_rows(keys[: self._told_apart], self._budget)
        return None if len(rows) == len(keys[0]) else rows

    def _enough(self) -> int:
        """The bytes of new rows at which the sort drops rows. The drop itself needs free bytes of the budget."""
        used = self._held - self._fresh
        return min(max(_REDUCED_BYTES, _GROWN * used), max(self._budget.sort_bytes - used, 0) // _ROOM_SHARE)

    @property
    def _free(self) -> int:
        """The bytes that the budget of the read still allows."""
        return max(self._budget.sort_bytes - self._budget.held, 0)

    def _work(self) -> int:
        """An upper bound of the bytes that a sort of the held rows allocates. It joins and ranks column by column."""
        columns = [*zip(*(keys for _, keys in self._groups), strict=True)]
        sizes = [sum([part.nbytes for part in parts]) for parts in columns]
        texts = [size for size, expr in zip(sizes, self.wanted, strict=True) if expr.type.kind is Kind.TEXT]
        return max(max(sizes, default=0), 8 * self._rows * (len(columns) + 1) + max(texts, default=0))

    def _reduce(self) -> None:
        """Drop the rows that cannot be in the answer. The remaining rows keep the order in which they were added."""
        with self._while_held(self._work()):
            ids, keys = self._joined()
            rows = self._distinct(keys) if self._limit is None else self._useful(keys)
        last = int(ids[-1]) if ids.ndim == 1 and len(ids) else 0
        if rows is not None:
            size = ids.itemsize * len(rows) + sum([column.bytes_at(rows) for column in keys])
            with self._while_held(size):
                ids, keys = _taken(ids, rows, self._budget), _taken_columns(keys, rows, self._budget)
        self._groups = [(ids, keys)]
        self._rows = len(ids)
        self._of_use = len(ids)
        self._give_back(self._held)
        self._hold(_bytes(ids, keys))
        self._fresh = 0
        self.reduced += 1
        if self.beside is not None:
            self.beside.drop(ids, last)

    def _useful(self, keys: list[Column]) -> Array:
        """The places of the rows that the answer would have if no more rows were added, ascending."""
        useful: Array = np.zeros(len(keys[0]), np.bool_)
        useful[self._arranged(keys, self._limit)] = True
        return flagged(useful, self._budget)

    def _joined(self) -> tuple[Array, list[Column]]:
        """Concatenate all held rows to one group. It drops the parts of a column as soon as the column is joined."""
        groups, self._groups = self._groups, []
        check = self._budget.check
        ids = concatenated([ids for ids, _ in groups], check)
        parts = [keys[::-1] for _, keys in groups]
        groups.clear()
        return ids, [concat_columns([left.pop() for left in parts], check) for _ in self.wanted]

    @contextmanager
    def _while_held(self, size: int) -> Iterator[None]:
        """A context in which `size` more bytes are charged. Raises ResourceExhausted."""
        self._hold(size)
        try:
            yield
        finally:
            self._give_back(size)

    def _hold(self, size: int) -> None:
        self._budget.hold(size)
        self._held += size

    def _give_back(self, size: int) -> None:
        self._budget.give_back(size)
        self._held -= size


def _taken(values: Array, rows: Array, budget: ReadBudget) -> Array:
    """Compute `values[rows]` piece by piece. O(rows)."""
    made: Array = np.empty((len(rows), *values.shape[1:]), values.dtype)
    for piece in pieces(len(rows), budget):
        made[piece] = values[rows[piece]]
    return made


def _taken_columns(columns: list[Column], rows: Array, budget: ReadBudget) -> list[Column]:
    """Take rows of each column, piece by piece."""
    every = [rows[piece] for piece in pieces(len(rows), budget)] or [rows]
    return [concat_columns([column.take(some) for some in every], budget.check) for column in columns]


def over_rows(rows: int, most: int, subject: str = "ORDER BY or DISTINCT") -> ResourceExhausted:
    """Make the error of a sort with more rows than it may hold. `subject`: the words of SQL that need the sort."""
    return ResourceExhausted(
        f"{subject} over {rows:,} rows is more than the {most:,} that one invocation may hold (sort_rows);"
        " narrow the window or the WHERE clause, or add a LIMIT",
        reason="SORT_BUDGET",
        rows=rows,
        **SORT_ROWS.over(rows, most),
    )


def _bytes(ids: Array, keys: Sequence[Column]) -> int:
    return int(ids.nbytes) + sum(column.nbytes for column in keys)
