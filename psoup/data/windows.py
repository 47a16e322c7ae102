"""The Windows Table: BEGIN and END of a query at a given NOW, as a range of tuple IDs.

    tuples       0 1 2 3 | 4 5 6 7 8 9        |: the retention edge
    times        1 2 2 3 | 5 5 6 8 8 9
    BEGIN (NOW - 3) END (NOW), NOW = 9   ->   [6, 9]   ->   IDs [6, 10)
    BEGIN 5 END 99, NOW = 7              ->   [5, 7]   ->   IDs [4, 7)

No tuple later than NOW is in a window. NOW of one stream is never before its last tuple. NOW of a join may be before
the last tuples of some of its streams.

Tuple IDs follow time, so a window is always one range of IDs, and later steps use only IDs. This module has no state:
the window clause is part of the query's record. A window is checked against the stream's retention once, when its
statement is bound: rows against rows, time against time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from psoup.data.rows_left import ALL_ROWS, RowsLeft
from psoup.errors import OutOfRange
from psoup.model import NOW, Anchor, Bound, Retention, StreamSpec, WindowClause
from psoup.phrases import counted
from psoup.plan.canonical import describe_duration

Position = Callable[[int], int]


class Timeline(NamedTuple):
    """The IDs of a stream's tuples by time. IDs run from `first_id` (oldest kept) to `next_id` (exclusive)."""

    first_id: int
    next_id: int
    dropped_time: int | None
    """The greatest time of a dropped tuple, or None."""
    first_time: int | None
    """The time of the stream's very first tuple, or None."""
    before: Position
    """The first ID with a time of at least the argument."""
    through: Position
    """The first ID with a time above the argument."""
    time_of: Callable[[int], int]
    """The time of a kept tuple ID that is left."""
    after: Position
    """An upper bound of the ID that `before` returns, found without reading a chunk."""
    left: RowsLeft = ALL_ROWS
    """The rows that have not left their chunks."""


class WindowRange(NamedTuple):
    """A window at a NOW: IDs [low, high), their closed time interval, and whether older tuples are missing."""

    low: int
    high: int
    begin: int | None
    end: int | None
    """The end as written in the statement; the IDs end at NOW if that is earlier."""
    truncated: bool


def apply_window(
    window: WindowClause, timeline: Timeline, retention: Retention, current: int | None, now: int | None
) -> WindowRange:
    """The tuple IDs of `window` with NOW := `now`; later tuples are not in it. O(log n).

    Retention counts from `current`. `now` is None while a stream has no time yet; then the window is empty. Chunks are
    read (see `psoup.data.archived_chunk`) only if the window reaches into the archive.
    """
    if now is None:
        edge = retention_edge(timeline, retention, current)
        return WindowRange(edge, edge, None, None, False)
    if window.by_rows:
        low, high, lost = _rows(window, timeline, retention, current, now)
        return WindowRange(low, max(low, high), None, now, lost)
    begin, end = _time(window.begin, now), _time(window.end, now)
    if end is None:  # END is START: the window is empty
        edge = retention_edge(timeline, retention, current)
        return WindowRange(edge, edge, None, None, False)
    if begin is None:
        low, lost = retention_edge(timeline, retention, current), False
    else:
        low, lost = timeline.before(begin), False
        if not _clear(low, timeline, retention, current):
            edge = retention_edge(timeline, retention, current)
            low, lost = max(edge, low), begin <= min(end, now) and _lost_after(timeline, edge, begin)
    return WindowRange(low, max(low, timeline.through(min(end, now))), begin, end, lost)


def last_rows(
    window: WindowClause, ids: tuple[int, int], last_time: int | None, retention: Retention, now: int | None
) -> WindowRange | None:
    """The result of `apply_window` for a window over the last rows of a stream, in O(1).

    Returns None for any other window, or if some of the rows may be missing. Then the caller must use `apply_window`.
    `ids`: the oldest kept tuple ID, and the ID after the newest tuple. `last_time`: the time of the newest tuple.
    """
    rows = window.begin.rows
    if rows is None or last_time is None or now is None or now < last_time or retention.duration is not None:
        return None
    first_id, next_id = ids
    low = next_id - rows
    if low <= first_id or (retention.rows is not None and rows > retention.rows):
        return None
    return WindowRange(low, max(low, next_id - (window.end.rows or 0)), None, now, False)


