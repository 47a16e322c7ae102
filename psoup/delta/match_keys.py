"""The keys that match left and right rows of a semi-join, as numbers, and the rules for NULL.

    never     NULL equals nothing                             EXISTS, IN, joins
    equal     NULL equals NULL                                IS NOT DISTINCT FROM
    unknown   x NOT IN (…) is unknown if x or a value is      NOT IN: the last key is x, after the correlations
              NULL, unless there are no values

With `unknown`, each right row has two keys: the key of its value, or of NULL, and the key of any value. A left row with
a value has the keys of its value and of NULL. A left row with NULL has the key of any value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from psoup.delta.value_table import ValueTable
from psoup.expressions.frame import null_column
from psoup.invariants import ensure
from psoup.model import BIGINT, DataType
from psoup.values.columns import Array, Column

Nulls = Literal["never", "equal", "unknown"]
_VALUE, _NULL, _ANY = 0, 1, 2
"""The first key column of `unknown`: a right row with a value, with NULL, or with either."""


class MatchKeys:
    """Numbers of the keys of both sides: equal keys have equal numbers. `types`: the types of the keys."""

    def __init__(self, types: Sequence[DataType], nulls: Nulls) -> None:
        ensure(nulls != "unknown" or len(types) > 0, self, "NOT IN needs a key")
        self._nulls = nulls
        marks = [BIGINT] if nulls == "unknown" else []
        self.table = ValueTable([*marks, *types])

    def of_left(self, columns: Sequence[Column], rows: int) -> list[Array]:
        """The keys of left rows: one or two arrays, int32[rows], -1 for none. O(rows) expected."""
        if self._nulls != "unknown":
            return [self._numbers(columns, rows)]
        *outer, last = columns
        absent = _is_null(last, rows)
        first = self._marked(np.where(absent, _ANY, _VALUE), outer, last, rows)
        second = self._marked(np.full(rows, _NULL), outer, null_column(last.type, rows), rows)
        second[absent] = -1
        return [first, second]

    def of_right(self, columns: Sequence[Column], rows: int) -> tuple[Array, Array]:
        """The keys of right rows, int32[k], and the row of each, int64[k], ascending. O(rows) expected."""
        if self._nulls != "unknown":
            keys = self._numbers(columns, rows)
            here = np.flatnonzero(keys >= 0)
            return keys[here], here
        *outer, last = columns
        exact = self._marked(np.where(_is_null(last, rows), _NULL, _VALUE), outer, last, rows)
        every = self._marked(np.full(rows, _ANY), outer, null_column(last.type, rows), rows)
        keys = np.stack([exact, every], 1).reshape(-1)
        places = np.flatnonzero(keys >= 0)
        return keys[places], places // 2

    def _marked(self, marks: Array, outer: Sequence[Column], last: Column, rows: int) -> Array:
        """The numbers of keys with a mark. -1 if a key of `outer` is NULL."""
        numbers = self.table.number([Column(BIGINT, marks.astype(np.int64)), *outer, last], rows)
        return _without_nulls(numbers, outer)

    def _numbers(self, columns: Sequence[Column], rows: int) -> Array:
        numbers = self.table.number(columns, rows)
        return numbers if self._nulls == "equal" else _without_nulls(numbers, columns)


def _without_nulls(numbers: Array, columns: Sequence[Column]) -> Array:
    """Set the numbers of rows with a NULL to -1, in place."""
    for column in columns:
        if column.valid is not None:
            numbers[~column.valid] = -1
    return numbers


def _is_null(column: Column, rows: int) -> Array:
    return np.zeros(rows, np.bool_) if column.valid is None else ~column.valid
