"""The way that folds rows into groups. Keys become group numbers, arguments become states, states become a table.

    parts of rows ─ keys ─> numbers of groups ─┐
                  └ arguments, FILTER ─────────┴─> states ─┬─> a table: keys, measures, in the order of the keys
    a fold that is kept ─ keys, states ────────────────────┘

The folder charges the bytes of keys and states to the read before it allocates them. The setting `group_keys` bounds
the number of groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace

import numpy as np

from psoup.aggregates.growth import is_fixed
from psoup.aggregates.keys import Keys
from psoup.aggregates.list_states import DistinctValues, GroupValues, listed
from psoup.aggregates.measures import folding_of, rows_for
from psoup.aggregates.numbers import Hold, over_keys
from psoup.aggregates.ordered_rows import OrderedRows
from psoup.aggregates.recipes import FOLD_BYTES, Fold
from psoup.aggregates.state import Folding, State, copied, size_of
from psoup.budgets import SORT_ROWS
from psoup.config import EngineConfig, GroupLimits
from psoup.data.dictionary_column import Coded
from psoup.errors import ResourceExhausted
from psoup.execution.aggregate.row_parts import GroupCase, GroupTable, parts_of
from psoup.execution.aggregate.window_ends import first_of
from psoup.execution.rows.plan_rows import FoldableRows
from psoup.execution.rows.source_rows import Reading, SourceRows
from psoup.execution.select.match_bits_at_ends import EndBits
from psoup.execution.select.match_forms import ChunkMatches
from psoup.expressions.tree import AttributeRef, Expr
from psoup.plan.nodes import Aggregate, Measure
from psoup.values.columns import Array, Column, value_bytes
from psoup.work.read_budget import GroupBytes, ReadBudget

_QUICK = 2 * 1024**2
"""The most bytes of states whose results take a few milliseconds. A read with more waits for its turn first."""

_CHECKED = 4_096
"""The least number of rows of a part for which the folder checks the deadline before each measure."""

_MOST_BYTES = 1 << 28
"""The bytes of groups that a read without a limit assumes, to derive the size of its pieces of texts."""
_PIECE_SHARE = 16
"""The texts of one piece take at most a sixteenth of the bytes of groups."""

_ONLY: Array = np.zeros(1, np.int64)
"""The group numbers of an aggregate without keys: one group, number 0."""


@dataclass(slots=True)
class Kept:
    """A state, and one of the measures that are computed from it.

    `room`: the number of groups for which the state has room. `size`: the bytes charged for the state.
    """

    measure: Measure
    folding: Folding
    state: State
    room: int
    size: int = 0


def fold_rows(case: GroupCase) -> GroupTable:
    """Fold all rows into the table of groups. Raises ResourceExhausted if the groups are too many, or too large."""
    return folded(case).table()


def folded(case: GroupCase) -> Folder:
    """Fold all rows into groups. Raises ResourceExhausted if the groups are too many, or too large."""
    reading = case.rows.reading
    between = reading.between
    folder = Folder(case.node, reading, case.hold, None if between is None else between.fold)
    with text_pieces(reading):
        for rows in row_pieces(case.rows, folder.join):
            with closing(parts_of(rows, folder.wanted, folder.coded)) as parts:  # a refused row leaves no bytes held
                for part in parts:
                    folder.add(*part)
    return folder


def text_pieces(reading: Reading) -> AbstractContextManager[None]:
    """A context in which the texts of a piece of rows take a small part of the bytes of groups."""
    most = min(reading.budget.sort_bytes, _MOST_BYTES) // _PIECE_SHARE
    return reading.texts_within(reading.texts.in_pieces(most))


def fold_of(
    node: Aggregate,
    matches: Sequence[ChunkMatches | EndBits],
    config: EngineConfig,
    budget: ReadBudget,
    groups: GroupLimits | None = None,
    *,
    keep: Hold | None = None,
) -> Fold:
    """Compute the fold of the matches of one chunk, or of neighbouring chunks.

    `groups`: bounds of the groups, by default the engine's. `keep`: charges an upper bound of the fold's bytes before
    the fold is copied from the groups. By default the budget holds these bytes until `fold_of` returns.
    """
    held = GroupBytes(budget)
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


def row_pieces(rows: SourceRows | FoldableRows, join: Callable[[Fold], None]) -> Iterator[SourceRows | FoldableRows]:
    """Yield the rows in their order. Call `join` with the kept fold between the two ends of the window.

    A fold whose states commute is joined first. Then the rows come as one piece.
    """
    between = rows.reading.between
    if between is None or between.fold is None or not isinstance(rows, SourceRows):
        yield rows
        return
    if between.recipe.commutes:
        join(between.fold)
        yield rows
        return
    some = [match for match in rows.matches if match.count]
    yield replace(rows, matches=[match for match in some if first_of(match) < between.begins])
    join(between.fold)
    yield replace(rows, matches=[match for match in some if first_of(match) >= between.begins])


class Folder:
    """The groups of an Aggregate, and the states of its measures. `add` takes rows part by part.

    `wanted`: the expressions whose values `add` takes. `coded`: the keys that `add` also takes dictionary-encoded.
    """

    def __init__(self, node: Aggregate, reading: Reading, hold: Hold, fold: Fold | None = None) -> None:
        """`fold`: a kept fold that the caller will add by `join`. Its groups get the first group numbers."""
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
        """Bytes of the keys, the hash tables from key to group number, and the states with their spare room."""
        keys = 0 if self._keys is None else self._keys.nbytes
        return keys + sum(kept.size or size_of(kept.state) for kept in self._states.values())

    @property
    def fold_bytes(self) -> int:
        """An approximate upper bound of the bytes of `folded()`: copies of the keys and states, without hash tables."""
        size = FOLD_BYTES + sum(self._own_bytes(kept) for kept in self._states.values())
        if self._keys is not None:
            size += sum(value_bytes(key.type) + 1 for key in self._node.keys) * self.groups
            size += self._keys.text_bytes(np.arange(self.groups))
        return size

    def _own_bytes(self, kept: Kept) -> int:
        """An upper bound of the bytes of a state without its spare room."""
        size = size_of(kept.state)
        return size * self.groups // max(kept.room, self.groups) if is_fixed(kept.folding) else size

    def add(self, count: int, columns: Sequence[Column | Coded]) -> None:
        """Add `count` rows. `columns`: the values of `wanted` over these rows, in the same order."""
        self._added = True
        values = [column if isinstance(column, Column) else None for column in columns]
        self._reading.count_folded([column for column in values if column is not None])
        codes = None
        if self._keys is not None:
            codes = self._keys.number([columns[self._places[key]] for key in self._node.keys])
        for kept in self._states.values():
            if count >= _CHECKED:  # a part with some hundred measures takes half a second
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
        """Copy the groups into a fold. `matched`: the number of tuples. `errors`: tuples on which WHERE failed."""
        failed, kept = self._reading.folded_errors, self._states.values()
        if self._keys is None:
            return Fold(matched, errors, failed, tuple([each.state for each in kept]))
        order = self._keys.order()
        states = tuple([each.folding.arrange(each.state, order) for each in kept])
        return Fold(matched, errors, failed, states, tuple(self._keys.columns(order)))

    def join(self, fold: Fold) -> None:
        """Add the states of a kept fold, whose rows come after those added so far. The fold itself is not changed."""
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
        """Grow a state that has no room for all groups. The room at least doubles, and its bytes are charged first."""
        if kept.room >= self.groups:
            return
        room = max(2 * kept.room, self.groups)
        self._hold(kept.size * (room - kept.room) // kept.room)
        kept.size += kept.size * (room - kept.room) // kept.room
        kept.state, kept.room = kept.folding.grow(kept.state, room), room

    def _charge(self, kept: Kept) -> None:
        """Charge the bytes by which a state grew. Raises ResourceExhausted if it lists too many values."""
        size = size_of(kept.state)
        if size > kept.size:
            self._hold(size - kept.size)
            kept.size = size
        if isinstance(kept.folding, DistinctValues) and listed(kept.state) > self._reading.groups.keys:
            kept.state = kept.folding.different(kept.state)
            if listed(kept.state) > self._reading.groups.keys:
                raise over_keys(self._reading.groups.keys)
        if isinstance(kept.folding, GroupValues) and listed(kept.state) > self._reading.sort_rows:
            raise _over_values("a median or quantile", listed(kept.state), self._reading.sort_rows)
        if isinstance(kept.folding, OrderedRows) and kept.folding.count(kept.state) > self._reading.sort_rows:
            raise _over_values("an ordered aggregate", kept.folding.count(kept.state), self._reading.sort_rows)

    def table(self) -> tuple[dict[int, Column], int]:
        """The columns of the table by place, and the number of groups. The rows are in the order of the keys."""
        groups = self.groups
        order = None if self._keys is None or self._keys.in_order else self._keys.order()
        keys = [] if self._keys is None else self._keys.columns(np.arange(groups) if order is None else order)
        table = dict(enumerate(keys))
        for place, measure in enumerate(self._node.measures, len(keys)):
            self._reading.budget.check()
            kept = self._states[_name(measure)]
            self._make_room(kept)
            if isinstance(kept.folding, OrderedRows):
                self._hold(kept.folding.room_to_finish(kept.state))
            column = kept.folding.finish(kept.state, measure, groups)
            table[place] = column if order is None else column.take(order)
        return table, groups


def states_of(node: Aggregate) -> dict[object, Kept]:
    """The empty states of the measures of an Aggregate, by name. Measures with one name share a state."""
    states = dict[object, Kept]()
    for measure in node.measures:
        folding = folding_of(measure)
        states.setdefault(_name(measure), Kept(measure, folding, folding.empty(1), 1))
    return states


def _name(measure: Measure) -> object:
    """The name of the state of a measure. Measures with equal names share one state."""
    return folding_of(measure), measure.args, measure.condition


def _over_values(aggregate: str, values: int, most: int) -> ResourceExhausted:
    instead = ", or take approx_quantile" if "quantile" in aggregate else ""
    return ResourceExhausted(
        f"{aggregate} of {values:,} values is more than the {most:,} that one invocation may hold (sort_rows);"
        f" narrow the window or the WHERE clause{instead}",
        reason="SORT_BUDGET",
        rows=values,
        **SORT_ROWS.over(values, most),
    )