def as_of_window(window: WindowClause, time: int) -> WindowClause:
    """The window for an answer as of `time`: a later end becomes that time.

    So the answer is final: later tuples do not change it. Without an `as_of` a window keeps its end, and gets more
    tuples as NOW goes on. `apply_window` leaves out tuples later than NOW in both cases.
    """
    later = window.end.anchor is Anchor.ABSOLUTE and window.end.at > time
    return replace(window, end=NOW) if later else window


def retention_edge(timeline: Timeline, retention: Retention, current: int | None) -> int:
    """The oldest tuple ID that answers may contain. Exact, even if older chunks still exist."""
    return _edge(timeline, retention, current, timeline.before)


def _edge(timeline: Timeline, retention: Retention, current: int | None, before: Position) -> int:
    edge = timeline.first_id
    if retention.rows is not None:
        edge = max(edge, timeline.left.back(timeline.next_id, retention.rows))
    if retention.duration is not None and current is not None:
        edge = max(edge, before(current - retention.duration))
    return edge


def _clear(low: int, timeline: Timeline, retention: Retention, current: int | None) -> bool:
    """Whether no tuple of a window that begins at `low` is before the retention edge. False if that is uncertain."""
    return low > timeline.first_id and low >= _edge(timeline, retention, current, timeline.after)


def refuse_truncation(stream: str, window: WindowRange) -> None:
    """Raise OutOfRange if the window begins before the oldest kept tuple."""
    if window.truncated:
        raise OutOfRange(
            f"the window begins before the oldest tuple kept in stream {stream!r}; begin later, use BEGIN (START), "
            "or accept truncation",
            reason="WINDOW_TRUNCATED",
            stream=stream,
        )


def _time(bound: Bound, now: int) -> int | None:
    if bound.anchor is Anchor.START:
        return None
    return bound.at if bound.anchor is Anchor.ABSOLUTE else now - bound.offset


def _rows(
    window: WindowClause, timeline: Timeline, retention: Retention, current: int | None, now: int
) -> tuple[int, int, bool]:
    """The tuple IDs [low, high) of a window by rows, and whether some of its tuples are no longer kept.

    The window has the last n tuples up to `now`, without the last m of them.
    """
    if timeline.first_time is None or now < timeline.first_time:  # dropped tuples are not among the tuples up to `now`
        edge = retention_edge(timeline, retention, current)
        return edge, edge, False
    last = timeline.through(now)
    high = timeline.left.back(last, window.end.rows or 0)
    if window.begin.anchor is Anchor.NOW:
        wanted = timeline.left.back(last, window.begin.rows or 0)
        if _clear(wanted, timeline, retention, current):
            return wanted, high, False
        edge = retention_edge(timeline, retention, current)
        before = timeline.left.last_to(min(edge, last) - 1)
        older = before >= timeline.first_id or timeline.dropped_time is not None
        return max(edge, wanted), high, wanted < edge and older
    return retention_edge(timeline, retention, current), high, False


def _lost_after(timeline: Timeline, edge: int, begin: int) -> bool:
    """Whether a tuple before the edge has a time of at least `begin`."""
    last = timeline.left.last_to(edge - 1)
    newest = timeline.time_of(last) if last >= timeline.first_id else timeline.dropped_time
    return newest is not None and newest >= begin


def check_window(window: WindowClause, spec: StreamSpec) -> None:
    """Raise OutOfRange if `window` is wider than the retention of `spec`. O(1)."""
    rows, duration = spec.retention.rows, spec.retention.duration
    begin, end = window.begin, window.end
    if begin.anchor is Anchor.NOW:
        if rows is not None and begin.rows is not None and begin.rows > rows:
            raise _too_wide(spec, counted(begin.rows, "row"), counted(rows, "row"), "ROWS")
        if duration is not None and begin.rows is None and begin.offset > duration:
            raise _too_wide(spec, _written(begin.offset), _written(duration), "DURATION")
        return
    absolute = begin.anchor is Anchor.ABSOLUTE and end.anchor is Anchor.ABSOLUTE
    if absolute and duration is not None and end.at - begin.at > duration:
        raise _too_wide(spec, _written(end.at - begin.at), _written(duration), "DURATION")


def _written(duration: int) -> str:
    return describe_duration(duration).lower()


def _too_wide(spec: StreamSpec, wanted: str, limit: str, unit: str) -> OutOfRange:
    return OutOfRange(
        f"the window reaches back {wanted}, but stream {spec.name!r} keeps {limit}; narrow the window, begin at START,"
        " or create the stream with a longer RETENTION",
        reason=f"WINDOW_WIDER_THAN_RETENTION_{unit}",
        stream=spec.name,
        window=wanted,
        retention=limit,
    )
