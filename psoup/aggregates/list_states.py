"""States that are lists of entries: all values of a group for quantiles, its different values for DISTINCT.

    groups 0 0 1 0      values 7 3 7 9         in the order of the rows; 64 parts are merged into one

An entry is a value with the number of its group. MEDIAN and the exact quantiles need every value. DISTINCT needs each
value once, and folds its aggregate over these values at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.state import Folding, Rows, State, places_in
from psoup.kernels.rows.radix_sort import order_keys
from psoup.model import BIGINT, DataType, Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, concat_columns, empty_column
from psoup.values.kinds import TYPES
from psoup.values.wide_order import joint_order_keys

_MOST = 2**31 - 1
"""The limit of the number of groups: the greatest int32."""
_PARTS = 64
"""The number of parts from which the parts of a list are merged into one."""

Entries = tuple[Array, Column]
"""Entries: the group of each (int32[n]), and the column of their values."""


def entries_of(state: State) -> Entries:
    """All entries of a state, as one part. O(entries)."""
    groups = [part for part in state if isinstance(part, np.ndarray)]
    columns = [part for part in state if isinstance(part, Column)]
    return (groups[0] if len(groups) == 1 else np.concatenate(groups)), concat_columns(columns)


def listed(state: State) -> int:
    """The number of entries of a state."""
    return sum(len(part) for part in state if isinstance(part, Column))


@dataclass(frozen=True, slots=True)
class _ListState:
    """The base of both kinds of lists: entries with values of one type."""

    type: DataType
    exact: ClassVar[bool] = True

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return np.zeros(0, np.int32), empty_column(self.type)

    def grow(self, state: State, groups: int) -> State:
        """Return the state as it is, as a group without rows takes no memory."""
        return state


class GroupValues(_ListState):
    """The state of MEDIAN and of exact quantiles: all values of each group."""

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        (column,) = rows.args
        groups = rows.groups
        if len(rows.mask):
            groups, column = groups[rows.counted], column.take(rows.counted)
        return self._joined((*state, groups.copy(), Column(column.type, column.values, None, column.data)))

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        groups, column = entries_of(other)
        return self._joined((*into, places[groups].astype(np.int32), column))

    def _joined(self, state: State) -> State:
        return state if len(state) < 2 * _PARTS else entries_of(state)

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return self.combine(self.empty(len(order)), state, places_in(order))

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the quantile of each group, as DuckDB defines it."""
        owners, column = entries_of(state)
        order = _by_group(owners, column)
        counts = np.bincount(owners, minlength=groups)[:groups]
        starts, some = np.cumsum(counts) - counts, counts > 0
        last, fraction = np.maximum(counts - 1, 0), float(measure.fraction or 0.0)
        if not len(order):
            return _with_valid(measure.type, None, some)
        if measure.function == "quantile_disc":
            disc = counts - np.floor(counts - fraction * counts) - 1.0
            rows = _rows_at(np.clip(disc, 0, last), starts, some)
            return _with_valid(measure.type, column.take(order[rows]), some)
        place = np.multiply(fraction, last)
        low, high = (order[_rows_at(at, starts, some)] for at in (np.floor(place), np.ceil(place)))
        values = _between(column, low, high, place - np.floor(place), measure.type)
        return _with_valid(measure.type, Column(measure.type, values), some)


def _rows_at(places: Array, starts: Array, some: Array) -> Array:
    """For each group, the entry at a place within the group. An empty group gets entry 0."""
    return np.where(some, starts + places.astype(np.int64), 0)


def _between(column: Column, below: Array, above: Array, share: Array, result: DataType) -> Array:
    """Interpolate between two entries of each group, `below` and `above`. A `share` of 0 means the value of `below`."""
    if result.kind is Kind.DOUBLE:
        values = column.values.astype(np.float64) / 10.0**column.type.scale
        lows, highs = values[below], values[above]
        with np.errstate(all="ignore"):
            return np.where(lows == highs, lows, lows + (highs - lows) * share)
    scale = 86_400_000_000 if column.type.kind is Kind.DATE and result.kind is Kind.TIMESTAMP else 1
    low, high = (column.values[rows].astype(np.int64) * scale for rows in (below, above))
    return (low + np.rint((high - low) * share).astype(np.int64)).astype(TYPES[result.kind].dtype)


def _with_valid(result: DataType, column: Column | None, some: Array) -> Column:
    """A column of the result's type. Groups without `some` value get NULL."""
    if column is None:
        values = np.zeros(len(some) + (result.kind is Kind.TEXT), TYPES[result.kind].dtype)
        return Column(result, values, some, np.zeros(0, np.uint8) if result.kind is Kind.TEXT else None)
    return Column(result, column.values, None if some.all() else some, column.data)


def _by_group(owners: Array, column: Column) -> Array:
    """The order of the entries by group, and by value within a group."""
    keys = value_ranks(column)
    order, spare = np.empty((2, len(owners)), np.int64)
    order_keys(np.ascontiguousarray(keys), order, spare)
    groups, again = owners[order], np.empty(len(owners), np.int64)
    order_keys(groups, again, spare)
    return order[again]


def value_ranks(column: Column) -> Array:
    """Numbers in the order of the values: int64[n], equal for equal values, arbitrary for NULL. O(n log n) for TEXT."""
    if column.type.kind is not Kind.TEXT:
        (keys,) = joint_order_keys([column])
        return keys
    texts = Keys([column.type], _MOST, lambda size: None)
    numbers = texts.number([column])
    ranks: Array = np.empty(texts.count, np.int64)
    ranks[texts.order()] = np.arange(texts.count)
    return ranks[numbers]


@dataclass(frozen=True, slots=True)
class DistinctValues(_ListState):
    """The state of aggregates of DISTINCT values: the different values of each group. `inner` folds them at the end."""

    inner: Folding

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        return self._more(state, GroupValues(self.type).add((), rows))

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        return self._more(into, GroupValues(self.type).combine((), other, places))

    def _more(self, state: State, later: State) -> State:
        """Add entries. Removes duplicates as soon as the new entries are as many as those without duplicates."""
        joined = (*state, *self.different(later))
        first = state[1]
        assert isinstance(first, Column)
        return joined if listed(joined) < 2 * max(len(first), _PARTS) else self.different(joined)

    def different(self, state: State) -> State:
        """The state without duplicates. Keeps the first of equal entries."""
        owners, column = entries_of(state)
        if not len(owners):
            return owners, column
        keys = Keys([BIGINT, self.type], _MOST, lambda size: None)
        numbers = keys.number([Column(BIGINT, owners.astype(np.int64)), column])
        rows = np.empty(keys.count, np.int64)
        rows[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
        rows.sort()
        return owners[rows], column.take(rows)

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return self.combine(self.empty(len(order)), state, places_in(order))

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the inner aggregate over the different values of each group."""
        owners, column = entries_of(self.different(state))
        rows = Rows(len(owners), [column], codes=owners.astype(np.int32, copy=False))
        return self.inner.finish(self.inner.add(self.inner.empty(groups), rows), measure, groups)
