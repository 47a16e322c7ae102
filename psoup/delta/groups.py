"""GROUP BY: a row of results for each group, which may change whenever a row of the group enters or leaves.

    rows             IBM 10   3 ─────────── 9
                     IBM 30        5 ── 7
    sum by symbol    IBM 10   3-4                 leaves at 5, where IBM 40 enters
                     IBM 40        5 ── 7         leaves at 8, where IBM 10 enters
                     IBM 10             8-9       leaves at 10

A group without rows has no row of results. A query without GROUP BY always has one row. Before the first change, these
are the results over no rows. `psoup.aggregates` gives the same results over the same rows. COUNT, SUM and AVG have a
state for each group (`running_states`, and `distinct_states` for DISTINCT values). Other measures are computed again
from the rows of the changed groups (`recomputed_states`). The rows of a group are in the order of the input, which
FIRST and LAST follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from psoup.delta.buffers import BufferKind, Entries
from psoup.delta.distinct_states import DistinctState, takes_values_back
from psoup.delta.linked_rows import ABSENT, LinkedRows
from psoup.delta.positions import Positions
from psoup.delta.recomputed_states import Layout, Lives, recomputed
from psoup.delta.row_store import RowStore
from psoup.delta.running_states import Arguments, RunningState, takes_back
from psoup.delta.spans import Deltas, Spans, checked, equal_to_next, in_order
from psoup.delta.value_table import ValueTable, new_places, wastes, with_room
from psoup.invariants import ensure
from psoup.model import DataType
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column


class GroupMeasure(NamedTuple):
    """A measure of a group. `args`: the places of its arguments in the input. `condition`: the place of its FILTER."""

    measure: Measure
    args: tuple[int, ...] = ()
    condition: int | None = None


class _Changes(NamedTuple):
    """The rows that enter and leave in a step. `groups`, `instants`: of rows that enter, then of rows that leave.

    `first`: the number of the first row that enters. `leaving`: the numbers of the rows that leave.
    """

    groups: Array
    instants: Array
    first: int
    leaving: Array


def _state_of(measure: Measure, keys: Sequence[DataType]) -> RunningState | DistinctState | None:
    """The state of a measure, or None for a measure that is computed from the rows of a group."""
    if takes_values_back(measure):
        return DistinctState(measure, keys)
    return RunningState(measure) if takes_back(measure) else None


class Groups:
    """The groups of one input: the key columns, then a column for each measure.

    `types`: the types of the input's columns. `keys`: the places of the keys; without keys, all rows are one group.
    `buffer`: the kind of buffer for rows; `fifo` if they end in the order in which they start.
    """

    def __init__(
        self,
        types: Sequence[DataType],
        keys: Sequence[int],
        measures: Sequence[GroupMeasure],
        *,
        buffer: BufferKind = "calendar",
    ) -> None:
        self._key_places, self._measures = tuple(keys), tuple(measures)
        read = [*[place for each in measures for place in each.args], *[each.condition for each in measures]]
        self._stored = sorted({place for place in read if place is not None})
        self._store = RowStore([types[place] for place in self._stored])
        self._values = ValueTable([types[place] for place in keys])
        key_types = [types[place] for place in keys]
        self._states = [_state_of(each.measure, key_types) for each in measures]
        self._distinct = [place for place, state in enumerate(self._states) if isinstance(state, DistinctState)]
        """The places of the measures of DISTINCT values. Each has an array of numbers of the rows."""
        self._rows = LinkedRows(len(self._distinct), buffer)
        self._counts: Array = np.zeros(0, np.int64)
        """The number of rows of each group."""
        self._used = 0
        """The number of groups with rows."""
        self._has_lists = None in self._states
        """Whether a measure is computed again from the rows of a group. Then each group has a list of its rows."""
        self._head: Array = np.zeros(0, np.int32)
        self._links: Array = np.zeros(0, np.int32)
        self._until: int | None = None

    @property
    def rows(self) -> int:
        """The number of rows of all groups."""
        return self._rows.used

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        states = sum(state.nbytes for state in self._states if state is not None)
        arrays = self._counts.nbytes + self._head.nbytes + self._links.nbytes
        return states + arrays + self._store.nbytes + self._values.nbytes + self._rows.nbytes

    def load(self, inputs: Sequence[Spans], until: int) -> None:
        """Add rows that are in the relation at `until`, before the first step; see `psoup.delta.spans.load`. O(n)."""
        (spans,) = inputs
        spans = checked(spans, self._until, until)
        ensure(bool((spans.end >= until).all()), self, "a row left before")
        self._until = until
        first, groups = self._add(spans)
        np.add.at(self._counts, groups, 1)
        self._used = int(np.count_nonzero(self._counts))
        for place, (each, state) in enumerate(zip(self._measures, self._states, strict=True)):
            if isinstance(state, RunningState):
                state.add(self._given(each, spans.columns), groups)
            elif isinstance(state, DistinctState):
                state.load(self._numbers(place)[first : self._rows.count], groups)

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """The changes up to `until`; see `Operator`. O(n log n) for COUNT, SUM and AVG.

        Other measures take O(rows of the changed groups + n log n), or for those that depend on the order of rows
        O(rows of the changed groups * their changes).
        """
        (spans,) = inputs
        spans = checked(spans, self._until, until)
        self._until = until
        first, groups = self._add(spans)
        gone: Entries = self._rows.expire(until)
        leaving = gone.rows.astype(np.int64)
        changes = _Changes(
            np.concatenate([groups, self._rows.keys[leaving]]),
            np.concatenate([spans.start, gone.ends + 1]),
            first,
            leaving,
        )
        deltas = self._deltas(changes)
        self._evict()
        return deltas

    def _add(self, spans: Spans) -> tuple[int, Array]:
        """Append rows. Returns the number of the first one, and the group of each."""
        keys, size = [spans.columns[place] for place in self._key_places], len(spans.start)
        groups = self._values.number(keys, size)
        numbers = list[Array]()
        for each, state in zip(self._measures, self._states, strict=True):
            if isinstance(state, DistinctState):
                numbers.append(state.number(keys, self._given(each, spans.columns), size))
        self._store.add([spans.columns[place] for place in self._stored], size)
        first = self._rows.add(spans.end, groups, numbers)
        count = self._values.count
        self._counts = with_room(self._counts, count)
        self._head, self._links = with_room(self._head, count, -1), with_room(self._links, count)
        if self._has_lists:
            self._rows.chain_new(first, self._head, self._links)
        for state in self._states:
            if state is not None:
                state.grow(count)
        return first, groups

    def _deltas(self, changes: _Changes) -> Deltas:
        """Return the deltas of all changed groups, and add the changes to the state."""
        groups = changes.groups.astype(np.int64)
        positions = Positions.of(groups, changes.instants, len(groups) - len(changes.leaving))
        counts = self._count(positions)
        columns = self._results(positions, changes)
        keys = self._values.columns(positions.group)
        present = counts > 0 if self._key_places else np.ones(len(counts), np.bool_)
        later = positions.later
        changed = ~(present[1:] & present[:-1] & equal_to_next(columns))
        enters = np.flatnonzero(later[1:] & present[1:] & changed) + 1
        leaves = np.flatnonzero(later[1:] & present[:-1] & changed)
        rows = np.append(leaves, enters)
        signs = np.repeat(np.array([-1, 1], np.int8), [len(leaves), len(enters)])
        at = positions.instant[np.append(leaves + 1, enters)]
        return in_order([column.take(rows) for column in (*keys, *columns)], signs, at)

    def _count(self, positions: Positions) -> Array:
        """Return the number of rows at all positions, and add the changes to the counts."""
        counts = positions.counts(self._counts, positions.enters, positions.leaves)
        last = positions.last
        groups = positions.group[last]
        self._used += int(np.count_nonzero(counts[last])) - int(np.count_nonzero(self._counts[groups]))
        self._counts[groups] = counts[last]
        return counts

    def _results(self, positions: Positions, changes: _Changes) -> list[Column]:
        """The columns of the measures at all positions."""
        entering = np.arange(changes.first, changes.first + len(positions.enters))
        columns, layout = list[Column](), None
        for place, (each, state) in enumerate(zip(self._measures, self._states, strict=True)):
            if isinstance(state, RunningState):
                given = self._arguments(each, entering), self._arguments(each, changes.leaving)
                columns.append(state.at_positions(positions, *given))
                continue
            if isinstance(state, DistinctState):
                numbers = self._numbers(place)
                columns.append(state.at_positions(positions, numbers[entering], numbers[changes.leaving]))
                continue
            if layout is None:
                layout, places, lives = self._lives(positions, changes, entering)
            whole = recomputed(each.measure, lives, layout, partial(self._arguments, each))
            columns.append(whole.take(places))
        return columns

    def _lives(self, positions: Positions, changes: _Changes, entering: Array) -> tuple[Layout, Array, Lives]:
        """The layout of the changed groups, the place of each position, and the places of all their rows."""
        last = positions.last
        begins = positions.first[last]
        groups = positions.group[last]
        layout = Layout.of(last - begins + 1)
        index: Array = np.zeros(len(self._counts), np.int64)
        index[groups] = np.arange(len(groups))
        ends = layout.base + np.left_shift(1, layout.levels)
        places = layout.base[index[positions.group]] + np.arange(len(positions.group)) - positions.first
        stays = self._rows.of_keys(groups, self._head, self._links)
        stays = stays[stays < changes.first]
        old = changes.leaving < changes.first
        rows = np.concatenate([changes.leaving[old], entering])
        of_group = index[self._rows.keys[rows]]
        start, stop = layout.base[of_group], ends[of_group]
        start[len(rows) - len(entering) :] = places[positions.enters]
        stop[: np.count_nonzero(old)] = places[positions.leaves[old]]
        stop[len(rows) - len(entering) + changes.leaving[~old] - changes.first] = places[positions.leaves[~old]]
        return layout, places, Lives(rows, start, stop, stays, index[self._rows.keys[stays]])

    def _numbers(self, place: int) -> Array:
        """The numbers of the values of a measure of DISTINCT values, by row."""
        return self._rows.numbers[self._distinct.index(place)]

    def _arguments(self, each: GroupMeasure, rows: Array) -> Arguments:
        """The arguments of a measure for stored rows."""
        taken = self._store.take(rows)
        columns = dict(zip(self._stored, taken, strict=True))
        condition = None if each.condition is None else columns[each.condition]
        return [columns[place] for place in each.args], condition

    def _given(self, each: GroupMeasure, columns: Sequence[Column]) -> Arguments:
        """The arguments of a measure for rows of the input."""
        condition = None if each.condition is None else columns[each.condition]
        return [columns[place] for place in each.args], condition

    def _evict(self) -> None:
        """Remove the rows that left and the groups without rows, if they are many."""
        count = self._values.count
        if not self._rows.wastes() and not wastes(count, self._used):
            return
        self._store.keep(self._rows.keep())
        stays = np.flatnonzero(self._counts > 0) if self._key_places else np.zeros(1, np.int64)
        places = new_places(stays, count)
        self._values.keep(stays)
        self._counts = self._counts[stays]
        self._head, self._links = np.full(len(stays), -1, np.int32), np.zeros(len(stays), np.int32)
        self._rows.chain(places, self._head, self._links)
        every = np.arange(self._rows.count)
        for place, (each, state) in enumerate(zip(self._measures, self._states, strict=True)):
            if isinstance(state, RunningState):
                state.restart(len(stays))
                state.add(self._arguments(each, every), self._rows.keys[every])
            elif isinstance(state, DistinctState):
                numbers = self._numbers(place)
                numbers[every] = state.keep(numbers[every], self._rows.keys[every], len(stays))

    def check(self) -> None:
        """Raise Corrupt if an invariant does not hold. O(state)."""
        until = -(2**63) if self._until is None else self._until
        self._rows.check(until)
        ensure(self._store.count == self._rows.count, self, "each row has its arguments")
        groups = self._rows.keys[self._rows.ends != ABSENT]
        counts = np.bincount(groups, minlength=len(self._counts))
        ensure(bool((counts == self._counts).all()), self, "each group knows the number of its rows")
        ensure(int(np.count_nonzero(counts)) == self._used, self, "the groups with rows are counted")
