"""The changes that a step finds, in arrays that grow: the row numbers, the signs and the instants."""

from __future__ import annotations

import numpy as np

from psoup.values.columns import Array

_LEAST = 1_024


class Changes:
    """Changes of numbered rows, in any order. Kernels write to `room` from `count` on.

    `expected`: the number of changes for which there is room at first.
    """

    def __init__(self, expected: int) -> None:
        size = max(expected, _LEAST)
        self.room: tuple[Array, Array, Array] = (
            np.empty(size, np.int32),
            np.empty(size, np.int8),
            np.empty(size, np.int64),
        )
        """The row numbers, the signs and the instants."""
        self.count = 0
        """The number of changes."""

    def widen(self, count: int) -> None:
        """Make the arrays four times as long. `count`: the number of changes that they have so far. O(changes)."""
        self.count = count
        size = 4 * len(self.room[0])
        rows, signs, instants = [np.empty(size, array.dtype) for array in self.room]
        for wider, array in zip((rows, signs, instants), self.room, strict=True):
            wider[:count] = array[:count]
        self.room = rows, signs, instants

    def add(self, rows: Array, sign: np.int8, instants: Array) -> None:
        """Append changes with one sign. O(k), amortised."""
        stop = self.count + len(rows)
        while stop > len(self.room[0]):
            self.widen(self.count)
        for array, values in zip(self.room, (rows, sign, instants), strict=True):
            array[self.count : stop] = values
        self.count = stop

    def all(self) -> tuple[Array, Array, Array]:
        """All changes: row numbers, signs and instants."""
        rows, signs, instants = self.room
        return rows[: self.count], signs[: self.count], instants[: self.count]
