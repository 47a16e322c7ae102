"""Rows folded into groups: keys become group numbers, arguments become states, states become a table of groups.

    parts of rows ─ keys ─> numbers of groups ─┐
                  └ arguments, FILTER ─────────┴─> states ─┬─> a table: keys, measures, in the order of the keys
    a fold that is kept ─ keys, states ────────────────────┘

Bytes of keys and states are charged before they are taken. The number of groups is bounded (`group_keys`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from psoup.aggregates.growth import is_fixed
from psoup.aggregates.keys import Keys
from psoup.aggregates.list_states import DistinctValues, GroupValues, listed
from psoup.aggregates.measures import folding_of, rows_for
from psoup.aggregates.numbers import Hold, over_keys
from psoup.aggregates.recipes import FOLD_BYTES, Fold
from psoup.aggregates.state import Folding, State, copied, size_of
from psoup.budgets import SORT_ROWS
from psoup.config import GroupLimits
from psoup.data.dictionary_column import Coded
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.row_parts import GroupCase, GroupTable, parts_of
from psoup.execution.aggregate.window_ends import first_of
from psoup.execution.join.join_rows import JoinRows
from psoup.execution.rows.source_rows import Reading, SourceRows
from psoup.execution.select.clause_matches import ChunkMatches
from psoup.execution.select.match_bits_at_ends import EndBits
from psoup.expressions.tree import AttributeRef, Expr
from psoup.plan.nodes import Aggregate, Measure
from psoup.published.snapshot import Snapshot
from psoup.values.columns import Array, Column, value_bytes
from psoup.work.read_budget import GroupBytes, ReadBudget

_QUICK = 2 * 1024**2
"""Most bytes of states whose results take a few milliseconds. A read waits for its turn before it makes more."""

_CHECKED = 4_096
"""Fewest rows for which the deadline is looked at between two measures."""

_MOST_BYTES = 1 << 28
"""Bytes of groups that a read without a limit counts with."""
_PIECE_SHARE = 16
"""The texts of a piece take at most one part in so many of the bytes of groups."""

_ONLY: Array = np.zeros(1, np.int64)
"""The place of the only group."""


@dataclass(slots=True)
class Kept:
    """A state, and one of the measures that are made of it."""

    measure: Measure
    folding: Folding
    state: State
    room: int
    size: int = 0


def fold_rows(case: GroupCase) -> GroupTable:
    """The table of any aggregate, row by row. Raises ResourceExhausted if its groups are too many, or too large."""
    reading = case.rows.reading
    between = reading.between
    folder = Folder(case.node, reading, case.hold, None if between is None else between.fold)
    most = min(reading.budget.sort_bytes, _MOST_BYTES) // _PIECE_SHARE
    with reading.texts_within(reading.texts.in_pieces(most)):
        for rows in _pieces(case.rows, folder):
            for part in parts_of(rows, folder.wanted, folder.coded):
                folder.add(*part)
    return folder.table()


def fold_of(
    node: Aggregate,
    matches: Sequence[ChunkMatches | EndBits],
    snapshot: Snapshot,
    budget: ReadBudget,
    groups: GroupLimits | None = None,
    *,
    keep: Hold | None = None,
) -> Fold:
    """The fold of the matches of one chunk, or of neighbouring chunks. `groups`: the default is the engine's bounds.

    `keep`: takes the most bytes of the fold before it is made, as it is a copy of the groups. The default counts these
    bytes until the fold is made.
    """
    config, held = snapshot.config, GroupBytes(budget)
    groups = groups or config.groups
    reading = Reading([matches], None, config.texts, budget, config.sort_rows, groups=groups)
    folder, rows = Folder(node, reading, held.hold), SourceRows(reading, matches)
    try:
        for part in parts_of(rows, folder.wanted, folder.coded):
            folder.add(*part)
        (keep or held.hold)(folder.fold_bytes)
        return folder.folded(rows.count, sum(match.errors for match in matches))
    finally:
        held.give_back()


def _pieces(rows: SourceRows | JoinRows, folder: Folder) -> Iterator[SourceRows | JoinRows]:
    """The rows, in their order. The fold of the inner chunks joins the states between the two ends of the window."""
    between = rows.reading.between
    if between is None or between.fold is None or not isinstance(rows, SourceRows):
        yield rows
        return
    if between.recipe.commutes:
        folder.join(between.fold)
        yield rows
        return
    some = [match for match in rows.matches if match.count]
    yield replace(rows, matches=[match for match in some if first_of(match) < between.begins])
    folder.join(between.fold)
    yield replace(rows, matches=[match for match in some if first_of(match) >= between.begins])


class Folder:
    """The groups of rows that come part by part, and the states of the measures of an Aggregate.

    `wanted`: the expressions that `add` is given the values of; `coded`: those that may come as numbers of values.
    """

    def __init__(self, node: Aggregate, reading: Reading, hold: Hold, fold: Fold | None = None) -> None:
        """`fold`: one that will be joined; its groups have the first numbers."""
        self._node = node
        self._reading = reading
        self._hold = hold
        read = [expr for m in node.measures for expr in (*m.args, *([] if m.condition is None else [m.condition]))]
        self.wanted: list[Expr] = list(dict.fromkeys([*node.keys, *read]))
        plain = [key for key in node.keys if isinstance(key, AttributeRef) and key.index >= 0 and key not in read]
        self.coded: list[AttributeRef] = plain
        self._places = {expr: place for place, expr in enumerate(self.wanted)}
        self._keys = None
        self._base = None if fold is None or fold.numbers is None else fold
        if fold is not None and node.keys and fold.groups > reading.groups.keys:
            raise over_keys(reading.groups.keys)
        if fold is not None and fold.numbers is not None:
            self._keys = fold.numbers.fork(reading.groups.keys, hold)
        elif node.keys:
            self._keys = Keys([key.type for key in node.keys], reading.groups.keys, hold)
        self._states = states_of(node)
        self._added = False

    @property
    def groups(self) -> int:
        """The number of groups."""
        return 1 if self._keys is None else self._keys.count

    @property
    def nbytes(self) -> int:
        """Bytes of the keys, of the tables of their numbers, and of the states, with room to grow."""
        keys = 0 if self._keys is None else self._keys.nbytes
        return keys + sum(kept.size or size_of(kept.state) for kept in self._states.values())

    @property
    def fold_bytes(self) -> int:
        """The most bytes of the fold of what was added, about: a copy of keys and states, without their tables."""
        size = FOLD_BYTES + sum(self._own_bytes(kept) for kept in self._states.values())
        if self._keys is not None:
            size += sum(value_bytes(key.type) + 1 for key in self._node.keys) * self.groups
            size += self._keys.text_bytes(np.arange(self.groups))
        return size

    def _own_bytes(self, kept: Kept) -> int:
        """The most bytes of a state without its room to grow."""
        size = size_of(kept.state)
        return size * self.groups // max(kept.room, self.groups) if is_fixed(kept.folding) else size

    def add(self, count: int, columns: Sequence[Column | Coded]) -> None:
        """Add `count` rows, of which `columns` are the values of `wanted`."""
        self._added = True
        values = [column if isinstance(column, Column) else None for column in columns]
        self._reading.count_folded([column for column in values if column is not None])
        codes = None
        if self._keys is not None:
            codes = self._keys.number([columns[self._places[key]] for key in self._node.keys])
        for kept in self._states.values():
            if count >= _CHECKED:  # of some hundred measures a part takes half a second
                self._reading.budget.check()
            measure = kept.measure
            args = [column for arg in measure.args if (column := values[self._places[arg]]) is not None]
            condition = None if measure.condition is None else values[self._places[measure.condition]]
            self._make_room(kept)
            kept.state = kept.folding.add(kept.state, rows_for(measure, args, condition, codes, count))
            self._charge(kept)
        if sum([kept.size for kept in self._states.values()]) > _QUICK:
            self._reading.budget.before_long()

    def folded(self, matched: int, errors: int) -> Fold:
        """The fold of what was added: so many tuples, and those for which WHERE could not be computed."""
        failed, kept = self._reading.folded_errors, self._states.values()
        if self._keys is None:
            return Fold(matched, errors, failed, tuple([each.state for each in kept]))
        order = self._keys.order()
        states = tuple([each.folding.arrange(each.state, order) for each in kept])
        return Fold(matched, errors, failed, states, tuple(self._keys.columns(order)))

    def join(self, fold: Fold) -> None:
        """Add a fold of later rows, which stays as it is."""
        self._reading.folded_errors += fold.failed
        if not fold.groups:
            return
        if self._keys is None:
            places = _ONLY
        elif fold is self._base:
            places = np.arange(fold.groups)
        else:
            places = self._keys.number(fold.keys).astype(np.int64)
        for kept, state in zip(self._states.values(), fold.states, strict=True):
            if fold is self._base and not self._added:
                self._hold(size_of(state))
                kept.state, kept.room, kept.size = copied(state), fold.groups, size_of(state)
            else:
                self._make_room(kept)
                kept.state = kept.folding.combine(kept.state, state, places)
                self._charge(kept)

    def _make_room(self, kept: Kept) -> None:
        """Let a state have room for all groups, and for as many again when it has to grow."""
        if kept.room >= self.groups:
            return
        room = max(2 * kept.room, self.groups)
        self._hold(kept.size * (room - kept.room) // kept.room)
        kept.size += kept.size * (room - kept.room) // kept.room
        kept.state, kept.room = kept.folding.grow(kept.state, room), room

    def _charge(self, kept: Kept) -> None:
        """Charge what a state has grown by."""
        size = size_of(kept.state)
        if size > kept.size:
            self._hold(size - kept.size)
            kept.size = size
        if isinstance(kept.folding, DistinctValues) and listed(kept.state) > self._reading.groups.keys:
            kept.state = kept.folding.different(kept.state)
            if listed(kept.state) > self._reading.groups.keys:
                raise over_keys(self._reading.groups.keys)
        if isinstance(kept.folding, GroupValues) and listed(kept.state) > self._reading.sort_rows:
            raise _over_values(listed(kept.state), self._reading.sort_rows)

    def table(self) -> tuple[dict[int, Column], int]:
        """The columns of the table by place, its rows in the order of the keys, and how many rows it has."""
        groups = self.groups
        order = None if self._keys is None or self._keys.in_order else self._keys.order()
        keys = [] if self._keys is None else self._keys.columns(np.arange(groups) if order is None else order)
        table = dict(enumerate(keys))
        for place, measure in enumerate(self._node.measures, len(keys)):
            self._reading.budget.check()
            kept = self._states[_name(measure)]
            self._make_room(kept)
            column = kept.folding.finish(kept.state, measure, groups)
            table[place] = column if order is None else column.take(order)
        return table, groups


def states_of(node: Aggregate) -> dict[object, Kept]:
    """The states that the measures of an Aggregate are made of, without a row: measures may share one."""
    states = dict[object, Kept]()
    for measure in node.measures:
        folding = folding_of(measure)
        states.setdefault(_name(measure), Kept(measure, folding, folding.empty(1), 1))
    return states


def _name(measure: Measure) -> object:
    """Measures of an equal name are made of the same state."""
    return folding_of(measure), measure.args, measure.condition


def _over_values(values: int, most: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"a median or quantile of {values:,} values is more than the {most:,} that one invocation may hold (sort_rows);"
        " narrow the window or the WHERE clause, or take approx_quantile",
        reason="SORT_BUDGET",
        rows=values,
        **SORT_ROWS.over(values, most),
    )
