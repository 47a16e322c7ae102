"""Bands of event time in the conditions of a join: how much later, or earlier, a partner may be than its row.

v._time BETWEEN d._time AND d._time + INTERVAL 8 HOURS      Band(0, 8 hours)
v._time < d._time + INTERVAL 8 HOURS                        Band(None, 8 hours - 1 microsecond)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from psoup.expressions.tree import TIME_INDEX, AttributeRef, Call, Expr, Literal
from psoup.plan.inputs import PairFactor, Source

_UPPER = {"le": True, "lt": False, "eq": True}
"""Comparisons whose right is an upper bound of the left, and whether equal values satisfy them."""
_LOWER = {"ge": True, "gt": False, "eq": True}
"""Comparisons whose left is an upper bound of the right, and whether equal values satisfy them."""


class Band(NamedTuple):
    """The bounds of a partner's time less its row's time, in microseconds, both inclusive. None without a bound."""

    low: int | None
    high: int | None


class Bound(NamedTuple):
    """An upper bound of a partner's time: the time of the source at a place, plus `shift` microseconds.

    `closed`: whether the bound itself is included.
    """

    place: int
    shift: int
    closed: bool


def upper_bounds(factors: Sequence[PairFactor], rows: Mapping[int, Source], other: Source) -> Iterator[Bound]:
    """Yield the upper bounds of a partner's time. `rows`: the sources of a row, by place. `other`: the partner's."""
    return _bounds(factors, rows, other, _UPPER, _LOWER)


def time_band(factors: Sequence[PairFactor], row: Source, other: Source) -> Band:
    """The band between a row of one source and its partners of another one."""
    of_row = {row.place: row}
    highs = [bound.shift - (not bound.closed) for bound in _bounds(factors, of_row, other, _UPPER, _LOWER)]
    lows = [bound.shift + (not bound.closed) for bound in _bounds(factors, of_row, other, _LOWER, _UPPER)]
    return Band(max(lows, default=None), min(highs, default=None))


def _bounds(
    factors: Sequence[PairFactor],
    rows: Mapping[int, Source],
    other: Source,
    on_left: Mapping[str, bool],
    on_right: Mapping[str, bool],
) -> Iterator[Bound]:
    """`on_left`, `on_right`: the comparisons that bound a partner on their left, or on their right."""
    for factor in factors:
        left, right = (_event_time(side, {**rows, other.place: other}) for side in (factor.left, factor.right))
        if left is None or right is None:
            continue
        if left[0] == other.place and factor.operator in on_left:
            yield Bound(right[0], right[1] - left[1], on_left[factor.operator])
        if right[0] == other.place and factor.operator in on_right:
            yield Bound(left[0], left[1] - right[1], on_right[factor.operator])


def _event_time(expr: Expr, sources: Mapping[int, Source]) -> tuple[int, int] | None:
    """The place of the source whose event time `expr` is, and the microseconds that it adds. None for all else."""
    if isinstance(expr, Call):
        below = _event_time(expr.args[0], sources) if expr.name == "add_interval" else None
        shift = _fixed(*expr.args[1:]) if below else None
        return None if below is None or shift is None else (below[0], below[1] + shift)
    if not isinstance(expr, AttributeRef) or expr.source not in sources:
        return None
    spec = sources[expr.source].spec
    timed = spec.event_time and expr.index in (TIME_INDEX, spec.time_attribute)
    return (expr.source, 0) if timed else None


def _fixed(months: Expr, micros: Expr) -> int | None:
    """The microseconds of an interval. None if it has months, which differ in length, or is not a constant."""
    if not isinstance(months, Literal) or months.value != 0 or not isinstance(micros, Literal):
        return None
    return micros.value if isinstance(micros.value, int) else None
