"""Completeness of an answer: for each source, the tuples that it contains and those that it lacks.

refused tuples of the stream   o  o  o     o          late, ahead: all of them, always
waiting                                       w w     pending: all of them
window                            [   ........  ]     late_inside, ahead_inside, pending_inside: those in it

A missing tuple of most sources means missing rows. A missing tuple of a source that may take rows away
(`psoup.plan.absences`) means rows too many.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.data.versions import EVER
from psoup.data.windows import WindowRange, retention_edge
from psoup.derivation import Gap
from psoup.execution.select.window import Reach
from psoup.model import Anchor, WindowClause
from psoup.plan.absences import absences
from psoup.plan.nodes import Node, partitioned
from psoup.published.delays import Delay, delay_of
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array


class SourcePart(NamedTuple):
    """Completeness of one source. Times are in microseconds.

    A table in event time is never final: the first version of another key may come late.

    `begin`: None if the window has no first time. `end`: None if the stream has no tuple yet. `final`: True if no later
    tuple can change this part. The watermark has then passed the end of the window, and NOW has reached it.

    `late`, `ahead`: the counts of tuples that the stream has refused so far. `late_inside`, `ahead_inside`: the refused
    tuples with times in the window; None if their times are forgotten. `pending`: the accepted tuples that the
    watermark has not released. `pending_inside`: those with times in the window. `truncated`: True if retention dropped
    older tuples of the window.

    `may_take_away`: whether tuples of this source take rows away from the answer. `older_dropped`: whether retention
    dropped tuples of such a source whose window begins at START. They may have taken rows away.

    `delay`: why a derived stream gets no rows at present; None if it gets them. `gaps`: the instants of the window for
    which a derived stream may lack rows.
    """

    watermark: int | None
    begin: int | None
    end: int | None
    final: bool
    late: int
    ahead: int
    pending: int
    truncated: bool
    window_kind: str
    late_inside: int | None = 0
    ahead_inside: int | None = 0
    pending_inside: int = 0
    idle: bool = False
    may_take_away: bool = False
    older_dropped: bool = False
    delay: Delay | None = None
    gaps: tuple[Gap, ...] = ()


class Completeness(NamedTuple):
    """Completeness of an answer, which reflects all events up to the event `sequence`.

    `errors`: tuples that are missing because a value in WHERE could not be computed, counted over the chunks of the
    windows. `sources`: one part for each source, in the order of FROM.
    """

    sequence: int
    now: int | None
    errors: int
    sources: tuple[SourcePart, ...]

    @property
    def final(self) -> bool:
        """Whether no later tuple can change the answer."""
        return all(part.final for part in self.sources)


def parts_of(snapshot: Snapshot, plan: Node, seen: Sequence[Reach]) -> tuple[SourcePart, ...]:
    """The parts for all sources of an answer. `seen`: by place."""
    places, windows = absences(plan), partitioned(plan)
    parts = [part_of(snapshot, reach) for reach in seen]
    parts = [_of_absence(part, seen[place]) if place in places else part for place, part in enumerate(parts)]
    for place, source in windows.items():
        parts[place] = parts[place]._replace(window_kind=source.window_kind)
    return tuple(parts)


def _of_absence(part: SourcePart, reach: Reach) -> SourcePart:
    """The part for a source that may take rows away."""
    return part._replace(may_take_away=True, older_dropped=_older_dropped(reach))


def _older_dropped(reach: Reach) -> bool:
    """Whether the window begins at START, and retention has dropped tuples of the stream."""
    if reach.window.begin.anchor is not Anchor.START:
        return False
    timeline = reach.view.timeline()
    edge = retention_edge(timeline, reach.view.spec.retention, reach.current)
    return timeline.dropped_time is not None or edge > timeline.first_id


def part_of(snapshot: Snapshot, reach: Reach) -> SourcePart:
    """The part for one source of an answer."""
    view, extent, derived = reach.view, reach.range, reach.view.spec.derived
    watermark = view.last_time if view.spec.time_attribute is None else view.watermark
    late, ahead, pending = view.late, view.ahead, view.pending if view.waiting else 0
    inside: tuple[int | None, int | None, int] = (0, 0, 0)
    if late.count or ahead.count or pending:
        begin = _begin(reach)
        last = _end(view, reach.window, extent)
        waiting = 0 if last is None else sum(_between(run, begin, last) for run in view.waiting)
        inside = (late.within(begin, last), ahead.within(begin, last), waiting)
    end, now = extent.end, reach.now
    final = (
        (view.spec.table is None or not view.spec.event_time)
        and end is not None
        and now is not None
        and watermark is not None
        and end <= now
        and end < watermark + (derived is not None)  # a pump pushes an instant as a whole
    )
    return SourcePart(
        watermark,
        extent.begin,
        end,
        final and not reach.idle,
        late.count,
        ahead.count,
        pending,
        extent.truncated,
        reach.window.kind if view.spec.table is None or view.at == EVER else "table",
        inside[0],
        inside[1],
        inside[2],
        reach.idle,
        delay=None if derived is None else delay_of(snapshot, view),
        gaps=() if derived is None else tuple([gap for gap in derived.gaps if gap.meets(extent.begin, end)]),
    )


def _begin(reach: Reach) -> int | None:
    """The earliest time in the window. For a window of rows, the time of its first tuple."""
    view, window, extent = reach.view, reach.window, reach.range
    retention = view.spec.retention
    begin = extent.begin
    by_rows = window.by_rows and window.begin.anchor is Anchor.NOW
    by_rows = by_rows or (retention.rows is not None and extent.low == view.left.back(view.next_id, retention.rows))
    if by_rows and view.left.between(extent.low, extent.high):
        first = view.timeline().time_of(view.left.first_from(extent.low))
        begin = first if begin is None else max(begin, first)
    if retention.duration is not None and reach.current is not None:
        edge = reach.current - retention.duration
        begin = edge if begin is None else max(begin, edge)
    return begin


def _end(view: StreamView, window: WindowClause, extent: WindowRange) -> int | None:
    """The latest time in the window. If the window leaves out the last rows, the time of its last tuple."""
    if window.by_rows and window.end.rows and view.left.between(extent.low, extent.high):
        return view.timeline().time_of(view.left.last_to(extent.high - 1))
    return extent.end


def _between(times: Array, begin: int | None, end: int) -> int:
    """Count the times in [begin, end]. `times` must ascend."""
    low = 0 if begin is None else int(np.searchsorted(times, begin, side="left"))
    return max(0, int(np.searchsorted(times, end, side="right")) - low)
