"""The stays of tuples in the windows of a derived stream: when a tuple comes into its window, and how long it stays.

    d [RANGE 1 HOUR]                                   late 0, width 1 hour
    d [BEGIN (NOW - 1 HOUR) END (NOW - 10 MINUTES)]    late 10 minutes, width 1 hour
    d NOT EXISTS (… v._time <= d._time + 8 hours)      late 8 hours: the absence is certain only then

An absence with a band in event time reads its left source late, unless brackets say otherwise. So does a LEFT JOIN.
Each row enters once, and no later partner takes it back. A pump then needs a row of the left only until it has entered:
the plan *settles*. An EXISTS with such a band settles, too, as no partner comes after the band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from psoup.model import Anchor, WindowClause
from psoup.plan.derived_shape import Shape
from psoup.plan.inputs import Source
from psoup.plan.nodes import Filter, JoinKind, PartnerJoin
from psoup.plan.time_bands import Band, time_band

_ABSENCES = (JoinKind.ANTI, JoinKind.LEFT)


class Stays(NamedTuple):
    """For each source, by place, in microseconds.

    `lates`: from the time of a tuple until it comes into the window. `widths`: from its time until its last instant in
    the window, None if it never leaves. `settles`: for a plan that settles, the place of the source whose tuples
    identify the rows. Each row enters once, and its departure is ignored.
    """

    lates: tuple[int, ...]
    widths: tuple[int | None, ...]
    settles: int | None = None


def stays_of(sources: Sequence[Source], shape: Shape | None, *, leaves: bool = False) -> Stays:
    """The stays of the sources of a query. `leaves`: whether the rows that leave are wanted (DSTREAM)."""
    lates = tuple([0 if source.spec.table is not None else source.window.end.offset for source in sources])
    plain = Stays(lates, tuple(map(window_width, sources)))
    node = None if shape is None else shape.operator
    return plain if not isinstance(node, PartnerJoin) else _of_partners(node, plain, leaves=leaves)


def window_width(source: Source) -> int | None:
    """The microseconds for which a tuple stays in its window. None if it stays for ever.

    The window is cut by the retention of its stream. Tables AS OF a stream have no window.
    """
    begin, retention = source.window.begin, source.spec.retention.duration
    if source.spec.table is not None:
        return None
    stated = begin.offset if begin.anchor is Anchor.NOW else None
    bounds = [bound for bound in (stated, retention) if bound is not None]
    return min(bounds) if bounds else None


def _of_partners(node: PartnerJoin, plain: Stays, *, leaves: bool) -> Stays:
    row, other = _streams(node)
    if row is None or other is None:
        return plain
    band = time_band([*node.keys, *node.bands], row, other)
    if band.high is None:
        return plain
    lates, widths = list(plain.lates), list(plain.widths)
    after = max(band.high, 0)
    if node.kind in _ABSENCES and row.window == WindowClause():
        lates[row.place] = after
    late = lates[row.place]
    certain = node.kind is JoinKind.SEMI or (node.kind in _ABSENCES and late >= after)
    until = max(late, after)
    if leaves or not certain or lates[other.place] or not _enters_once(node.kind, row, other, band, until):
        return Stays(tuple(lates), tuple(widths))
    widths[row.place] = _least(widths[row.place], until)
    if band.low is not None:
        widths[other.place] = _least(widths[other.place], max(until - band.low, 0))
    return Stays(tuple(lates), tuple(widths), row.place)


def _streams(node: PartnerJoin) -> tuple[Source | None, Source | None]:
    """The only stream of the left, beside tables, and the only source of the right. None if there are several."""
    streams = [source for source in node.left.sources if source.spec.table is None]
    right = node.right
    while isinstance(right, Filter):
        right = right.input
    other = right if isinstance(right, Source) and right.spec.table is None else None
    return (streams[0] if len(streams) == 1 else None), other


def _enters_once(kind: JoinKind, row: Source, other: Source, band: Band, until: int) -> bool:
    """Whether no partner leaves its window while the row is in the answer, so that the row cannot enter again.

    `until`: from the time of the row until it has entered or never will.
    """
    stays, partner_stays = window_width(row), window_width(other)
    if partner_stays is None:
        return True
    if band.low is None:
        return False
    if kind is JoinKind.SEMI:
        return partner_stays >= until - band.low
    return stays is not None and stays <= partner_stays + band.low


def _least(width: int | None, until: int) -> int:
    return until if width is None else min(width, until)
