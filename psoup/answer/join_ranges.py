"""Cached ranges of a join whose registered windows count rows: readers note them in the snapshot.

    the first invocation    windows ─> ranges ─> chunks     looked up, and noted in the snapshot
    later invocations       NOW                             ranges of rows do not depend on it

The cache holds ranges and chunks, not matches. It has no entry for other windows, for streams that may be idle, and for
sides without a run of chunks (`run_of`). `psoup.answer.invoke` then computes the ranges.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.data.windows import last_rows
from psoup.execution.join.located_side import ChunkRun, Located, run_of
from psoup.execution.select.clause_matches import Side
from psoup.execution.select.window import Ranges, Reach, joint_now, reaches, windows_of
from psoup.plan.nodes import partitioned
from psoup.plan.standing_query import StandingQuery
from psoup.published.reader_notes import NoteKind
from psoup.published.records import QueryRecord
from psoup.published.snapshot import Snapshot, StreamView


class Placed(NamedTuple):
    """The ID ranges of the sources of a join, and the chunks of each side.

    `tuples`: the number of tuples in all ranges. `latest`: NOW as the streams alone define it, without the clock.
    """

    query: StandingQuery
    views: Sequence[StreamView]
    streams: Sequence[int]
    ranges: Ranges
    tuples: int
    sides: Sequence[tuple[Side, ChunkRun]]
    latest: int
    by_clock: bool
    """Whether NOW follows the clock."""

    def now(self, clock: int) -> int:
        """NOW, as `psoup.execution.select.window.joint_now` says."""
        return clock if self.by_clock and clock > self.latest else self.latest

    def located(self) -> list[Located]:
        """The sides as chunks, before any search for matches."""
        return [Located(side, run) for side, run in self.sides]

    def seen(self, clock: int) -> list[Reach]:
        """The windows of the sources at NOW, for the completeness of the answer."""
        return reaches(self.views, windows_of(self.query, None), clock)


RANGES = NoteKind[int, Placed | None](1_024)
"""The notes of `placed`, by query ID."""


def placed(snapshot: Snapshot, record: QueryRecord) -> Placed | None:
    """The ranges of a join for its registered windows. Returns None if they depend on more than the streams. O(1) once
    noted.
    """
    table = snapshot.notes.table(RANGES)
    try:
        return table[record.query_id]
    except KeyError:
        return table.note(record.query_id, _placed(snapshot, record))


def _placed(snapshot: Snapshot, record: QueryRecord) -> Placed | None:
    sources = snapshot.sources_of(record)
    views = [view for view, _ in sources]
    if any(view.spec.table is not None for view in views) or partitioned(record.query.plan):
        return None
    by_clock = not views[0].spec.event_time
    times = [view.last_time if by_clock else view.watermark for view in views]
    latest = joint_now(not by_clock, times, [False] * len(views))
    if latest is None or any(view.spec.idle_after is not None for view in views):
        return None
    ranges, sides = list[tuple[int, int]](), list[tuple[Side, ChunkRun]]()
    for (view, clause), window in zip(sources, windows_of(record.query, None), strict=True):
        ids, retention = (view.first_id, view.next_id), view.spec.retention
        extent = None if view.thinned else last_rows(window, ids, view.last_time, retention, latest)
        if extent is None:
            return None
        side = view, clause, *extent[:2]
        run = run_of(side)
        if run is None:
            return None
        ranges.append(extent[:2])
        sides.append((side, run))
    tuples = sum([high - low for low, high in ranges])
    streams = [view.stream_id for view in views]
    return Placed(record.query, views, streams, ranges, tuples, sides, latest, by_clock)
