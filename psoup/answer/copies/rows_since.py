"""Change of a copy over one stream: the tuple IDs of the window now, less the tuple IDs that the client holds.

    window now   [──────────────)          held   [────)   [──)
    missing      in the window, not held       ─> matches ─> rows, as many as the reply has room for
    keep         held, and in the window       ─> all other rows of the client leave; of a table also ended versions
    have         keep, and the part of the window whose rows are sent now

The cost depends on the new tuples only, not on the length of the window, nor on the rows held. This works for
selections over one stream, with ORDER BY or with LIMIT, not with both. With ORDER BY, rows travel with their keys, and
the client sorts. `range_plans.ranged` recognises such queries.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from psoup.answer.completeness import Completeness, part_of
from psoup.answer.copies.id_intervals import Interval, Intervals, union, within, without
from psoup.answer.copies.join_since import paired
from psoup.answer.copies.range_plans import Ranged, ranged
from psoup.answer.copies.versions_since import MOST_ENDED, ended_since, runs_of, without_ids
from psoup.answer.invoke import Answer
from psoup.answer.question import Question
from psoup.data.chunk import ChunkView
from psoup.execution.plan import Reading
from psoup.execution.rows.record_batch import Part
from psoup.execution.select.clause_matches import matches_in
from psoup.execution.select.match_forms import ChunkMatches
from psoup.execution.select.window import Reach
from psoup.expressions.tree import reads_now
from psoup.model import Anchor
from psoup.plan.nodes import Node, Source
from psoup.published.records import QueryRecord
from psoup.published.shown_rows import shown_rows
from psoup.published.snapshot import Snapshot, StreamView
from psoup.work.read_budget import ReadBudget

MOST_INTERVALS = 4
"""The most intervals that a client may hold. If there are more, the client drops the oldest, and gets them again later.
"""


class Most(NamedTuple):
    """Limits of one reply: the most rows, and the most tuples of the window that are searched for these rows."""

    rows: int
    tuples: int


class Since(NamedTuple):
    """The change of an answer. `answer`: the rows to be added, in stream order, as `Ranged.plan` shows them.

    `keep`: the tuple IDs of the rows that stay. `have`: the tuple IDs that the client holds after the change.
    `complete`: whether `have` is the whole window. `left`: rows that were found but not sent. `lost`: the tuple IDs
    that the client holds and is to drop.
    """

    answer: Answer
    ranged: Ranged
    keep: Intervals
    have: Intervals
    rows: int
    complete: bool
    left: int
    lost: Intervals
    search: RangeSearch
    matches: Sequence[ChunkMatches]
    ended: int = 0
    """Of a table: the number of the client's rows that leave because a later entry ended them."""

    def stored(self) -> list[Part] | None:
        """The rows to be added, as chunks and offsets. Returns None if the plan computes a value, or if a row is on
        disk. O(chunks).
        """
        if self.ranged.attributes is None:
            return None
        parts = [(match.data, match.offsets) for match in self.matches if match.count]
        in_memory = [(data, offsets) for data, offsets in parts if isinstance(data, ChunkView)]
        return in_memory if len(in_memory) == len(parts) else None

    def any_leaves(self) -> bool:
        """Whether a row of the client may leave. Each call searches the tuple IDs `lost`, so call it only if needed.
        O(chunks).
        """
        return self.ended > 0 or self.search.any_in(self.lost)


class Travel(enum.Enum):
    """The way in which a copy at a client is kept up to date, in words."""

    NEW = "only new rows come, and the window tells which rows leave"
    VERSIONS = "only new versions of rows come, and the entries since then tell which rows leave"
    AGAIN = "only rows that differ come: the answer of before is computed again"
    WHOLE = "the answer comes whole whenever it has changed, as its window begins where tuples leave the stream"
    ALWAYS = "the answer comes whole each time, as it shows now(); select _time and let the client do the rest"


def travel_in(plan: Node, seen: Sequence[Reach]) -> Travel:
    """The way in which copies of a query are kept up to date, as its plan and its windows decide. O(size of
    the plan).
    """
    travel = travel_of(plan)
    return Travel.WHOLE if travel is Travel.AGAIN and any(map(_at_the_edge, seen)) else travel


