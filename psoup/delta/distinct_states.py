"""COUNT, SUM and AVG of DISTINCT values, whose states can subtract a row that leaves.

    rows of a group    x = 7 enters at 3, x = 7 enters at 5, x = 7 leaves at 9, x = 7 leaves at 12
    its values         7 enters at 3, 7 leaves at 12

The state counts the rows of each value of a group. A value is added to the aggregate when its first row enters, and
subtracted when its last row leaves. Each pair of a group and a value has a number. A row has the number of its pair, or
-1 if NULL or FILTER excludes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psoup.aggregates.list_states import DistinctValues
from psoup.aggregates.measures import folding_of, rows_for
from psoup.aggregates.sums import Count, DoubleSum, IntegerSum
from psoup.delta.positions import Positions
from psoup.delta.running_states import Arguments, RunningState
from psoup.delta.value_table import ValueTable, new_places, with_room
from psoup.model import DataType
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column


def takes_values_back(measure: Measure) -> bool:
    """Whether a measure is COUNT, SUM or AVG of DISTINCT values."""
    folding = folding_of(measure)
    return isinstance(folding, DistinctValues) and isinstance(folding.inner, Count | IntegerSum | DoubleSum)


class DistinctState:
    """The state of a measure of DISTINCT values for all groups, as of the last step. `keys`: the types of the keys."""

    def __init__(self, measure: Measure, keys: Sequence[DataType]) -> None:
        self._measure = measure
        self._running = RunningState(replace(measure, distinct=False, condition=None))
        self._values = ValueTable([*keys, measure.args[0].type])
        self._counts: Array = np.zeros(0, np.int64)
        """The number of rows of each value of a group."""

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return self._running.nbytes + self._values.nbytes + self._counts.nbytes

    def grow(self, groups: int) -> None:
        """Make room for groups. O(groups), amortised."""
        self._running.grow(groups)

    def number(self, keys: Sequence[Column], arguments: Arguments, rows: int) -> Array:
        """The number of the group and value of each row, int64[rows], -1 for an excluded row. O(rows) expected."""
        columns, condition = arguments
        numbers = self._values.number([*keys, *columns], rows).astype(np.int64)
        mask = rows_for(self._measure, columns, condition, None, rows).mask
        if len(mask):
            numbers[mask == 0] = -1
        self._counts = with_room(self._counts, self._values.count)
        return numbers

    def load(self, numbers: Array, groups: Array) -> None:
        """Add rows with these numbers and groups (int32[n]). O(n)."""
        counted = np.flatnonzero(numbers >= 0)
        values, first = np.unique(numbers[counted], return_index=True)
        new = self._counts[values] == 0
        np.add.at(self._counts, numbers[counted], 1)
        self._running.add(self._arguments(values[new]), groups[counted[first[new]]])

    def at_positions(self, positions: Positions, entering: Array, leaving: Array) -> Column:
        """Return the results at all positions, and add the changes to the state. O(rows log rows).

        `entering`, `leaving`: the numbers of the rows that enter and leave.
        """
        comes, goes = entering >= 0, leaving >= 0
        places = np.append(positions.enters[comes], positions.leaves[goes])
        numbers = np.append(entering[comes], leaving[goes])
        of_values = Positions.of(numbers, positions.instant[places], int(np.count_nonzero(comes)))
        counts = of_values.counts(self._counts, of_values.enters, of_values.leaves)
        last = of_values.last
        self._counts[of_values.group[last]] = counts[last]
        place: Array = np.zeros(len(counts), np.int64)
        place[np.append(of_values.enters, of_values.leaves)] = places
        now, before = counts > 0, np.append(False, counts[:-1] > 0)[: len(counts)]
        enters, leaves = (np.flatnonzero(of_values.later & flag) for flag in (now & ~before, before & ~now))
        changes = positions._replace(enters=place[enters], leaves=place[leaves])
        given = [self._arguments(of_values.group[rows]) for rows in (enters, leaves)]
        return self._running.at_positions(changes, *given)

    def keep(self, numbers: Array, rows: Array, groups: int) -> Array:
        """Remove the values without rows. Returns the new numbers of the rows, int64[n]. O(values + n).

        `numbers`: the numbers of all rows, int64[n]. `rows`: the group of each row, int32[n]. `groups`: their number.
        """
        stays = np.flatnonzero(self._counts > 0)
        places = new_places(stays, len(self._counts))
        self._values.keep(stays)
        self._counts = np.zeros(len(stays), np.int64)
        self._running.restart(groups)
        again = np.where(numbers >= 0, places[numbers], -1).astype(np.int64) if len(places) else numbers
        self.load(again, rows)
        return again

    def _arguments(self, values: Array) -> Arguments:
        return [self._values.columns(values)[-1]], None
