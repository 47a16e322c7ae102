"""The window of a query on each of its sources: NOW, as_of and the window's bounds become one range of tuple IDs.

    clocks, watermarks ─> NOW ─ as_of ─> instant ─ window, retention ─> [low, high) of each source

No other place decides it; `psoup.data.windows` tells what a window means at an instant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.data.windows import WindowRange, apply_window, as_of_window
from psoup.errors import OutOfRange
from psoup.model import Anchor, WindowClause, time_text
from psoup.published.snapshot import StreamView


class Reach(NamedTuple):
    """The part of a stream that an answer is made of: `range` is `window` at `now`; retention counts from `current`."""

    view: StreamView
    window: WindowClause
    range: WindowRange
    current: int | None
    now: int | None


def instant(currents: Sequence[int | None], as_of: int | None = None) -> int | None:
    """NOW of a query over some streams: the least of theirs, `currents`; or `as_of`, if that is not after it.

    None while one of them has no time yet. Raises OutOfRange for an `as_of` after NOW.
    """
    now = currents[0]
    for other in currents[1:]:
        now = None if now is None or other is None else min(now, other)
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
    view: StreamView, window: WindowClause, current: int | None, now: int | None, as_of: int | None = None
) -> Reach:
    """Apply `window` of a source at the query's instant `now`. A window that ends after `as_of` is cut there."""
    cut = window if as_of is None else as_of_window(window, as_of)
    extent = apply_window(cut, view.timeline(), view.spec.retention, current, now)
    return Reach(view, window, extent, current, now)


def in_memory(view: StreamView, window: WindowClause, clock: int) -> bool:
    """Whether `window` at the clock's time is certainly answered without reading from disk. O(1)."""
    now = view.now(clock)
    if not view.archived or now is None:
        return True
    if window.begin.anchor is Anchor.START:
        return False
    if window.by_rows:
        return view.next_id - (window.begin.rows or 0) >= view.hot_id
    edge = view.chunks[view.archived - 1].data.last_time
    return all(
        (bound.at if bound.anchor is Anchor.ABSOLUTE else now - bound.offset) > edge
        for bound in (window.begin, window.end)
    )
