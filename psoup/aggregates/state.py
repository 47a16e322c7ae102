"""The state of an aggregate: arrays with an element for each group, and the rows that are folded into them.

    rows of a part   values 7 3 9     mask: those that count     codes: the group of each
    state            counts 2 1       sums 16 3                  arrays that grow with the groups

A state has no reference to its rows, so that it can be kept, sent and combined. States are combined in the order of the
stream: the later one is added to the earlier one. The code that adds to a state owns it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from psoup.expressions.frame import null_column
from psoup.model import Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, concat_columns

ALL: Array = np.zeros(0, np.uint8)
"""The mask of a part whose rows all count."""

State = tuple[Array | Column, ...]

_ZEROS: Array = np.zeros(65_536, np.int32)


@dataclass(frozen=True, slots=True)
class Rows:
    """`count` rows: the arguments' values, a mask uint8[count] of rows that count (`ALL`: every row), and int32 groups.

    `codes` None: all rows are in group 0.
    """

    count: int
    args: Sequence[Column]
    mask: Array = field(default_factory=lambda: ALL)
    codes: Array | None = None

    @property
    def groups(self) -> Array:
        """The group of each row."""
        if self.codes is not None:
            return self.codes
        return _ZEROS[: self.count] if self.count <= len(_ZEROS) else np.zeros(self.count, np.int32)

    @property
    def counted(self) -> Array:
        """The rows that count: int64, ascending."""
        return np.flatnonzero(self.mask) if len(self.mask) else np.arange(self.count)


class Folding(Protocol):
    """The functions of a state. `exact`: states combined in any grouping give the same result."""

    @property
    def exact(self) -> bool:
        """Whether the result does not depend on how rows were cut into parts."""
        ...

    def empty(self, groups: int) -> State:
        """Make the state of groups without a row."""
        ...

    def grow(self, state: State, groups: int) -> State:
        """Make room for more groups."""
        ...

    def add(self, state: State, rows: Rows) -> State:
        """Add rows, whose groups the state has; the old state must not be used afterwards."""
        ...

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add a state of later rows, whose group k is group places[k]; the old state must not be used afterwards."""
        ...

    def arrange(self, state: State, order: Array) -> State:
        """Copy all groups with a row (int64, each once) in an order, without room for more."""
        ...

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Compute the aggregate of each of the first groups."""
        ...


def taken(state: State, order: Array) -> State:
    """The groups of a state in an order, if every part has an element for each group."""
    return tuple([part.take(order) if isinstance(part, Column) else part.take(order, 0) for part in state])


def places_in(order: Array) -> Array:
    """The place of each group in an order (int64[n], a permutation)."""
    places: Array = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def padded(array: Array, groups: int, fill: int = 0) -> Array:
    """The array with room for more groups, filled with `fill`."""
    if len(array) >= groups:
        return array
    out = np.full((groups, *array.shape[1:]), fill, array.dtype)
    out[: len(array)] = array
    return out


def padded_column(column: Column, groups: int) -> Column:
    """The column with room for more groups, filled with NULL; its `valid` is an array."""
    more = groups - len(column)
    return column if more <= 0 else concat_columns([column, null_column(column.type, more)])


def put(column: Column, places: Array, values: Column) -> Column:
    """The column with new values at some places. A column of fixed width is changed in place."""
    if not len(places):
        return column
    if column.type.kind is Kind.TEXT:
        rows = np.arange(len(column))
        rows[places] = np.arange(len(column), len(column) + len(places))
        return concat_columns([column, values]).take(rows)
    assert column.valid is not None
    column.values[places] = values.values
    column.valid[places] = True if values.valid is None else values.valid
    return column


def copied(state: State) -> State:
    """A copy of a state, for a caller that will add to it."""
    return tuple([_copied(part) if isinstance(part, Column) else part.copy() for part in state])


def _copied(column: Column) -> Column:
    valid = None if column.valid is None else column.valid.copy()
    return Column(column.type, column.values.copy(), valid, column.data)


def size_of(state: State) -> int:
    """The bytes of a state."""
    return sum(part.nbytes for part in state)
