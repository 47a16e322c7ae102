"""The rows of an answer that a client lacks, and those that leave it: the window less what the client holds.

    window now   [──────────────)          held   [────)   [──)
    missing      what is in the window and not held   ─> matches ─> rows, as many as may be sent
    keep         what is held and in the window        ─> all other rows of the client leave
    have         keep, and the part of the window whose rows are sent now

The cost is that of the new tuples, however long the window is and however much the client holds. This works for
queries whose answer is the matches of one range of tuple IDs: selections over one stream, with ORDER BY (rows travel
with the keys, and the client sorts) or with LIMIT, not with both. `range_plans.ranged` tells which these are.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from psoup.answer.completeness import Completeness, part_of
from psoup.answer.copies.id_intervals import Interval, Intervals, union, within, without
from psoup.answer.copies.join_since import paired
from psoup.answer.copies.range_plans import Ranged, ranged
from psoup.answer.invoke import Answer
from psoup.answer.question import Question
from psoup.data.chunk import ChunkView
from psoup.execution.plan import Reading
from psoup.execution.rows.record_batch import Part
from psoup.execution.select.clause_matches import ChunkMatches, matches_in
from psoup.execution.select.window import Reach
from psoup.expressions.tree import reads_now
from psoup.model import Anchor
from psoup.plan.nodes import Node
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot, StreamView
from psoup.reading import ReadBudget

MOST_INTERVALS = 4
"""Intervals that a client may hold: of more the oldest leaves, and comes again."""


class Most(NamedTuple):
    """The most that one reply may hold: rows, and tuples of the window that are looked at for them."""

    rows: int
    tuples: int


class Since(NamedTuple):
    """The change of an answer. `answer`: the rows to be added, in stream order, as `Ranged.plan` shows them.

    `keep`: the tuple IDs of the rows that stay; `have`: those that the client holds completely after the change;
    `complete`: that is all of the answer. `left`: rows that were found and not sent. `lost`: the tuple IDs that the
    client holds and is to drop.
    """

    answer: Answer
    ranged: Ranged
    keep: Intervals
    have: Intervals
    rows: int
    complete: bool
    left: int
    lost: Intervals
    search: Search
    matches: Sequence[ChunkMatches]

    def stored(self) -> list[Part] | None:
        """The rows to be added where they lie; None if a value of them is computed, or on disk. O(chunks)."""
        if self.ranged.attributes is None:
            return None
        parts = [(match.data, match.offsets) for match in self.matches if match.count]
        here = [(data, offsets) for data, offsets in parts if isinstance(data, ChunkView)]
        return here if len(here) == len(parts) else None

    def any_leaves(self) -> bool:
        """Whether a row may leave; looked for now: of a change that has rows nobody need ask. O(chunks)."""
        return self.search.any_in(self.lost)


class Travel(enum.Enum):
    """How a copy of an answer at a client is kept up to date, in words."""

    NEW = "only new rows come, and the window tells which rows leave"
    AGAIN = "only rows that differ come: the answer of before is computed again"
    WHOLE = "the answer comes whole whenever it has changed, as its window begins where tuples leave the stream"
    ALWAYS = "the answer comes whole each time, as it shows now(); select _time and let the client do the rest"


def travel_in(plan: Node, seen: Sequence[Reach]) -> Travel:
    """Tell how copies of answers are kept up to date that are made of some parts of streams. O(size of the plan)."""
    travel = travel_of(plan)
    return Travel.WHOLE if travel is Travel.AGAIN and any(map(_at_the_edge, seen)) else travel


def _at_the_edge(part: Reach) -> bool:
    """Whether a window begins where tuples leave the stream: those of an answer of before are soon gone."""
    begin, kept = part.window.begin, part.view.spec.retention
    if begin.anchor is Anchor.START:
        return kept.rows is not None or kept.duration is not None
    by_rows = kept.rows is not None and begin.rows is not None and begin.rows >= kept.rows
    by_time = kept.duration is not None and begin.anchor is Anchor.NOW and begin.offset >= kept.duration
    return by_rows or by_time


def travel_of(plan: Node) -> Travel:
    """Tell how copies of the answers of a plan are kept up to date. O(size of the plan)."""
    if ranged(plan) is not None or paired(plan) is not None:
        return Travel.NEW
    exprs = [output.expr for output in plan.schema] + [key.expr for key in plan.order]
    return Travel.ALWAYS if any(map(reads_now, exprs)) else Travel.AGAIN


def since(
    snapshot: Snapshot,
    record: QueryRecord,
    how: Ranged,
    held: Intervals,
    most: Most,
    question: Question,
    *,
    oldest_first: bool = False,
) -> Since:
    """Find the change for a client that holds all rows of the tuple IDs `held`, and no other rows.

    `oldest_first`: if not all rows may be sent, the oldest are, else the newest. Raises as
    `psoup.answer.invoke.invoke`.
    """
    view = snapshot.by_id[record.stream_id]
    seen = question.seen_of_one(view, question.windows(record.query)[0])
    search = Search(snapshot, view, record.sqc_id, question.budget)
    low, high = seen.range.low, search.end_of(seen.range.low, seen.range.high, how.limit)
    search.budget.window = high - low
    search.budget.check()

    keep = within(held, low, high)
    added, matches, left = search.page(without(low, high, keep), most, oldest_first)
    have = union([*keep, *added])
    if len(have) > MOST_INTERVALS:
        have, keep, matches = _fewer(have, keep, matches)
    told = Completeness(snapshot.sequence, seen.now, sum(match.errors for match in matches), (part_of(seen),))
    reading = Reading([matches], seen.now, snapshot.config.texts, search.budget, snapshot.config.sort_rows)
    rows = sum(match.count for match in matches)
    search.budget.found = rows
    search.budget.check()
    return Since(
        Answer(record, told, reading, (view.stream_id,), plan=how.plan),
        how,
        keep,
        have,
        rows,
        have == union([(low, high)]),
        left,
        tuple([part for interval in held for part in without(*interval, keep)]),
        search,
        matches,
    )


class Search(NamedTuple):
    """A clause that is looked for in ranges of its stream: where there are none, it is not even read."""

    snapshot: Snapshot
    view: StreamView
    sqc_id: int
    budget: ReadBudget

    def matches(self, low: int, high: int) -> list[ChunkMatches]:
        """The matches with IDs in [low, high)."""
        config = self.snapshot.config
        known = self.snapshot.run, config.archive_rows, self.budget, config.texts
        return matches_in(self.view, self.snapshot.clause(self.sqc_id), low, high, *known)

    def end_of(self, low: int, high: int, limit: int | None) -> int:
        """The end of the tuple IDs of an answer: behind the last match that LIMIT lets in."""
        if limit is None or not limit:
            return high if limit is None else low
        left = limit
        for match in self.matches(low, high):
            if match.count >= left:
                return match.data.first_id + int(match.offsets[left - 1]) + 1
            left -= match.count
        return high

    def page(
        self, missing: Intervals, most: Most, oldest_first: bool
    ) -> tuple[list[Interval], list[ChunkMatches], int]:
        """The part of the missing ranges that a reply has room for, the matches in it, oldest first, and how many of
        those that were found it has no room for."""
        rows, tuples, left = most.rows, most.tuples, 0
        done, found = list[Interval](), list[list[ChunkMatches]]()
        for low, high in missing if oldest_first else reversed(missing):
            first, end = (low, min(high, low + tuples)) if oldest_first else (max(low, high - tuples), high)
            if first == end:
                break
            matches = self.matches(first, end)
            count = sum(match.count for match in matches)
            if count > rows:
                left, matches = count - rows, _first(matches, rows) if oldest_first else _last(matches, rows)
                first, end = _cut(first, end, matches, oldest_first)
            found.append(matches)
            done.append((first, end))
            rows, tuples = rows - count, tuples - (end - first)
            if (first, end) != (low, high):
                break
        ordered = found if oldest_first else reversed(found)
        return done, [match for matches in ordered for match in matches], left

    def any_in(self, intervals: Iterable[Interval]) -> bool:
        """Whether one of the tuples in some intervals may have matched: those not in memory are not looked at."""
        return any(low < self.view.hot_id or bool(self.matches(low, high)) for low, high in intervals)


def _first(matches: Sequence[ChunkMatches], rows: int) -> list[ChunkMatches]:
    """The oldest `rows` matches."""
    kept = list[ChunkMatches]()
    for match in matches:
        if rows <= 0:
            break
        kept.append(match if match.count <= rows else replace(match, offsets=match.offsets[:rows]))
        rows -= match.count
    return kept


def _last(matches: Sequence[ChunkMatches], rows: int) -> list[ChunkMatches]:
    """The newest `rows` matches, oldest first."""
    kept = list[ChunkMatches]()
    for match in reversed(matches):
        if rows <= 0:
            break
        kept.append(match if match.count <= rows else replace(match, offsets=match.offsets[match.count - rows :]))
        rows -= match.count
    return kept[::-1]


def _cut(low: int, high: int, matches: Sequence[ChunkMatches], oldest_first: bool) -> Interval:
    """The part of [low, high) up to the last, or from the first, of the matches that are left of it."""
    ids = [match.data.first_id + int(match.offsets[place]) for match in matches for place in (0, -1) if match.count]
    if not ids:
        return (low, low) if oldest_first else (high, high)
    return (low, max(ids) + 1) if oldest_first else (min(ids), high)


def _fewer(
    have: Intervals, keep: Intervals, matches: Sequence[ChunkMatches]
) -> tuple[Intervals, Intervals, list[ChunkMatches]]:
    """Cut what a client holds to its newest MOST_INTERVALS intervals; also what of `keep` and `matches` lies there."""
    have = have[-MOST_INTERVALS:]
    low, high = have[0][0], have[-1][1]
    of = [(match, match.offsets[match.offsets >= low - match.data.first_id]) for match in matches]
    return have, within(keep, low, high), [replace(match, offsets=rows) for match, rows in of if len(rows)]
