"""The filter of rows that are not positions in leaves, such as groups, or rows with columns of window functions.

rows of the input ─ keyed: references, condition ─> references that remain ─ arranged ─> columns
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from psoup.execution.rows.plan_rows import PlanRows
from psoup.execution.rows.source_rows import Reading
from psoup.expressions.tree import Expr
from psoup.values.columns import Array, Column

_MAX_ROWS = 65_536
"""The most rows for which the condition is computed at once."""


@dataclass(slots=True)
class FilteredRows:
    """The rows of `rows` that satisfy `condition`. `limit`: the most rows that remain after the first `skip`.

    A condition that is NULL removes the row. So does one that cannot be computed, and it is counted as an error.
    """

    rows: PlanRows
    condition: Expr
    limit: int | None = None
    skip: int = 0

    @property
    def reading(self) -> Reading:
        """The matches and limits of the answer."""
        return self.rows.reading

    @property
    def count(self) -> int | None:
        """None, as the number of rows is not known before the condition is computed."""
        return None

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        self.limit = rows
        self.skip = skip

    def columns(self, outputs: list[Expr], at_once: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most `at_once` rows at a time."""
        try:
            for places in self._places(_MAX_ROWS):
                yield from self.rows.arranged(outputs, places, at_once)
        finally:
            self.close()

    def keyed(self, keys: list[Expr], at_once: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield references to rows, at most `at_once` at once, and the values of `keys` in parts."""
        for places in self._places(at_once):
            yield places, self.rows.arranged(keys, places, at_once)

    def counts(self, at_once: int) -> Iterator[int]:
        """Yield counts that sum to the number of rows."""
        for places in self._places(at_once):
            yield len(places)

    def arranged(self, outputs: list[Expr], places: Array, at_once: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows at some references, at most `at_once` at a time."""
        return self.rows.arranged(outputs, places, at_once)

    def close(self) -> None:
        """Return all bytes. After that no row can be shown."""
        self.rows.close()

    def _places(self, at_once: int) -> Iterator[Array]:
        """Yield references to the rows that LIMIT and `skip` leave."""
        skip, left = self.skip, self.limit
        for places, parts in self.rows.keyed([self.condition], at_once):
            flags = [np.zeros(0, np.bool_)]
            for (column,) in parts:
                self.reading.count([column])
                flags.append(column.values if column.valid is None else column.values & column.valid)
            remaining = places[np.concatenate(flags)]
            skip, remaining = max(skip - len(remaining), 0), remaining[skip:]
            if left is not None:
                remaining = remaining[:left]
                left -= len(remaining)
            if len(remaining):
                yield remaining
            if left == 0:
                return
