"""The window of a query on each of its sources: NOW, as_of and the window's bounds become one range of tuple IDs.

    clocks, watermarks ─> NOW ─ as_of ─> instant ─ window, retention ─> [low, high) of each source
         │                                  └─ no tuple later than it is in the range, wherever the window ends
         └─ a stream that is idle is left out, while another is not

No other place decides it; `psoup.data.windows` tells what a window means at an instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from psoup.data.windows import WindowRange, apply_window, as_of_window, last_rows
from psoup.errors import FailedPrecondition, InvalidInput, OutOfRange
from psoup.model import Anchor, WindowClause, time_text
from psoup.plan.standing import StandingQuery
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView

WindowChoice = WindowClause | Mapping[str, WindowClause]
"""Another window for an invocation: one for all sources, or by the names that some have in FROM, in any case."""

_SHOWN = 128
"""Characters of a name that a message shows."""


class Reach(NamedTuple):
    """The part of a stream that an answer is made of: `range` is `window` at `now`; retention counts from `current`."""

    view: StreamView
    window: WindowClause
    range: WindowRange
    current: int | None
    now: int | None
    idle: bool = False
    """Whether the stream is idle and was left out of NOW."""


def left_out(views: Sequence[StreamView], clock: int) -> list[bool]:
    """Tell of each of some streams whether it is idle and left out of their common NOW: none is if all are idle."""
    idle = [view.spec.idle_after is not None and view.spec.event_time and view.idle(clock) for view in views]
    return [False] * len(views) if all(idle) else idle


def joint_now(event_time: bool, times: Sequence[int | None], out: Sequence[bool]) -> int | None:
    """NOW of a join of streams of one time domain, some of which are left `out`; None while another has no time yet.

    `times`: NOW of each. In event time the least watermark: it steps back when a stream that was idle wakes behind the
    others. In system time the clock, or the greatest time of a tuple.
    """
    counted = [time for time, idle in zip(times, out, strict=True) if not idle] if any(out) else times
    known = [time for time in counted if time is not None]
    if len(known) < len(counted):
        return None
    return min(known) if event_time else max(known)


def instant(now: int | None, as_of: int | None = None) -> int | None:
    """The time that a query is answered for: its NOW (None before the first tuple), or `as_of`, if that is not after.

    Raises OutOfRange for an `as_of` after NOW.
    """
    if as_of is None:
        return now
    if now is None or as_of > now:
        latest = "no tuple has come yet" if now is None else f"NOW is {time_text(now)}"
        raise OutOfRange(
            f"as_of {time_text(as_of)} lies after NOW ({latest}); ask for a time that has been reached",
            reason="AS_OF_IN_FUTURE",
        )
    return as_of


def reach(
    view: StreamView,
    window: WindowClause,
    current: int | None,
    now: int | None,
    as_of: int | None = None,
    idle: bool = False,
) -> Reach:
    """Apply `window` of a source at the query's instant `now`, after which no tuple is in the range.

    A window that ends after `as_of` is given that end: no later tuple changes such an answer.
    """
    cut, retention = window if as_of is None else as_of_window(window, as_of), view.spec.retention
    extent = last_rows(cut, (view.first_id, view.next_id), view.last_time, retention, now)
    if extent is None:
        extent = apply_window(cut, view.timeline(), retention, current, now)
    return Reach(view, window, extent, current, now, idle)


def windows_of(query: StandingQuery, asked: WindowChoice | None) -> tuple[WindowClause, ...]:
    """The window of each source: its own, or another, `asked` for all of them or by the names of some.

    Raises InvalidInput for a name that is not of a source, and for two of one source.
    """
    if asked is None:
        return tuple([selection.source.window for selection in query.selections])
    sources = query.sources
    if isinstance(asked, WindowClause):
        return (asked,) * len(sources)
    names = [(source.alias or source.spec.name).lower() for source in sources]
    unknown = [name for name in asked if name.lower() not in names]
    if unknown:
        raise InvalidInput(
            f"the query has no source {unknown[0][:_SHOWN]!r}; its sources are called {', '.join(names)}",
            reason="UNKNOWN_SOURCE",
            field="windows",
        )
    given = {name.lower(): window for name, window in asked.items()}
    if len(given) < len(asked):
        raise InvalidInput(
            f"a source is named twice, in other letters; its sources are called {', '.join(names)}",
            reason="UNKNOWN_SOURCE",
            field="windows",
        )
    return tuple([given.get(name, source.window) for name, source in zip(names, sources, strict=True)])


Ranges = Sequence[tuple[int, int]]
"""The tuple IDs of each source, [low, high), that an answer was made of."""


def reaches(
    views: Sequence[StreamView],
    windows: Sequence[WindowClause],
    clock: int,
    as_of: int | None = None,
    ranges: Ranges | None = None,
) -> list[Reach]:
    """The part of each source of a join, by its own window, at the instant that they have in common. As `reach`.

    With `ranges` these tuples, which an answer at `as_of` was made of before: no matter what has come since.
    """
    if ranges is not None and len(ranges) != len(views):
        raise InvalidInput(f"tuples of {len(ranges)} sources, and the query has {len(views)}", reason="PAGE_TOKEN")
    out, times = left_out(views, clock), [view.now(clock) for view in views]
    now = as_of if ranges is not None else instant(joint_now(views[0].spec.event_time, times, out), as_of)
    sources = zip(views, windows, times, out, strict=True)
    seen = [reach(view, window, current, now, as_of, idle) for view, window, current, idle in sources]
    return seen if ranges is None else [_again(part, *of) for part, of in zip(seen, ranges, strict=True)]


def _again(part: Reach, low: int, high: int) -> Reach:
    """A source with the tuples that an answer saw before. Raises FailedPrecondition if some are not kept any more."""
    view = part.view
    if not low <= high <= view.next_id:
        raise InvalidInput(f"stream {view.spec.name!r} has no tuples {low} to {high}", reason="PAGE_TOKEN")
    if low < min(view.first_id, high):
        raise FailedPrecondition(
            f"tuples of stream {view.spec.name!r} that the first page was made of are not kept any more; start again"
            " without page_token",
            reason="PAGE_EXPIRED",
        )
    return part._replace(range=part.range._replace(low=low, high=high, truncated=False))


def all_in_memory(snapshot: Snapshot, record: QueryRecord, clock: int) -> bool:
    """Whether a query with its own windows at the clock's time is certainly answered without reading from disk."""
    if record.sqc_id != NO_CLAUSE:
        view = snapshot.by_id[record.stream_id]
        return in_memory(view, record.query.window, view.now(clock))
    sides = snapshot.sides_of(record)
    views = [snapshot.by_id[side.stream_id] for side in sides]
    if not any(view.archived for view in views):
        return True
    times, event_time = [view.now(clock) for view in views], views[0].spec.event_time
    now = joint_now(event_time, times, left_out(views, clock))
    return all(in_memory(view, side.query.window, now) for view, side in zip(views, sides, strict=True))


def in_memory(view: StreamView, window: WindowClause, now: int | None) -> bool:
    """Whether `window` of a stream at the query's instant `now` certainly needs no reading from disk. O(1)."""
    if not view.archived or now is None:
        return True
    if window.begin.anchor is Anchor.START:
        return False
    if window.by_rows:
        ahead = view.last_time is not None and view.last_time > now
        return not ahead and view.next_id - (window.begin.rows or 0) >= view.hot_id
    edge = view.chunks[view.archived - 1].data.last_time
    bounds = (window.begin, window.end)
    return now >= edge and all(
        (bound.at if bound.anchor is Anchor.ABSOLUTE else now - bound.offset) > edge for bound in bounds
    )
