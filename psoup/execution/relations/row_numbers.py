"""Numbers of rows: equal rows have equal numbers. NULL equals NULL, NaN equals NaN, and -0.0 equals 0.0.

    rows      (1, 'a')  (2, NULL)  (1, 'a')  (2, NULL)  (3, 'b')
    numbers   0         1          0         1          2
    first     *         *                               *

Numbers are in order of appearance. The first rows are the rows with a new number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.execution.relations.kept_chunks import over_rows
from psoup.execution.rows.sort_keys import sorted_by
from psoup.model import DataType
from psoup.values.columns import Array, Column
from psoup.work.read_budget import ReadBudget

_LIMIT = 2**31 - 2
"""The most numbers that 32 bits hold. `RowNumbers` allows fewer, and refuses more by an error of its own."""


class RowNumbers:
    """The numbers of the rows of a set operation. Its bytes are charged to the budget of sorts."""

    def __init__(self, types: Sequence[DataType], budget: ReadBudget, limit: int, subject: str) -> None:
        """`limit`: the most different rows. `subject`: the set operation, in messages."""
        self._budget = budget
        self._limit = limit
        self._subject = subject
        self._held = 0
        try:
            self._keys = Keys(types, _LIMIT, self.hold)
        except BaseException:
            self.close()
            raise

    @property
    def count(self) -> int:
        """The number of different rows so far."""
        return self._keys.count

    def of(self, columns: Sequence[Column]) -> Array:
        """The number of each row, int32[n]. The next call overwrites the result.

        Raises ResourceExhausted if there are too many different rows, or their keys take too many bytes.
        """
        numbers = self._keys.number(columns)
        if self.count > self._limit:
            raise over_rows(self._subject, self.count, self._limit)
        return numbers

    def hold(self, size: int) -> None:
        """Charge bytes. Raises ResourceExhausted, and the errors of the budget."""
        self._budget.check()
        self._budget.hold(size, self._subject)
        self._held += size

    def close(self) -> None:
        """Return all bytes. Idempotent."""
        self._budget.give_back(self._held)
        self._held = 0


def first_rows(numbers: Array, start: int) -> Array:
    """The first row of each number that is at least `start`, ascending, int64. O(n).

    New numbers must be in order of appearance, as `RowNumbers` gives them.
    """
    before: Array = np.empty(len(numbers), numbers.dtype)
    before[:1] = start - 1
    np.maximum.accumulate(numbers[:-1], out=before[1:])
    np.maximum(before, start - 1, out=before)
    return np.flatnonzero(numbers > before)


def one_row_each(numbers: Array, quota: Array) -> Array:
    """The first row of each number whose `quota` is positive, ascending, int64. Sets these quotas to 0. O(n).

    `quota`: int64, one element for each number.
    """
    rows = np.flatnonzero(quota[numbers] > 0)
    chosen = numbers[rows]
    quota[chosen[::-1]] = -1 - rows[::-1]  # of equal indexes, NumPy keeps the last assignment: the first row
    first = rows[quota[chosen] == -1 - rows]
    quota[chosen] = 0
    return first


def rows_within(numbers: Array, quota: Array, budget: ReadBudget) -> Array:
    """The first `quota[number]` rows of each number, ascending, int64. The quota is reduced by these rows. O(n).

    `quota`: int64, one element for each number.
    """
    rows = np.flatnonzero(quota[numbers] > 0)
    chosen = numbers[rows].astype(np.int64)
    order = sorted_by(chosen, np.arange(len(rows), dtype=np.uint32), budget)
    ordered = chosen[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    counts = np.diff(starts, append=len(ordered))
    rank = np.arange(len(ordered)) - np.repeat(starts, counts)
    places: Array = np.sort(order[rank < quota[ordered]]).astype(np.int64)
    quota[ordered[starts]] -= np.minimum(counts, quota[ordered[starts]])
    return rows[places]
