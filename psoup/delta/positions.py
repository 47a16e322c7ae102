"""The instants at which groups of rows change in a step, as positions.

    changes     IBM 5   IBM 8   SUN 6
    positions   IBM before, IBM 5, IBM 8, SUN before, SUN 6

Several changes of a group at one instant share a position.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psoup.values.columns import Array


class Positions(NamedTuple):
    """For each changed group, the beginning of the step, then the instants of its changes, in order.

    `group`: the group of each position, int64[p]. `first`: the position of its group's beginning, int64[p]. `instant`:
    the instant of each position, int64[p], arbitrary for beginnings. `enters`, `leaves`: the position of each row that
    enters or leaves, int64[k].
    """

    group: Array
    first: Array
    instant: Array
    enters: Array
    leaves: Array

    @classmethod
    def of(cls, groups: Array, instants: Array, entering: int) -> Positions:
        """The positions of changes with groups and instants, int64[n]. The first `entering` rows enter. O(n log n)."""
        order = np.lexsort((instants, groups))
        group, instant = groups[order], instants[order]
        new_group = np.append(True, group[1:] != group[:-1])[: len(order)]
        new = new_group.copy()
        new[1:] |= instant[1:] != instant[:-1]
        at = np.cumsum(new) + np.cumsum(new_group) - 1  # a group's beginning has a position of its own
        place = np.empty(len(order), np.int64)
        place[order] = at
        count = int(at[-1]) + 1 if len(at) else 0
        of_group, when, first = (np.zeros(count, np.int64) for _ in range(3))
        of_group[at], when[at] = group, instant
        begins = at[new_group] - 1
        of_group[begins], first[begins] = group[new_group], begins
        return cls(of_group, np.maximum.accumulate(first), when, place[:entering], place[entering:])

    @property
    def later(self) -> Array:
        """Whether a position is not the beginning of its group, bool[p]."""
        return np.arange(len(self.first)) > self.first

    @property
    def last(self) -> Array:
        """The last position of each group, int64."""
        return np.flatnonzero(np.append(self.first[1:] != self.first[:-1], True)[: len(self.first)])

    def counts(self, before: Array, enters: Array, leaves: Array) -> Array:
        """The number of rows at each position, int64[p]. O(p + k).

        `before`: the number of rows of each group before the step. `enters`, `leaves`: the positions of the rows that
        count.
        """
        size = len(self.group)
        total = np.cumsum(np.bincount(enters, minlength=size) - np.bincount(leaves, minlength=size))
        counts: Array = before[self.group] + total - total[self.first]
        return counts
