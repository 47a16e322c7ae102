"""Seconds by which streams are behind the clock: from a stream's watermark to the time of the clock.

    watermark 11:58 ──┐ last push 11:59:30        clock 12:00        120 s behind
    history of 2013   │ pushed today              a load, which is not counted: it never was near the clock

Only streams in event time are counted, because NOW of a stream in system time is the clock. A stream is left out if its
silence is expected: it is a table, its IDLE AFTER has passed, or it was silent for a week.
"""

from __future__ import annotations

from heapq import nlargest
from typing import NamedTuple

from psoup.model import SECOND
from psoup.published.snapshot import Snapshot, StreamView

NAMED_STREAMS = 10
"""The most streams that have a figure of their own."""
_NEAR = 86_400 * SECOND
"""The greatest distance of the watermark to the clock, at the last push, of a stream that follows the clock."""
_SILENT = 7 * 86_400 * SECOND
"""The silence after which a stream is taken for one that ended."""


class StreamDelay(NamedTuple):
    """A stream, and the seconds by which it is behind the clock."""

    seconds: float
    tenant: str
    stream: str


def delays(snapshot: Snapshot, clock: int) -> list[StreamDelay]:
    """The `NAMED_STREAMS` streams furthest behind, the furthest first. O(streams). `clock`: in microseconds."""
    behind = (
        StreamDelay((clock - view.watermark) / SECOND, view.tenant, view.spec.name)
        for view in snapshot.by_id.values()
        if view.watermark is not None and _follows(view, clock)
    )
    return nlargest(NAMED_STREAMS, behind)


def _follows(view: StreamView, clock: int) -> bool:
    """Whether a stream with a watermark follows the clock, and its silence is not expected."""
    if view.spec.table is not None or view.spec.time_attribute is None:
        return False
    if view.watermark is None or view.heard is None or view.idle(clock):
        return False
    return view.heard - view.watermark <= _NEAR and clock - view.heard <= _SILENT
