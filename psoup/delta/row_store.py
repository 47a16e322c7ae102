"""The columns of the rows in an operator's state, by row number. Rows that left are removed in bulk.

    parts   rows 0 … 8191 | 8192 … 12287 | 12288 … 12799     a new part of 512 rows: the last two become one part

A new part is merged with the parts before it, as long as they are not larger. So there are few parts, and each row is
copied O(log n) times.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.delta.spans import without_errors
from psoup.model import DataType
from psoup.values.columns import Array, Column, concat_columns, empty_column


class RowStore:
    """Columns of rows, numbered in the order in which they were added."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._types = tuple(types)
        self._parts = list[tuple[Column, ...]]()
        self._ends: Array = np.zeros(0, np.int64)
        """The number of the row after each part."""

    @property
    def count(self) -> int:
        """The number of rows, in use or not."""
        return int(self._ends[-1]) if len(self._ends) else 0

    @property
    def nbytes(self) -> int:
        """The bytes of the columns."""
        return sum(column.nbytes for part in self._parts for column in part)

    def add(self, columns: Sequence[Column], rows: int) -> None:
        """Append rows. O(rows log n) amortised."""
        if not rows:
            return
        part, size = tuple(map(without_errors, columns)), rows
        together = [part]
        sizes = np.diff(self._ends, prepend=0).tolist()
        while sizes and sizes[-1] <= size:
            size += sizes.pop()
            together.append(self._parts.pop())
        if len(together) > 1:
            part = tuple([concat_columns(each) for each in zip(*reversed(together), strict=True)])
        self._parts.append(part)
        self._ends = np.cumsum([*sizes, size], dtype=np.int64)

    def take(self, rows: Array) -> tuple[Column, ...]:
        """The columns of the rows with these numbers (int64[k]). O(k log parts)."""
        if not len(rows):
            return tuple(map(empty_column, self._types))
        if len(self._parts) == 1:
            return tuple([column.take(rows) for column in self._parts[0]])
        in_order = bool((rows[1:] >= rows[:-1]).all())
        places = np.searchsorted(self._ends, rows, "right")
        order = np.arange(len(rows)) if in_order else np.argsort(places.astype(np.int16), kind="stable")
        bounds = np.searchsorted(places[order], np.arange(len(self._parts) + 1)).tolist()
        taken = list[list[Column]]()
        for place, part in enumerate(self._parts):
            chosen = rows[order[bounds[place] : bounds[place + 1]]]
            if len(chosen):
                begin = int(self._ends[place - 1]) if place else 0
                taken.append([column.take(chosen - begin) for column in part])
        together = [concat_columns(each) for each in zip(*taken, strict=True)]
        if in_order:
            return tuple(together)
        back = np.empty(len(rows), np.int64)
        back[order] = np.arange(len(rows))
        return tuple([column.take(back) for column in together])

    def keep(self, rows: Array) -> None:
        """Remove all rows but these (int64[k], ascending), which become 0 to k - 1. O(k)."""
        columns = self.take(rows)
        self._parts, self._ends = [], np.zeros(0, np.int64)
        self.add(columns, len(rows))
