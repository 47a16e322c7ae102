"""The values in an operator's state, as dense numbers. Unused values are removed in bulk.

    numbers   0 1 2 3         keep 1, 3     numbers   0 1
    values    IBM SUN - ORCL      ──>       values    SUN ORCL

The owner knows which values are in use. It calls `wastes` after each step. Unused values are removed once there are
more of them than of used ones, and more than `FEW`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.state import padded
from psoup.delta.spans import without_errors
from psoup.model import DataType
from psoup.values.columns import Array, Column

_LIMIT = 2**31 - 1
FEW = 1_024
"""The most unused values that are not removed, as a removal costs more than their memory is worth."""


def wastes(count: int, used: int) -> bool:
    """Whether so many of `count` elements are unused that they are to be removed."""
    return count - used > max(used, FEW)


class ValueTable:
    """Numbers of the values of some columns; without columns, the number of the only value is 0."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._types = tuple(types)
        self._keys = self._new()

    @property
    def count(self) -> int:
        """The number of values, in use or not."""
        return self._keys.count if self._keys is not None else 1

    @property
    def nbytes(self) -> int:
        """The bytes of the values and of their lookup tables."""
        return self._keys.nbytes if self._keys is not None else 0

    def number(self, columns: Sequence[Column], rows: int) -> Array:
        """The number of each row's value, int32[rows]. New values get numbers. O(rows) expected."""
        if self._keys is None:
            return np.zeros(rows, np.int32)
        return self._keys.number([without_errors(column) for column in columns]).copy()

    def columns(self, numbers: Array) -> tuple[Column, ...]:
        """The columns of the values with these numbers (int64[k]). O(k)."""
        return tuple(self._keys.columns(numbers)) if self._keys is not None else ()

    def keep(self, numbers: Array) -> None:
        """Remove all values but those with these numbers (int64[k], ascending), which become 0 to k - 1. O(k)."""
        if self._keys is not None:
            columns = self._keys.columns(numbers)
            self._keys = self._new()
            if len(numbers) and self._keys is not None:
                self._keys.number(columns)

    def _new(self) -> Keys | None:
        return Keys(self._types, _LIMIT, lambda size: None) if self._types else None


def new_places(stays: Array, count: int) -> Array:
    """The new number of each of `count` old ones, or -1: int32[count]. `stays`: the ones that stay, ascending."""
    places: Array = np.full(count, -1, np.int32)
    places[stays] = np.arange(len(stays), dtype=np.int32)
    return places


def with_room(array: Array, count: int, fill: int = 0) -> Array:
    """The array, or a copy with twice `count` elements if it has fewer than `count`. O(1) amortised.

    New elements have the value `fill`.
    """
    return array if len(array) >= count else padded(array, 2 * count, fill)
