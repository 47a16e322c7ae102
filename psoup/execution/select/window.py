"""The window of a query on each of its sources: one range of tuple IDs, from NOW, as_of and the window's bounds.

    clocks, watermarks ─> NOW ─ as_of ─> instant ─ window, retention ─> [low, high) of each source
         │                                  └─ the range has no tuple after the instant, wherever the window ends
         └─ NOW of a join leaves out idle streams, unless all are idle

Only this module decides the range of a query. `psoup.data.windows` defines the meaning of a window at an instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from psoup.data.versions import EVER, LATEST
from psoup.data.windows import WindowRange, apply_window, as_of_window, last_rows
from psoup.errors import FailedPrecondition, InvalidInput, OutOfRange
from psoup.execution.select.history import is_before_history, with_history
from psoup.model import Anchor, WindowClause, time_text
from psoup.plan.inputs import Source
from psoup.plan.standing_query import StandingQuery
from psoup.published.records import NO_CLAUSE, QueryRecord
from psoup.published.snapshot import Snapshot, StreamView

WindowChoice = WindowClause | Mapping[str, WindowClause]
"""A window that replaces the registered one. One for all sources, or one by the name in FROM, in any letter case."""

_SHOWN = 128
"""The most characters of a name in a message."""


class Reach(NamedTuple):
    """The part of a stream that an answer reads.

    `range`: the tuples of `window` at the instant `now`. `current`: NOW of the stream, from which retention counts.
    """

    view: StreamView
    window: WindowClause
    range: WindowRange
    current: int | None
    now: int | None
    idle: bool = False
    """Whether the stream is idle, so that NOW of the join leaves it out."""


def left_out(views: Sequence[StreamView], clock: int) -> list[bool]:
    """For each stream, whether NOW of a join leaves it out because it is idle. If all are idle, it leaves out none."""
    idle = [view.spec.idle_after is not None and view.spec.event_time and view.idle(clock) for view in views]
    return [False] * len(views) if all(idle) else idle


def joint_now(event_time: bool, times: Sequence[int | None], out: Sequence[bool]) -> int | None:
    """NOW of a join of streams that all have event time, or all have system time. None while a stream has no time yet.

    `times`: NOW of each stream. `out`: the streams to leave out. In event time it is the least watermark. It decreases
    when an idle stream gets tuples and has a smaller watermark. In system time it is the greatest NOW of a stream.
    """
    counted = [time for time, idle in zip(times, out, strict=True) if not idle] if any(out) else times
    defined = [time for time in counted if time is not None]
    if len(defined) < len(counted):
        return None
    return min(defined) if event_time else max(defined)


def _now_of(views: Sequence[StreamView], times: Sequence[int | None], out: Sequence[bool]) -> int | None:
    """NOW of a join. Tables have no part in it, unless there are only tables, or a stream meets versions of old times.

    NOW of a join AS OF a stream is below the table's watermark: no later version changes what the answer has shown.
    """
    now = _now_of_streams(views, times, out)
    for view, time, idle in zip(views, times, out, strict=True):
        if view.at == EVER and view.spec.table is not None and not idle and now is not None:
            now = None if time is None else min(now, time - 1)
    return now


def _now_of_streams(views: Sequence[StreamView], times: Sequence[int | None], out: Sequence[bool]) -> int | None:
    places = [place for place, view in enumerate(views) if view.spec.table is None]
    if len(places) == len(views):  # nearly always
        return joint_now(views[0].spec.event_time, times, out)
    if not places:
        places = [place for place, view in enumerate(views) if not view.spec.event_time] or list(range(len(views)))
    event_time = views[places[0]].spec.event_time
    return joint_now(event_time, [times[place] for place in places], [out[place] for place in places])


def instant(now: int | None, as_of: int | None = None) -> int | None:
    """The instant of an answer: `as_of` if it is given, else `now`. None before the first tuple.

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
    """Find the tuples of a source's `window` at the query's instant `now`. No tuple after `now` is in the range.

    A window that ends after `as_of` ends at `as_of` instead, so that no later tuple changes the answer.
    """
    if view.spec.table is not None:
        return _reach_of_table(view, window, current, now, as_of, idle)
    cut, retention = window if as_of is None else as_of_window(window, as_of), view.spec.retention
    ids = view.first_id, view.next_id
    extent = None if view.thinned else last_rows(cut, ids, view.last_time, retention, now)
    if extent is None:
        extent = apply_window(cut, view.timeline(), retention, current, now)
    return Reach(view, window, extent, current, now, idle)


def _reach_of_table(
    view: StreamView, window: WindowClause, current: int | None, now: int | None, as_of: int | None, idle: bool
) -> Reach:
    """All tuples of a table, seen at `as_of`, or at present. The view says which versions hold then."""
    seen = with_history(view, current, as_of)
    truncated = is_before_history(seen, as_of)
    extent = WindowRange(view.first_id, view.next_id, None, now, truncated)
    return Reach(seen, window, extent, current, now, idle)


def windows_of(query: StandingQuery, choice: WindowChoice | None) -> tuple[WindowClause, ...]:
    """The window of each source: its registered window, unless `choice` replaces it.

    Raises InvalidInput for a name that is not a source, and for two windows of one source.
    """
    if choice is None:
        return tuple([selection.source.window for selection in query.selections])
    sources = query.sources
    _refuse_windows_of_tables(sources, choice)
    _refuse_windows_per_key(sources, choice)
    if isinstance(choice, WindowClause):
        return tuple([choice if source.spec.table is None else source.window for source in sources])
    names = [(source.alias or source.spec.name).lower() for source in sources]
    unknown = [name for name in choice if name.lower() not in names]
    if unknown:
        raise InvalidInput(
            f"the query has no source {unknown[0][:_SHOWN]!r}; its sources are called {', '.join(names)}",
            reason="UNKNOWN_SOURCE",
            field="windows",
        )
    given = {name.lower(): window for name, window in choice.items()}
    if len(given) < len(choice):
        raise InvalidInput(
            f"a source is named twice, in other letters; its sources are called {', '.join(names)}",
            reason="UNKNOWN_SOURCE",
            field="windows",
        )
    return tuple([given.get(name, source.window) for name, source in zip(names, sources, strict=True)])


