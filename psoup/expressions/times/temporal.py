"""Parts of times, truncation and shifting: TIMESTAMP in microseconds and DATE in days, all years, UTC.

Truncation and shifting use only integer arithmetic on arrays. A result outside int64 microseconds is an error of its
row.
"""

from __future__ import annotations

import calendar
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from psoup.expressions.civil import (
    DAY_MICROS,
    FIRST_MICRO,
    LAST_DAY,
    LAST_MICRO,
    civil_from_days,
    days_from_civil,
    days_in_month,
    iso_week,
)
from psoup.expressions.frame import Evaluator, Frame, finish, finish_text
from psoup.expressions.numbers.numeric import add_int64, mul_int64
from psoup.expressions.tree import Call, Literal
from psoup.kernels.rows.arithmetic import span_seconds, thousands
from psoup.model import DOUBLE, TIMESTAMP, Kind
from psoup.values.columns import Array, Column

_NAME = 9
"""Bytes of the longest name of a day or a month."""

Part = Callable[[Array, Array], Array]
"""Maps (days since 1970, microseconds of the day) to the part, usually int64[n]."""


def _year(days: Array, micros: Array) -> Array:
    return civil_from_days(days)[0]


def _month(days: Array, micros: Array) -> Array:
    return civil_from_days(days)[1]


def _first_of_year(days: Array) -> Array:
    year = _year(days, days)
    return days_from_civil(year, np.ones_like(year), np.ones_like(year))


def _toward_zero(values: Array, unit: int) -> Array:
    return np.fix(values / unit).astype(np.int64)


