"""round, floor and ceil: half away from zero, also to tens and hundreds.

    round(25, -1) = 30      round(-2.5) = -3      round(DECIMAL(4,2) 99.95, 1) = 100.0, a DECIMAL(4,1)

DOUBLEs are scaled by a power of ten, rounded and scaled back, as DuckDB does: round(2.675, 2) is 2.68.
"""

from __future__ import annotations

import numpy as np

from psoup.expressions.frame import Evaluator, Frame, finish
from psoup.expressions.numbers.numeric import too_wide
from psoup.expressions.tree import Call, Literal
from psoup.model import Kind
from psoup.values.columns import Array, Column

_BELOW_HALF = np.nextafter(0.5, 0)
"""The number added to a float64 before truncation.

With 0.5 the last number below 0.5 would become 1. With this number it does not. 0.5 still becomes 1, as a sum
halfway between two float64 is rounded to the even one.
"""


def round_half_away(values: Array) -> Array:
    """Round float64 to the nearest whole number, halves away from zero (as C's round)."""
    moved: Array = np.copysign(_BELOW_HALF, values)
    moved += values
    return np.trunc(moved, out=moved)


def scale_down(values: Array, places: int) -> Array:
    """Divide int64 by 10**places (0 to 18), halves away from zero."""
    if places == 0:
        return values
    unit = np.int64(10**places)
    whole: Array = values // unit
    rest = values - whole * unit
    half = unit // 2
    whole += (rest > half) | ((rest == half) & (values >= 0))
    return whole


def round_(call: Call, frame: Frame) -> Column:
    """Compute round(x [, digits])."""
    columns = frame.columns(call)
    values = columns[0].values
    if call.type.kind is Kind.DECIMAL:
        return _round_decimal(call, columns)
    if call.type.kind is Kind.BIGINT:
        if len(columns) == 1:
            return columns[0]
        return _round_bigint(call, columns)
    if len(columns) == 1:
        return finish(call.type, round_half_away(values), columns)
    return finish(call.type, _round_double(values, columns[1].values), columns)


def _round_decimal(call: Call, columns: list[Column]) -> Column:
    digits = 0
    if len(call.args) == 2:
        assert isinstance(call.args[1], Literal)
        assert call.args[1].value is not None
        digits = int(call.args[1].value)
    source = columns[0]
    drop = source.type.scale - digits
    if drop <= 0:
        return source
    if drop > 18:  # below half a unit of the last place kept
        values = np.zeros(len(source), np.int64)
    else:
        values = scale_down(source.values, drop)
    if digits < 0:
        values = values * np.int64(10 ** min(-digits, 18)) if drop <= 18 else values
    return finish(call.type, values, columns[:1], too_wide(values, call.type))


def _round_bigint(call: Call, columns: list[Column]) -> Column:
    """Round to tens, hundreds and so on for negative digits. A result beyond int64 is an error."""
    values, digits = (c.values for c in columns)
    places = np.clip(-digits, 0, 19)
    unit = np.power(np.int64(10), np.minimum(places, 18))
    rest = np.fmod(values, unit)
    base = values - rest
    half = unit // 2
    step = np.where((places > 0) & (np.abs(rest) >= half), np.where(values < 0, -unit, unit), 0)
    rounded = base + step
    overflow = ((base ^ rounded) & (step ^ rounded)) < 0
    gone = places > 18
    overflow = np.where(gone, (digits == -19) & (np.abs(values.astype(np.float64)) >= 5e18), overflow)
    return finish(call.type, np.where(gone, 0, rounded), columns, overflow)


def _round_double(values: Array, digits: Array) -> Array:
    up = digits >= 0
    unit = np.power(10.0, np.abs(digits).astype(np.float64))
    fine = round_half_away(values * unit) / unit
    coarse = round_half_away(values / unit) * unit
    coarse = np.where(np.isfinite(coarse), coarse, np.where(np.isfinite(values), 0.0, values))
    return np.where(up, np.where(np.isfinite(fine), fine, values), coarse)


def floor(call: Call, frame: Frame) -> Column:
    """The greatest whole number that is not above the value."""
    columns = frame.columns(call)
    if call.type.kind is Kind.DOUBLE:
        return finish(call.type, np.floor(columns[0].values), columns)
    return finish(call.type, columns[0].values // np.int64(10 ** columns[0].type.scale), columns)


def ceil(call: Call, frame: Frame) -> Column:
    """The least whole number that is not below the value."""
    columns = frame.columns(call)
    if call.type.kind is Kind.DOUBLE:
        return finish(call.type, np.ceil(columns[0].values), columns)
    return finish(call.type, -(-columns[0].values // np.int64(10 ** columns[0].type.scale)), columns)


EVALUATORS: dict[str, Evaluator] = {"round": round_, "floor": floor, "ceil": ceil}
