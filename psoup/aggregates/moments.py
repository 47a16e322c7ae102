"""Variance: the count of values, an origin, the mean minus the origin, and the sum of squared deviations.

    values 1003 1005 1001      origin 1003, mean 0, squares 8          Chan, Golub and LeVeque, 1979: two passes a part

The origin of a group is its first value. It keeps the sums small, however large the values are. States are combined one
after the other, in the order of the stream. They are not `exact`: the last bits depend on how the rows are divided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psoup.aggregates.state import Rows, State, padded, taken
from psoup.kernels.fold import group_states
from psoup.model import Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column, plain


@dataclass(frozen=True, slots=True)
class Moments:
    """The state of STDDEV_SAMP, STDDEV_POP, VAR_SAMP and VAR_POP.

    Its arrays: counts, origins, means, squares, and flags of groups with values that are not finite.
    """

    exact: bool = False

    def empty(self, groups: int) -> State:
        """Make the state of `groups` groups that have no rows yet."""
        return np.zeros(groups, np.int64), *np.zeros((3, groups)), np.zeros(groups, np.uint8)

    def grow(self, state: State, groups: int) -> State:
        """Extend the state to `groups` groups. The new groups have no rows."""
        return tuple([padded(array, groups) for array in _arrays(state)])

    def add(self, state: State, rows: Rows) -> State:
        """Add rows to the groups that they belong to."""
        groups = len(_arrays(state)[0])
        counts, origins, sums, squares, odd = _arrays(self.empty(groups))
        values = _doubles(rows.args[0])
        first = np.full(groups, -1, np.int64)
        group_states.first_rows(rows.mask, rows.groups, first)
        here = np.flatnonzero(first >= 0)
        origins[here] = values[first[here]]
        with np.errstate(all="ignore"):
            group_states.sum_deviations(values, rows.mask, rows.groups, origins, counts, sums)
            means = sums / np.maximum(counts, 1)
            group_states.sum_squares(values, rows.mask, rows.groups, origins, means, squares)
        strange = ~np.isfinite(values)
        if strange.any():
            odd[rows.groups[strange & (rows.mask > 0) if len(rows.mask) else strange]] = 1
        part = counts[here], origins[here], means[here], squares[here], odd[here]
        return self.combine(state, part, here)

    def combine(self, into: State, other: State, places: Array) -> State:
        """Add the state `other` of later rows. Its group k is added to the group places[k]."""
        counts, origins, means, squares, odd = _arrays(into)
        more, bases, centres, added, strange = _arrays(other)
        with np.errstate(all="ignore"):
            before, fresh = counts[places], counts[places] == 0
            base = np.where(fresh, bases, origins[places])
            centre = centres + (bases - base)
            whole = np.maximum(before + more, 1)
            apart = np.where(fresh | (more == 0), 0.0, centre - means[places])
            moved = np.where(fresh, centre, means[places] + apart * (more / whole))
            spread = squares[places] + added + apart * apart * (before.astype(np.float64) * more / whole)
        counts[places] += more
        origins[places], means[places], squares[places] = base, moved, spread
        odd[places] |= strange
        return into

    def arrange(self, state: State, order: Array) -> State:
        """Copy the state, with its groups in the given order."""
        return taken(state, order)

    def finish(self, state: State, measure: Measure, groups: int) -> Column:
        """Return the variance of each group, or the standard deviation."""
        counts, _, _, squares, odd = (array[:groups] for array in _arrays(state))
        less = 1 if measure.function.endswith("_samp") else 0
        with np.errstate(all="ignore"):
            values = squares / np.maximum(counts - less, 1)
        values[np.isnan(values)] = np.inf  # an overflow: the values are finite, but too far apart
        values[odd > 0] = np.nan
        if measure.function.startswith("stddev"):
            values = np.sqrt(values)
        valid = counts > less
        return Column(measure.type, np.where(valid, values, 0.0), None if valid.all() else valid)


def _doubles(column: Column) -> Array:
    """The column's values as float64."""
    if column.type.kind is Kind.DOUBLE:
        return plain(column.values)
    values = column.values.astype(np.float64)
    return values / 10.0**column.type.scale if column.type.scale else values


def _arrays(state: State) -> list[Array]:
    return [part for part in state if isinstance(part, np.ndarray)]