def _centuries(years: int) -> Part:
    def part(days: Array, micros: Array) -> Array:
        year = _year(days, micros)
        return np.where(year > 0, (year - 1) // years + 1, -((-year) // years) - 1)

    return part


PARTS: dict[str, Part] = {
    "year": _year,
    "quarter": lambda days, micros: (_month(days, micros) - 1) // 3 + 1,
    "month": _month,
    "week": lambda days, micros: iso_week(days)[1],
    "day": lambda days, micros: civil_from_days(days)[2],
    "dow": lambda days, micros: (days + 4) % 7,
    "isodow": lambda days, micros: (days + 3) % 7 + 1,
    "doy": lambda days, micros: days - _first_of_year(days) + 1,
    "hour": lambda days, micros: micros // 3_600_000_000,
    "minute": lambda days, micros: micros // 60_000_000 % 60,
    "second": lambda days, micros: micros // 1_000_000 % 60,
    "millisecond": lambda days, micros: micros // 1_000 % 60_000,
    "microsecond": lambda days, micros: micros % 60_000_000,
    "isoyear": lambda days, micros: iso_week(days)[0],
    "decade": lambda days, micros: _toward_zero(_year(days, micros), 10),
    "century": _centuries(100),
    "millennium": _centuries(1000),
    "julian": lambda days, micros: days + 2_440_588 + micros / DAY_MICROS,
    "epoch": lambda days, micros: days * 86_400.0 + micros / 1e6,
}


def split(column: Column) -> tuple[Array, Array]:
    """Days since 1970 and microseconds of the day, int64[n] each, of a TIMESTAMP or DATE column."""
    if column.type.kind is Kind.DATE:
        return column.values.astype(np.int64), np.zeros(len(column), np.int64)
    days = column.values // DAY_MICROS
    return days, column.values - days * DAY_MICROS


def extract(call: Call, frame: Frame) -> Column:
    """Compute extract(part, time)."""
    column = frame.column(call.args[1])
    part = _name(call)
    if part == "epoch" and column.type == TIMESTAMP:
        return finish(DOUBLE, column.values / 1e6, [column])
    return finish(call.type, PARTS[part](*split(column)), [column])


def _name(call: Call) -> str:
    assert isinstance(call.args[0], Literal)
    return str(call.args[0].value)


def _first_day(part: str, days: Array) -> Array:
    """The first day of the week, month, ... that contains each day."""
    monday: Array = days - (days + 3) % 7
    if part == "week":
        return monday
    if part == "isoyear":
        monday -= (iso_week(days)[1] - 1) * 7
        return monday
    year, month, _ = civil_from_days(days)
    if part == "month":
        return days_from_civil(year, month, np.ones_like(year))
    if part == "quarter":
        return days_from_civil(year, (month - 1) // 3 * 3 + 1, np.ones_like(year))
    years = {"year": 1, "decade": 10, "century": 100, "millennium": 1000}[part]
    return days_from_civil(_toward_zero(year, years) * years, np.ones_like(year), np.ones_like(year))


_UNITS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000, "millisecond": 1_000, "microsecond": 1}


def truncate(call: Call, frame: Frame) -> Column:
    """Compute date_trunc(part, timestamp)."""
    column = frame.column(call.args[1])
    part = _name(call)
    days, micros = split(column)
    if part in _UNITS:
        return finish(TIMESTAMP, column.values - micros % _UNITS[part], [column])
    start = days if part == "day" else _first_day(part, days)
    values, overflow = mul_int64(start, np.full(len(start), DAY_MICROS))
    return finish(TIMESTAMP, values, [column], overflow)


def add_interval(call: Call, frame: Frame) -> Column:
    """Add months, then microseconds, to a time. If the month has no such day, the result is on its last day."""
    column = frame.column(call.args[0])
    months, micros = (_constant(call, position) for position in (1, 2))
    values = column.values
    failed = np.zeros(frame.rows, np.bool_)
    if months:
        days, rest = split(column)
        year, month, day = civil_from_days(days)
        count = year * 12 + month - 1 + months
        year, month = count // 12, count % 12 + 1
        days = days_from_civil(year, month, np.minimum(day, days_in_month(year, month)))
        midnight, failed = mul_int64(days, np.full(frame.rows, DAY_MICROS))
        values, overflow = add_int64(midnight, rest)
        failed = failed | overflow
    values, overflow = add_int64(values, np.full(frame.rows, micros))
    failed = failed | overflow | (values > LAST_MICRO) | (values < FIRST_MICRO)
    return finish(TIMESTAMP, values, [column], failed)


def _constant(call: Call, position: int) -> int:
    arg = call.args[position]
    assert isinstance(arg, Literal)
    assert arg.value is not None
    return int(arg.value)


_DAYS = pa.array([calendar.day_name[(day - 1) % 7] for day in range(7)], pa.large_string())
"""Names of days, beginning with Sunday."""
_MONTHS = pa.array(list(calendar.month_name)[1:], pa.large_string())


def _named(names: pa.Array, place: Part) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        column = frame.column(call.args[0])
        frame.sizes.borrow(_NAME * frame.rows)
        return finish_text(names.take(pa.array(place(*split(column)))), [column])

    return evaluator


def last_day(call: Call, frame: Frame) -> Column:
    """The last day of the month. It is an error in the last month that a DATE can have."""
    column = frame.column(call.args[0])
    year, month, _ = civil_from_days(split(column)[0])
    days = days_from_civil(year + month // 12, month % 12 + 1, np.ones_like(year)) - 1
    failed = days >= LAST_DAY
    return finish(call.type, np.where(failed, 0, days), [column], failed)


def epoch_ms(call: Call, frame: Frame) -> Column:
    """The milliseconds since 1970, rounded with halves away from zero. For a BIGINT, the TIMESTAMP at so many
    milliseconds.
    """
    column = frame.column(call.args[0])
    if call.type == TIMESTAMP:
        values, overflow = mul_int64(column.values, np.full(frame.rows, 1_000))
        return finish(TIMESTAMP, values, [column], overflow)
    values = np.empty(frame.rows, np.int64)
    thousands(column.values, values)
    return finish(call.type, values, [column])


def epoch_us(call: Call, frame: Frame) -> Column:
    """Microseconds since 1970, the storage form of a TIMESTAMP."""
    column = frame.column(call.args[0])
    return finish(call.type, column.values, [column])


def seconds_of_span(call: Call, frame: Frame) -> Column:
    """The seconds that a number of microseconds lasts, as DuckDB computes them for an INTERVAL."""
    column = frame.column(call.args[0])
    values = np.empty(frame.rows, np.float64)
    span_seconds(column.values, values)
    return finish(DOUBLE, values, [column])


EVALUATORS: dict[str, Evaluator] = {
    "extract": extract,
    "date_trunc": truncate,
    "add_interval": add_interval,
    "dayname": _named(_DAYS, PARTS["dow"]),
    "monthname": _named(_MONTHS, lambda days, micros: _month(days, micros) - 1),
    "last_day": last_day,
    "epoch_ms": epoch_ms,
    "epoch_us": epoch_us,
    "span_seconds": seconds_of_span,
}
