"""The one text of a window, `BEGIN (NOW - 15 MINUTES) END (NOW)`, which reads back as the same; and of durations."""

from __future__ import annotations

import datetime
from decimal import Decimal

from psoup.model import EPOCH, SECOND, Anchor, Bound, WindowClause

UNITS: dict[str, int] = {
    "MICROSECOND": 1,
    "MILLISECOND": 1_000,
    "SECOND": SECOND,
    "MINUTE": 60 * SECOND,
    "HOUR": 3_600 * SECOND,
    "DAY": 86_400 * SECOND,
    "WEEK": 7 * 86_400 * SECOND,
}
"""Microseconds in each unit of a fixed length; the names are singular."""


def describe_window(clause: WindowClause) -> str:
    """The canonical text of a window."""
    return f"BEGIN {_describe(clause.begin)} END {_describe(clause.end)}"


def describe_duration(micros: int) -> str:
    """`90 SECONDS`, in the largest unit that divides it."""
    for unit, size in reversed(UNITS.items()):
        if micros % size == 0 and micros >= size:
            return f"{micros // size} {unit}{'' if micros == size else 'S'}"
    return "0 SECONDS"


def _describe(bound: Bound) -> str:
    if bound.anchor is Anchor.START:
        return "(START)"
    if bound.anchor is Anchor.NOW:
        if bound.rows is not None:
            return f"(NOW - {bound.rows} ROWS)"
        return f"(NOW - {describe_duration(bound.offset)})" if bound.offset else "(NOW)"
    try:
        return f"(TIMESTAMP '{(EPOCH + datetime.timedelta(microseconds=bound.at)).isoformat(sep=' ')}')"
    except OverflowError:
        return f"({Decimal(bound.at) / SECOND:f})"