def _at_the_edge(part: Reach) -> bool:
    """Whether a window begins where retention drops tuples: a former answer then soon cannot be computed again."""
    begin, retention = part.window.begin, part.view.spec.retention
    if begin.anchor is Anchor.START:
        return retention.rows is not None or retention.duration is not None
    by_rows = retention.rows is not None and begin.rows is not None and begin.rows >= retention.rows
    by_time = retention.duration is not None and begin.anchor is Anchor.NOW and begin.offset >= retention.duration
    return by_rows or by_time


def travel_of(plan: Node) -> Travel:
    """The way in which copies of a query are kept up to date, as its plan alone decides. O(size of the plan)."""
    if (how := ranged(plan)) is not None:
        source = how.plan.input
        return Travel.VERSIONS if isinstance(source, Source) and source.spec.table is not None else Travel.NEW
    if paired(plan) is not None:
        return Travel.NEW
    exprs = [output.expr for output in plan.schema] + [key.expr for key in plan.order]
    return Travel.ALWAYS if any(map(reads_now, exprs)) else Travel.AGAIN


def since(
    snapshot: Snapshot,
    record: QueryRecord,
    how: Ranged,
    client_ids: Intervals,
    most: Most,
    question: Question,
    *,
    oldest_first: bool = False,
    next_id: int | None = None,
) -> Since:
    """The change of a copy at a client that holds exactly the rows of the tuple IDs `client_ids`.

    `oldest_first`: if not all rows fit, True sends the oldest rows, False the newest. `next_id`: of a table, the next
    tuple ID when the client got these rows; the versions that have ended since leave. Raises the errors of
    `psoup.answer.invoke.invoke`.
    """
    view = snapshot.by_id[record.stream_id]
    seen = question.seen_of_one(view, question.windows(record.query)[0])
    search = RangeSearch(snapshot, view, record.sqc_id, question.budget)
    low, high = seen.range.low, search.end_of(seen.range.low, seen.range.high, how.limit)
    search.budget.window = high - low
    search.budget.check()

    stay = _staying(search, within(client_ids, low, high), view.next_id if next_id is None else next_id)
    added, matches, left = search.page(without(low, high, stay.complete), most, oldest_first)
    have, keep = union([*stay.complete, *added]), stay.keep
    if len(have) > MOST_INTERVALS:
        have, keep, matches = _fewer(have, keep, matches)
    errors = sum(match.errors for match in matches)
    completeness = Completeness(snapshot.sequence, seen.now, errors, (part_of(snapshot, seen),))
    reading = Reading([matches], seen.now, snapshot.config.texts, search.budget, snapshot.config.sort_rows)
    rows = sum(match.count for match in matches)
    search.budget.found = rows
    search.budget.check()
    return Since(
        Answer(record, completeness, reading, (view.stream_id,), plan=how.plan),
        how,
        keep,
        have,
        rows,
        have == union([(low, high)]),
        left,
        tuple([part for interval in client_ids for part in without(*interval, keep)]),
        search,
        matches,
        stay.ended,
    )


class _Staying(NamedTuple):
    """The rows of a client that stay. `complete`: tuple IDs; the client has each row of them that still matches.

    `keep`: these IDs, except the IDs of ended versions. `ended`: the number of versions that leave, or may leave.
    """

    complete: Intervals
    keep: Intervals
    ended: int


_ALL_LEAVE = _Staying((), (), 1)


def _staying(search: RangeSearch, ids: Intervals, next_id: int) -> _Staying:
    """The rows that stay of the tuple IDs `ids`, which are in the window. `next_id`: as in `since`."""
    if search.view.spec.table is None or not ids:
        return _Staying(ids, ids, 0)
    ended = ended_since(search.snapshot, search.view, search.sqc_id, ids, next_id, search.budget)
    if ended is not None:
        few = len(ended) <= MOST_ENDED
        return _Staying(ids, without_ids(ids, ended), len(ended)) if few else _ALL_LEAVE
    matches = [match for interval in ids for match in search.matches(*interval)]
    stay = [match.data.places.ids(match.offsets) for match in matches]
    keep = runs_of(np.concatenate([np.zeros(0, np.int64), *stay]))
    return _Staying(ids, keep, 1) if len(keep) <= MOST_ENDED else _ALL_LEAVE


