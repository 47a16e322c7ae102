"""Aggregates whose states can subtract a row that leaves: COUNT, and SUM and AVG of all types.

    state of a group before the step      10
    changes at the instants of the step   +3  -2  +5
    states at these instants              13  11  16

The states come from `psoup.aggregates`, and are exact. So a row that leaves is subtracted without an error of rounding:
the negative of its state is combined with the state of the group.
"""

from __future__ import annotations

import numpy as np

from psoup.aggregates.measures import folding_of, rows_for
from psoup.aggregates.state import Folding, State, size_of
from psoup.aggregates.sums import Count, DoubleSum, IntegerSum
from psoup.delta.positions import Positions
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column

Arguments = tuple[list[Column], Column | None]
"""The columns of the arguments of a measure, and its condition, for some rows."""


def takes_back(measure: Measure) -> bool:
    """Whether the state of a measure can subtract rows."""
    return isinstance(folding_of(measure), Count | IntegerSum | DoubleSum)


def fold_at(measure: Measure, rows: Arguments, places: Array, count: int) -> State:
    """The states at `count` places. `places`: the place of each row, int64[n]. O(rows + count)."""
    folding, (columns, condition) = folding_of(measure), rows
    state = folding.empty(count)
    if not len(places):
        return state
    return folding.add(state, rows_for(measure, columns, condition, places.astype(np.int32), len(places)))


def negative(state: State) -> State:
    """The negative of a state of COUNT, SUM or AVG: combining with it subtracts the rows of `state`. O(state)."""
    counts, *rest = [part for part in state if isinstance(part, np.ndarray)]
    if not rest:
        return (-counts,)
    sums, *scale = rest
    if not scale:
        return -counts, _negative_integers(sums)
    return -counts, _negative_integers(sums), scale[0], -scale[1]


def _negative_integers(words: Array) -> Array:
    """The negatives of integers of several words, int64[n, words], the lowest word first."""
    out = ~words
    carry: Array = np.ones(len(words), np.bool_)
    for word in range(words.shape[1]):
        out[:, word] += carry
        carry &= out[:, word] == 0
    return out


class RunningState:
    """The state of one measure for all groups, as of the last step."""

    def __init__(self, measure: Measure) -> None:
        self.measure = measure
        self._folding: Folding = folding_of(measure)
        self._state = self._folding.empty(0)
        self._groups = 0

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return size_of(self._state)

    def grow(self, groups: int) -> None:
        """Make room for groups. O(groups), amortised."""
        if groups > self._groups:
            self._groups = 2 * groups
            self._state = self._folding.grow(self._state, self._groups)

    def add(self, rows: Arguments, groups: Array) -> None:
        """Add rows to their groups. O(rows)."""
        columns, condition = rows
        if len(groups):
            counted = rows_for(self.measure, columns, condition, groups.astype(np.int32), len(groups))
            self._state = self._folding.add(self._state, counted)

    def at_positions(self, positions: Positions, entering: Arguments, leaving: Arguments) -> Column:
        """Return the results at all positions, and add the changes. O(rows + positions log positions)."""
        count, every = len(positions.group), np.arange(len(positions.group))
        changes = fold_at(self.measure, entering, positions.enters, count)
        gone = fold_at(self.measure, leaving, positions.leaves, count)
        changes = self._folding.combine(changes, negative(gone), every)
        step, longest = 1, int((every - positions.first).max(initial=0)) + 1
        while step < longest:  # `changes` adds up the last `step` positions, at each position
            later = np.flatnonzero(every - step >= positions.first)
            changes = self._folding.combine(changes, self._folding.arrange(changes, later - step), later)
            step *= 2
        before = self._folding.arrange(self._state, positions.group)
        total = self._folding.arrange(changes, positions.last)
        self._state = self._folding.combine(self._state, total, positions.group[positions.last])
        return self._folding.finish(self._folding.combine(before, changes, every), self.measure, count)

    def restart(self, groups: int) -> None:
        """Forget all rows. The owner adds the rows that remain."""
        self._state, self._groups = self._folding.empty(groups), groups
