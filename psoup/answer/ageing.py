"""How the rows of an answer leave it as NOW goes on and no tuple comes: what a client without a connection can tell.

    window                            rows leave                           told
    BEGIN (START), BEGIN an instant   none, or as retention drops them     yes
    BEGIN (NOW - 1 HOUR)              once an hour old                     yes
    END (NOW - 5 MINUTES)             and others enter, which are not held no
    ROWS, LIMIT                       as others come                       no

Nothing here looks at a tuple: a window and the retention of its stream say it.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.answer.since import Ranged
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
    early = window.end.anchor is Anchor.NOW and window.end.offset > 0
    if how.limit is not None or window.by_rows or early:
        return None
    widths = [window.begin.offset] if window.begin.anchor is Anchor.NOW else []
    if spec.retention.duration is not None:
        widths.append(spec.retention.duration)
    return Ageing(min(widths, default=None), not spec.event_time)
