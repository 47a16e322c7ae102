"""The rows of one source: its matches in stream order, as references to tuples until their columns are gathered.

    matches, chunk by chunk ─> groups of chunk and ascending offsets ─> columns
    tuple IDs in any order  ─> sorted, chunk by chunk, and back      ─> columns

`Reading` has the matches, limits and budget of one answer, over one source or several.
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
from psoup.execution.select.match_forms import Matches
from psoup.expressions.evaluate import TooMuchText
from psoup.expressions.tree import Expr
from psoup.joins.pairs_store import PairTable
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array, Column
from psoup.work.read_budget import GroupBytes, HeldBytes, ReadBudget
from psoup.work.runner import Runner, serial

_DISK_ROWS = 16_384
"""The least number of rows that a sorted answer gathers at once if chunks are on disk."""
_JOINS = JoinLimits()
_GROUPS = GroupLimits()


def groups(matches: Sequence[Matches], max_rows: int, limit: int | None = None, skip: int = 0) -> Iterator[Group]:
    """Yield the matches in groups of at most `max_rows`. Skips the first `skip` matches, and yields at most `limit`."""
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
    return np.concatenate([chunk.places.ids(offsets) for chunk, offsets in group])


def by_ids(
    outputs: list[Expr],
    chunks: Sequence[Chunk],
    ids: Array,
    now: int | None,
    texts: TextLimits,
    budget: ReadBudget,
) -> Iterator[list[Column]]:
    """Compute output expressions over the tuples `ids` (int64[n]) of `chunks`, in the order of `ids`.

    Yields several parts if texts are too large for one. O(n + chunks). Raises as `computed`.
    """
    budget.check()
    in_order = bool((ids[1:] > ids[:-1]).all())
    order = None if in_order else sorted_by(ids, np.arange(len(ids), dtype=np.uint32), budget)
    ascending = ids if order is None else ids[order]
    place = np.searchsorted(np.array([chunk.first_id for chunk in chunks], np.int64), ascending, "right") - 1
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    group: Group = []
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(ids)], strict=True):
        chunk = chunks[int(place[start])]
        group.append((chunk, chunk.places.rows(ascending[start:stop])))
    columns: list[Column] | None = None
    with suppress(TooMuchText):
        columns = computed_at_once(outputs, group, now, texts, budget)
    if columns is None:  # not in the handler: its exception would keep the values of all rows alive
        middle = len(ids) // 2
        yield from by_ids(outputs, chunks, ids[:middle], now, texts, budget)
        yield from by_ids(outputs, chunks, ids[middle:], now, texts, budget)
        return
    if order is None:
        yield columns
        return
    back: Array = np.empty(len(ids), np.int64)
    back[order] = np.arange(len(ids))
    yield [column.take(back) for column in columns]


@dataclass(slots=True)
class Reading:
    """The matches, limits and budget of one answer. `errors`: the number of values that are NULL as they failed."""

    matches: Sequence[Sequence[Matches]]
    """The matches of each source, in the order of FROM."""
    now: int | None
    texts: TextLimits
    budget: ReadBudget
    sort_rows: int
    """The most rows that the answer may sort."""
    joins: JoinLimits = _JOINS
    groups: GroupLimits = _GROUPS
    run: Runner = serial
    """The threads that large joins may use."""
    keys: KeyRoom | None = None
    """The key indexes of the streams of a join. None for other plans."""
    pairs: PairTable | None = None
    """The pairs of the join that maintenance keeps. None if it keeps none."""
    errors: int = 0
    join_errors: int = 0
    """The number of failed values in conditions over several sources, in the rows found so far."""
    folded_errors: int = 0
    """The number of failed values of keys, arguments and FILTER of aggregates, in the rows folded so far."""

    lost_before: Sequence[int] = ()
    """For each source, the end before which versions of a table count as lost. Empty for a query over one source."""
    tables: Sequence[StreamView] = ()
    """For each source, its view. Empty for a query over one source."""
    unknown: int = 0
    """The number of rows so far without a certain version of a table (`psoup.execution.partners.unknown_versions`)."""

    between: Between | None = None
    """The window of an aggregate, with its fold if there is one. `matches` lacks the tuples of the fold. Else None."""

    room: HeldBytes | None = None
    """The account for the bytes of groups of many queries. None: the budget, as for one query."""

    def charged(self) -> HeldBytes:
        """The account for the bytes of groups of many queries."""
        return GroupBytes(self.budget) if self.room is None else self.room

    @contextmanager
    def texts_within(self, limits: TextLimits) -> Iterator[None]:
        """A context in which texts have other limits. The caller must not yield rows inside it."""
        before, self.texts = self.texts, limits
        try:
            yield
        finally:
            self.texts = before

    def count(self, columns: Sequence[Column]) -> None:
        """Add the errors in these columns to `errors`."""
        self.errors += sum(int(np.count_nonzero(c.error)) for c in columns if c.error is not None)

    def count_folded(self, columns: Sequence[Column]) -> None:
        """Add the errors in these columns, which are folded into groups, to `folded_errors`."""
        self.folded_errors += sum(int(np.count_nonzero(c.error)) for c in columns if c.error is not None)

    def begin(self) -> None:
        """Set the numbers of errors to 0, as the caller will read the rows from the first."""
        self.errors = self.join_errors = self.folded_errors = self.unknown = 0

    def computed(self, outputs: list[Expr], group: Group) -> Iterator[list[Column]]:
        """Compute expressions over a group of tuples, in one part or several."""
        return computed(outputs, group, self.now, self.texts, self.budget, self.run)


@dataclass(slots=True)
class SourceRows:
    """The matches of one source as rows. `limit`: the most rows that remain after the first `skip`."""

    reading: Reading
    matches: Sequence[Matches]
    limit: int | None = None
    skip: int = 0

    def cut(self, rows: int | None, skip: int) -> None:
        """Keep only `rows` rows after the first `skip`. Called once. O(1)."""
        self.limit = rows
        self.skip = skip

    @property
    def count(self) -> int:
        """The number of matches, without regard to `limit` and `skip`."""
        return sum(match.count for match in self.matches)

    def groups(self, most: int) -> Iterator[Group]:
        """Yield the tuples in groups of at most `most` rows."""
        return groups(self.matches, most, self.limit, self.skip)

    def keyed(self, keys: list[Expr], most: int) -> Iterator[tuple[Array, Iterator[list[Column]]]]:
        """Yield tuple IDs of rows, at most `most` at once, and the values of `keys` over them in parts."""
        for group in self.groups(most):
            self.reading.budget.check()
            yield ids_of(group), self.reading.computed(keys, group)

    def arranged(self, outputs: list[Expr], ids: Array, most: int) -> Iterator[list[Column]]:
        """Compute expressions over the tuples `ids`, in that order, at most `most` at a time, or 16,384 from disk."""
        chunks = [match.data for match in self.matches]
        if any(not chunk.in_memory for chunk in chunks):
            most = max(most, _DISK_ROWS)
        reading = self.reading
        for start in range(0, len(ids), most):
            piece = ids[start : start + most]
            yield from by_ids(outputs, chunks, piece, reading.now, reading.texts, reading.budget)

    def close(self) -> None:
        """Do nothing, as these rows hold no bytes."""

    def columns(self, outputs: list[Expr], most: int) -> Iterator[list[Column]]:
        """Compute expressions over the rows, in order, at most `most` rows at a time."""
        for group in self.groups(most):
            self.reading.budget.check()
            yield from self.reading.computed(outputs, group)
