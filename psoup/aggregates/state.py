"""The state of an aggregate: arrays with an element for each group, to which rows are added.

    rows of a part   values 7 3 9     mask: the rows that count     codes: the group of each row
    state            counts 2 1       sums 16 3                     arrays that grow with the groups

A state has no reference to its rows, so that it can be kept, stored and combined. States are combined in the order of
the stream: the later state is added to the earlier one. A caller that adds to a state must be its only user.
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
"""The mask if all rows of a part count: an empty array."""

State = tuple[Array | Column, ...]

_ZEROS: Array = np.zeros(65_536, np.int32)


@dataclass(frozen=True, slots=True)
class Rows:
    """A part of `count` rows. `args`: the columns of the aggregate's arguments.

    `mask`: uint8[count], not 0 for the rows that count; `ALL` if every row does. `codes`: the group of each row, int32.
    None: all rows are in group 0.
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
    """The functions of a kind of state."""

    @property
    def exact(self) -> bool:
        """Whether the result is the same, however the rows are divided into states that are combined."""
        ...

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        ...

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        ...

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to their groups, which the state must have. The caller must not use the old state any more."""
        ...

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows: its group k to group places[k]. `into` must not be used any more."""
        ...

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in a new order. `order`: int64, all groups with rows, each once.

        A state that lists values (`list_states`, `ordered_rows`) needs all of them. Other states leave out the rest.
        """
        ...

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Compute the result of `measure` for each of the first `groups` groups."""
        ...


def taken(state: State, order: Array) -> State:
    """Copy a state, with its groups in the given order. Every part must have an element for each group."""
    return tuple([part.take(order) if isinstance(part, Column) else part.take(order, 0) for part in state])


def places_in(order: Array) -> Array:
    """The inverse of a permutation (int64[n]): the place of each group in `order`."""
    places: Array = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return places


def padded(array: Array, groups: int, fill: int = 0) -> Array:
    """The array, extended to `groups` elements with the value `fill`."""
    if len(array) >= groups:
        return array
    out = np.full((groups, *array.shape[1:]), fill, array.dtype)
    out[: len(array)] = array
    return out


def padded_column(column: Column, groups: int) -> Column:
    """The column, extended to `groups` rows with NULL. Its `valid` is then an array."""
    more = groups - len(column)
    return column if more <= 0 else concat_columns([column, null_column(column.type, more)])


def put(column: Column, places: Array, values: Column) -> Column:
    """Set the values of a column at some places. Changes a column of fixed width in place; copies a column of texts."""
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
