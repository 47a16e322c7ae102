"""How the rows of an answer leave it as NOW goes on and no tuple comes: what a client without a connection can tell.

    window                            rows leave                           told
    BEGIN (START), BEGIN an instant   none, or as retention drops them     yes
    BEGIN (NOW - 1 HOUR)              once an hour old                     yes
    END (NOW - 5 MINUTES)             and others enter, which are not held no
    ROWS, LIMIT                       as others come                       no

Nothing here looks at a tuple: a window and the retention of its stream say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psoup.answer.copies.range_plans import Ranged
from psoup.model import Anchor, StreamSpec, WindowClause


@dataclass(frozen=True, slots=True)
class Ageing:
    """A row has left at NOW if its time is before NOW less `width` microseconds; None: no row leaves.

    `by_clock`: NOW goes on with the clock; else it is the watermark.
    """

    width: int | None
    by_clock: bool


def ageing(spec: StreamSpec, window: WindowClause, how: Ranged) -> Ageing | None:
    """Tell how the rows of a copy age; None if its rows do not tell the answer at a later NOW. O(1)."""
    return None if how.limit is not None or not _ages(window) else Ageing(_width(spec, window), not spec.event_time)


@dataclass(frozen=True, slots=True)
class JoinedAgeing:
    """A row of a join has left at NOW once one of its tuples has: a width for each source, as in Ageing."""

    widths: tuple[int | None, ...]
    by_clock: bool


def joined_ageing(specs: Sequence[StreamSpec], windows: Sequence[WindowClause]) -> JoinedAgeing | None:
    """Tell how the rows of a copy of a join age; None if its rows do not tell the answer at a later NOW. O(sources)."""
    if not all(map(_ages, windows)):
        return None
    widths = [_width(spec, window) for spec, window in zip(specs, windows, strict=True)]
    return JoinedAgeing(tuple(widths), not specs[0].event_time)


def _ages(window: WindowClause) -> bool:
    """Whether tuples leave the window by their time, and none enters as NOW goes on."""
    early = window.end.anchor is Anchor.NOW and window.end.offset > 0
    return not (window.by_rows or early)


def _width(spec: StreamSpec, window: WindowClause) -> int | None:
    widths = [window.begin.offset] if window.begin.anchor is Anchor.NOW else []
    if spec.retention.duration is not None:
        widths.append(spec.retention.duration)
    return min(widths, default=None)