class RangeSearch(NamedTuple):
    """Search for the matches of a clause in ranges of its stream. Without a range, the clause is not looked up."""

    snapshot: Snapshot
    view: StreamView
    sqc_id: int
    budget: ReadBudget

    def matches(self, low: int, high: int) -> list[ChunkMatches]:
        """The matches with IDs in [low, high)."""
        config = self.snapshot.config
        limits = self.snapshot.run, config.archive_rows, self.budget, config.texts
        matches, view = matches_in(self.view, self.snapshot.clause(self.sqc_id), low, high, *limits), self.view
        if view.spec.table is None or high >= view.next_id:
            return matches
        # An entry from `high` on may have ended a version.
        return [replace(match, offsets=shown_rows(view, match.data, match.offsets)) for match in matches]

    def end_of(self, low: int, high: int, limit: int | None) -> int:
        """The end of the tuple IDs of an answer: just after the last match within LIMIT."""
        if limit is None or not limit:
            return high if limit is None else low
        left = limit
        for match in self.matches(low, high):
            if match.count >= left:
                return match.data.places.id_of(int(match.offsets[left - 1])) + 1
            left -= match.count
        return high

    def page(
        self, missing: Intervals, limit: Most, oldest_first: bool
    ) -> tuple[list[Interval], list[ChunkMatches], int]:
        """Search the missing ranges until the reply is full.

        Returns the ranges that the reply covers, their matches, oldest first, and the number of matches found but left
        out.
        """
        rows, tuples, left = limit.rows, limit.tuples, 0
        done, pages = list[Interval](), list[list[ChunkMatches]]()
        for low, high in missing if oldest_first else reversed(missing):
            first, end = (low, min(high, low + tuples)) if oldest_first else (max(low, high - tuples), high)
            if first == end:
                break
            matches = self.matches(first, end)
            count = sum(match.count for match in matches)
            if count > rows:
                left, matches = count - rows, _first(matches, rows) if oldest_first else _last(matches, rows)
                first, end = _cut(first, end, matches, oldest_first)
            pages.append(matches)
            done.append((first, end))
            rows, tuples = rows - count, tuples - (end - first)
            if (first, end) != (low, high):
                break
        ordered = pages if oldest_first else reversed(pages)
        return done, [match for matches in ordered for match in matches], left

    def any_in(self, intervals: Iterable[Interval]) -> bool:
        """Whether a tuple in the intervals may match. Tuples on disk count as matches, and are not read."""
        return any(low < self.view.hot_id or bool(self.matches(low, high)) for low, high in intervals)


def _first(matches: Sequence[ChunkMatches], rows: int) -> list[ChunkMatches]:
    """The oldest `rows` matches."""
    first_matches = list[ChunkMatches]()
    for match in matches:
        if rows <= 0:
            break
        first_matches.append(match if match.count <= rows else replace(match, offsets=match.offsets[:rows]))
        rows -= match.count
    return first_matches


def _last(matches: Sequence[ChunkMatches], rows: int) -> list[ChunkMatches]:
    """The newest `rows` matches, oldest first."""
    last_matches = list[ChunkMatches]()
    for match in reversed(matches):
        if rows <= 0:
            break
        last_matches.append(
            match if match.count <= rows else replace(match, offsets=match.offsets[match.count - rows :])
        )
        rows -= match.count
    return last_matches[::-1]


def _cut(low: int, high: int, matches: Sequence[ChunkMatches], oldest_first: bool) -> Interval:
    """The part of [low, high) that the matches cover: up to the last match if `oldest_first`, else from the first match
    on.
    """
    ids = [match.data.places.id_of(int(match.offsets[at])) for match in matches for at in (0, -1) if match.count]
    if not ids:
        return (low, low) if oldest_first else (high, high)
    return (low, max(ids) + 1) if oldest_first else (min(ids), high)


def _fewer(
    have: Intervals, keep: Intervals, matches: Sequence[ChunkMatches]
) -> tuple[Intervals, Intervals, list[ChunkMatches]]:
    """Cut `have` to its newest MOST_INTERVALS intervals, and `keep` and `matches` to the same tuple IDs."""
    have = have[-MOST_INTERVALS:]
    low, high = have[0][0], have[-1][1]
    parts = [(match, match.offsets[match.offsets >= match.data.places.row_from(low)]) for match in matches]
    return have, within(keep, low, high), [replace(match, offsets=rows) for match, rows in parts if len(rows)]
