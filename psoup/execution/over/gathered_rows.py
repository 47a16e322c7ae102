"""The IDs of all rows of an answer, and the values that its window functions read, in memory.

    (IDs, parts of columns) ── charged, then held ──> IDs of all rows, one column for each expression

The number of rows is bounded by `sort_rows`. All bytes are charged to the sorts of the read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from psoup.execution.rows.sort import over_rows
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.tree import Expr
from psoup.values.columns import Array, Column, concat_columns, concatenated, empty_column, value_bytes
from psoup.work.read_budget import ReadBudget

_MOST_BYTES = 1 << 28
"""The bytes that a read without a limit assumes, to derive the size of a piece."""
_PIECE_SHARE = 16
"""The values of one piece of rows take at most a sixteenth of the bytes that the budget allows."""
_LEAST_ROWS = 64
"""The least number of rows of a piece."""
_ID_BYTES = 8
"""Bytes of an ID."""


class SortBytes:
    """The bytes that one step holds for sorts. The step can return all of them by one call."""

    def __init__(self, budget: ReadBudget) -> None:
        self.budget = budget
        self._held = 0

    def hold(self, size: int) -> None:
        """Take `size` bytes. Raises as `ReadBudget.hold`."""
        self.budget.hold(size, "OVER")
        self._held += size

    @contextmanager
    def while_held(self, size: int) -> Iterator[None]:
        """A context in which `size` more bytes are held. Raises as `hold`."""
        self.hold(size)
        try:
            yield
        finally:
            self.give_back(size)

    def give_back(self, size: int | None = None) -> None:
        """Return `size` bytes, or with None all bytes that are held. Idempotent with None."""
        size = self._held if size is None else size
        self.budget.give_back(size)
        self._held -= size


class GatheredRows:
    """Collects rows piece by piece: their IDs, and the values of the expressions `wanted`.

    `values`, `references`: the accounts for the bytes of values and of IDs. `reading`: has limits, and counts errors.
    """

    def __init__(self, wanted: list[Expr], values: SortBytes, references: SortBytes, reading: Reading) -> None:
        self.wanted = wanted
        self.piece = max(min(references.budget.sort_bytes, _MOST_BYTES) // _PIECE_SHARE, 1)
        """The approximate bytes of the values of one piece of rows."""
        self._values = values
        self._references = references
        self._reading = reading
        self._rows = 0
        self._ids: list[Array] = []
        self._parts: list[list[Column]] = []

    def rows_at_once(self, limit: int) -> int:
        """The most rows of a piece: at most `limit`, and their values without texts fit in one piece."""
        each = _ID_BYTES + sum([value_bytes(expr.type) for expr in self.wanted])
        return min(limit, max(self.piece // each, _LEAST_ROWS))

    def add(self, ids: Array, parts: Iterator[list[Column]]) -> None:
        """Add a piece: the IDs (an element or a row of an array each), and the values of `wanted` in parts.

        Each part is charged before the next one is computed. Raises ResourceExhausted.
        """
        self._rows += len(ids)
        if self._rows > self._reading.sort_rows:
            raise over_rows(self._rows, self._reading.sort_rows, "OVER")
        self._references.hold(ids.nbytes)
        self._ids.append(ids)
        for columns in parts if self.wanted else ():
            self._values.hold(sum(column.nbytes for column in columns))
            self._reading.count(columns)
            self._parts.append(columns)

    def joined(self) -> tuple[Array, list[Column]]:
        """The IDs of all rows, and a column for each of `wanted`. Called once."""
        if not self._ids:
            return np.zeros(0, np.int64), [empty_column(expr.type) for expr in self.wanted]
        check = self._references.budget.check
        sizes = [sum(part.nbytes for part in parts) for parts in zip(*self._parts, strict=True)]
        with self._values.while_held(max([sum(ids.nbytes for ids in self._ids), *sizes])):
            ids = concatenated(self._ids, check)
            self._ids = []
            parts = [columns[::-1] for columns in self._parts]
            self._parts = []
            return ids, [concat_columns([left.pop() for left in parts], check) for _ in self.wanted]
