"""Expiry of the rows of a copy: a client without a connection removes rows as NOW advances.

    window                            rows leave                           expiry known
    BEGIN (START), BEGIN an instant   none, or as retention drops them     yes
    BEGIN (NOW - 1 HOUR)              once an hour old                     yes
    END (NOW - 5 MINUTES)             and rows enter that are not held     no
    ROWS, LIMIT                       as new tuples come                   no

The expiry follows from the window and from the retention of the stream. No tuple is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psoup.answer.copies.range_plans import Ranged
from psoup.model import Anchor, StreamSpec, WindowClause


@dataclass(frozen=True, slots=True)
class Ageing:
    """Expiry of rows: at each NOW, the rows with times before NOW - `width` have left the answer.

    `width`: microseconds; None if no row leaves by time. `by_clock`: True if NOW follows the clock, False if NOW is the
    watermark.
    """

    width: int | None
    by_clock: bool


def ageing(spec: StreamSpec, window: WindowClause, how: Ranged) -> Ageing | None:
    """The expiry of the rows of a copy. Returns None if a later answer cannot be derived from these rows. O(1)."""
    return None if how.limit is not None or not _ages(window) else Ageing(_width(spec, window), not spec.event_time)


@dataclass(frozen=True, slots=True)
class JoinedAgeing:
    """Expiry of rows of a join: a row leaves with the first of its tuples. `widths`: for each source, as in
    `Ageing`.
    """

    widths: tuple[int | None, ...]
    by_clock: bool


def joined_ageing(specs: Sequence[StreamSpec], windows: Sequence[WindowClause]) -> JoinedAgeing | None:
    """The expiry of the rows of a join's copy. Returns None if a later answer cannot be derived from these rows.
    O(sources).
    """
    if not all(map(_ages, windows)):
        return None
    widths = [_width(spec, window) for spec, window in zip(specs, windows, strict=True)]
    return JoinedAgeing(tuple(widths), not specs[0].event_time)


def _ages(window: WindowClause) -> bool:
    """Whether tuples leave the window by time alone, and none enters as NOW advances."""
    early = window.end.anchor is Anchor.NOW and window.end.offset > 0
    return not (window.by_rows or early)


def _width(spec: StreamSpec, window: WindowClause) -> int | None:
    widths = [window.begin.offset] if window.begin.anchor is Anchor.NOW else []
    if spec.retention.duration is not None:
        widths.append(spec.retention.duration)
    return min(widths, default=None)