def _refuse_windows_of_tables(sources: Sequence[Source], choice: WindowChoice) -> None:
    """Raise InvalidInput if a window is given to a table."""
    tables = {(source.alias or source.spec.name).lower() for source in sources if source.spec.table is not None}
    only = isinstance(choice, WindowClause) and len(tables) == len(sources)
    named = [] if isinstance(choice, WindowClause) else [name for name in choice if name.lower() in tables]
    if only or named:
        name = named[0] if named else sources[0].spec.name
        raise InvalidInput(
            f"{name!r} is a table, which has no window: an answer has the rows that hold at NOW; as_of asks for the"
            " rows of an earlier time",
            reason="WINDOW_OF_TABLE",
            field="windows",
        )


def _refuse_windows_per_key(sources: Sequence[Source], choice: WindowChoice) -> None:
    """Raise InvalidInput if a window is given to a source that has the last rows of each key."""
    for source in sources:
        name = source.alias or source.spec.name
        given = isinstance(choice, WindowClause) or any(each.lower() == name.lower() for each in choice)
        if source.partition is not None and given:
            raise InvalidInput(
                f"the window of {name!r} is [{source.partition.text}], which BEGIN and END cannot replace; ask a query"
                " with another window, or give windows to the other sources by their names",
                reason="WINDOW_PER_KEY",
                field="windows",
            )


Ranges = Sequence[tuple[int, int]]
"""For each source, the tuple IDs [low, high) that an answer read."""


def reaches(
    views: Sequence[StreamView],
    windows: Sequence[WindowClause],
    clock: int,
    as_of: int | None = None,
    ranges: Ranges | None = None,
    *,
    latest: bool = False,
) -> list[Reach]:
    """Find the tuples of each source of a join, by its own window, at the join's instant. Raises as `instant`.

    `ranges`: the ranges of an earlier answer at `as_of`, which replace the ranges of the windows. `latest`: that answer
    saw the newest versions of tables in these ranges.
    """
    if ranges is not None and len(ranges) != len(views):
        raise InvalidInput(f"tuples of {len(ranges)} sources, and the query has {len(views)}", reason="PAGE_TOKEN")
    out, times = left_out(views, clock), [view.now(clock) for view in views]
    now = as_of if ranges is not None else instant(_now_of(views, times, out), as_of)
    sources = zip(views, windows, times, out, strict=True)
    seen = [reach(view, window, current, now, as_of, idle) for view, window, current, idle in sources]
    if latest:
        seen = [_latest(part, view) for part, view in zip(seen, views, strict=True)]
    return seen if ranges is None else [_again(part, *ends) for part, ends in zip(seen, ranges, strict=True)]


def _latest(part: Reach, view: StreamView) -> Reach:
    """The reach with the newest versions of a table. The versions AS OF a stream, and streams, stay as they are."""
    if view.spec.table is None or view.at != LATEST:
        return part
    return part._replace(view=view, range=part.range._replace(truncated=False))


def _again(part: Reach, low: int, high: int) -> Reach:
    """Replace the range of a source by the range of an earlier answer.

    Raises FailedPrecondition if retention has dropped a tuple of it, InvalidInput if the stream never had the range.
    """
    view = part.view
    if not low <= high <= view.next_id:
        raise InvalidInput(f"stream {view.spec.name!r} has no tuples {low} to {high}", reason="PAGE_TOKEN")
    lost = view.spec.table is not None and part.range.truncated
    if low < min(view.first_id, high) or lost:
        raise FailedPrecondition(
            f"tuples of stream {view.spec.name!r} that the first page was made of are not kept any more; start again"
            " without page_token",
            reason="PAGE_EXPIRED",
        )
    return part._replace(range=part.range._replace(low=low, high=high, truncated=False))


def all_in_memory(snapshot: Snapshot, record: QueryRecord, clock: int) -> bool:
    """Whether an answer of a query over its registered windows certainly reads no disk. `clock`: microseconds.

    False does not mean that it reads the disk.
    """
    if record.sqc_id != NO_CLAUSE:
        view = snapshot.by_id[record.stream_id]
        return in_memory(view, record.query.window, view.now(clock))
    sides = snapshot.sides_of(record)
    views = snapshot.views_of(record)
    if not any(view.archived for view in views):
        return True
    now = _now_of(views, [view.now(clock) for view in views], left_out(views, clock))
    return all(in_memory(view, side.query.window, now) for view, side in zip(views, sides, strict=True))


def in_memory(view: StreamView, window: WindowClause, now: int | None) -> bool:
    """Whether an answer over `window` of a stream at the instant `now` certainly reads no disk. O(1)."""
    if not view.archived or now is None:
        return True
    if window.begin.anchor is Anchor.START:
        return False
    if window.by_rows:
        ahead = view.last_time is not None and view.last_time > now
        return not ahead and view.left.back(view.next_id, window.begin.rows or 0) >= view.hot_id
    edge = view.chunks[view.archived - 1].data.last_time
    bounds = (window.begin, window.end)
    return now >= edge and all(
        (bound.at if bound.anchor is Anchor.ABSOLUTE else now - bound.offset) > edge for bound in bounds
    )
