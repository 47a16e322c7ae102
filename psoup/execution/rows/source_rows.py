"""The rows of one source: its matches in stream order, as references to tuples; columns are gathered last.

    matches, chunk by chunk ─> groups of chunk and ascending offsets ─> columns
    tuple IDs in any order  ─> sorted, chunk by chunk, and back      ─> columns

`Reading` is what all rows of one answer are evaluated with, of however many sources.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import numpy as np

from psoup.aggregates.recipes import Between
from psoup.config import GroupLimits, JoinLimits, TextLimits
from psoup.data.archived_chunk import Chunk
from psoup.data.key_room import KeyRoom
from psoup.execution.rows.select_list import Group, computed, computed_at_once
from psoup.execution.rows.sort_keys import sorted_by
from psoup.execution.select.clause_matches import Matches
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Expr
from psoup.joins.pairs_store import PairTable
from psoup.values.columns import Array, Column
from psoup.work.read_budget import GroupBytes, HeldBytes, ReadBudget
from psoup.work.runner import Runner, serial

_DISK_ROWS = 16_384
"""Rows that a sorted answer gathers at once from files."""
_JOINS = JoinLimits()
_GROUPS = GroupLimits()


def groups(matches: Sequence[Matches], max_rows: int, limit: int | None = None, skip: int = 0) -> Iterator[Group]:
    """The matches in order but for the first `skip`, in groups of at most `max_rows`, `limit` in all."""
    group: Group = []
    room, left = max_rows, limit
    for match in matches:
        if skip >= match.count:
            skip -= match.count
            continue
        offsets = match.offsets[skip:] if left is None else match.offsets[skip:][:left]
        skip = 0
        left = None if left is None else left - len(offsets)
        while len(offsets):
            group.append((match.data, offsets[:room]))
            room -= len(group[-1][1])
            offsets = offsets[len(group[-1][1]) :]
            if not room:
                yield group
                group, room = [], max_rows
    if group:
        yield group


def ids_of(group: Group) -> Array:
    """The tuple IDs of a group, int64."""
    return np.concatenate([offsets + chunk.first_id for chunk, offsets in group])


def by_ids(
    outputs: list[Expr],
    chunks: Sequence[Chunk],
    ids: Array,
    now: int | None,
    texts: TextLimits,
    budget: ReadBudget,
) -> Iterator[list[Column]]:
    """Compute output expressions for tuples of `chunks` in the order of `ids` (int64[n]); in parts if texts are long.

    O(n), and a visit of each chunk. Raises as `outputs.computed`.
    """
    budget.check()
    order = sorted_by(ids, np.arange(len(ids), dtype=np.uint32), budget)
    ascending = ids[order]
    place = np.searchsorted(np.array([chunk.first_id for chunk in chunks], np.int64), ascending, "right") - 1
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    group: Group = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        chunk = chunks[int(place[start])]
        group.append((chunk, ascending[start:stop] - chunk.first_id))
    columns: list[Column] | None = None
    with suppress(TooMuchText):
        columns = computed_at_once(outputs, group, now, texts, budget)
    if columns is None:  # not in a handler: its exception would hold what was made of the whole
        middle = len(ids) // 2
        yield from by_ids(outputs, chunks, ids[:middle], now, texts, budget)
        yield from by_ids(outputs, chunks, ids[middle:], now, texts, budget)
        return
    back: Array = np.empty(len(ids), np.int64)
    back[order] = np.arange(len(ids))
    yield [column.take(back) for column in columns]


@dataclass(slots=True)
class Reading:
    """The matches and limits that rows are evaluated with. `errors`: values that could not be computed, now NULL."""

    matches: Sequence[Sequence[Matches]]
    """The matches of each source, in the order of FROM."""
    now: int | None
    texts: TextLimits
    budget: ReadBudget
    sort_rows: int
    """The number of rows that may be sorted."""
    joins: JoinLimits = _JOINS
    groups: GroupLimits = _GROUPS
    run: Runner = serial
    """The threads that large joins may use."""
    keys: KeyRoom | None = None
    """The key indexes of a join's streams; None for other plans."""
    pairs: PairTable | None = None
    """The kept pairs of a join; None if none are kept."""
    errors: int = 0
    join_errors: int = 0
    """Values that conditions over several sources lack, as they could not be computed: of the rows found so far."""
    folded_errors: int = 0
    """Values of keys, arguments and FILTER of aggregates that could not be computed: of the rows folded so far."""

    between: Between | None = None
    """Of an aggregate without keys: what is folded already, between two ends of the window, whose matches are given."""

    room: HeldBytes | None = None
    """The account that groups of many queries are charged to; None: the budget, as for one query."""

    def charged(self) -> HeldBytes:
        """The account that groups of many queries are charged to."""
        return GroupBytes(self.budget) if self.room is None else self.room

    @contextmanager
    def texts_within(self, limits: TextLimits) -> Iterator[None]:
        """A context in which texts have other limits; nothing is given out in it."""
        before, self.texts = self.texts, limits
        try:
            yield
        finally:
            self.texts = before

    def count(self, columns: Sequence[Column]) -> None:
        """Count the errors of some values."""
        self.errors += sum(int(np.count_nonzero(c.error)) for c in columns if c.error is not None)

    def count_folded(self, columns: Sequence[Column]) -> None:
        """Count the errors of values that are folded into groups."""
        self.folded_errors += sum(int(np.count_nonzero(c.error)) for c in columns if c.error is not None)

    def begin(self) -> None:
        """Count anew: the rows are read from the first."""
        self.errors = self.join_errors = self.folded_errors = 0

    def computed(self, outputs: list[Expr], group: Group) -> Iterator[list[Column]]:
        """Compute expressions over some tuples, in parts."""
        return computed(outputs, group, self.now, self.texts, self.budget, self.run)


@dataclass(slots=True)
class SourceRows:
    """The matches of one source; `limit`: only the first of them after `skip`."""

    reading: Reading
    matches: Sequence[Matches]
    limit: int | None = None
    skip: int = 0

    def cut(self, rows: int | None, skip: int) -> None:
        """Leave only the first rows after `skip`; once. O(1)."""
        self.limit = rows
        self.skip = skip

    @property
    def count(self) -> int:
        """The number of matches, before any are cut."""
        return sum(match.count for match in self.matches)

    def groups(self, most: int) -> Iterator[Group]:
        """The tuples in groups, at most so many in each."""
        return groups(self.matches, most, self.limit, self.skip)

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """The tuple IDs of the rows, at most so many at once, and expressions over them, in parts."""
        for group in self.groups(most):
            self.reading.budget.check()
            yield ids_of(group), self.reading.computed(keys, group)

    def arranged(self, outputs: list[Expr], ids: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over tuples in the order of their IDs, about `most` at a time."""
        chunks = [match.data for match in self.matches]
        if any(not chunk.in_memory for chunk in chunks):
            most = max(most, _DISK_ROWS)
        reading = self.reading
        for start in range(0, len(ids), most):
            piece = ids[start : start + most]
            yield from by_ids(outputs, chunks, piece, reading.now, reading.texts, reading.budget)

    def close(self) -> None:
        """Nothing is held."""

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most so many rows at a time."""
        for group in self.groups(most):
            self.reading.budget.check()
            yield from self.reading.computed(outputs, group)
