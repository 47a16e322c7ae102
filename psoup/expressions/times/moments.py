"""Times: construction, differences by parts, buckets, and formats.

    date_diff('month', '2020-01-31', '2020-02-01') -> 1    time_bucket(INTERVAL '1' HOUR, t) -> the start of its hour
    make_date(2020, 2, 29)      to_timestamp(1.5)            strftime(t, '%Y-%m') -> '2020-02'

A result outside the range of DATE or TIMESTAMP is an error of its row.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Container

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.civil import (
    DAY_MICROS,
    FIRST_MICRO,
    LAST_DAY,
    LAST_MICRO,
    civil_from_days,
    days_from_civil,
    days_in_month,
)
from psoup.expressions.frame import Evaluator, Frame, finish, finish_text
from psoup.expressions.numbers.numeric import add_int64, mul_int64, sub_int64
from psoup.expressions.numbers.rounding import round_half_away
from psoup.expressions.times.temporal import PARTS, split
from psoup.expressions.tree import Call, Literal
from psoup.kernels.rows.arithmetic import differences
from psoup.model import BIGINT, DATE, TIMESTAMP
from psoup.values.columns import Array, Column

_FAR = 10_000_000
"""A year beyond all times."""
_SPECIFIER = re.compile(r"%-?.", re.DOTALL)
_WRITTEN = 32
"""The most bytes that one part of a format takes in a row, with temporary copies."""

UNITS = {
    "hour": 3_600_000_000,
    "minute": 60_000_000,
    "second": 1_000_000,
    "epoch": 1_000_000,
    "millisecond": 1_000,
    "microsecond": 1,
}


def _years(length: int) -> Callable[[Array], Array]:
    return lambda days: np.fix(civil_from_days(days)[0] / length).astype(np.int64)


def _months(days: Array) -> Array:
    year, month, _ = civil_from_days(days)
    return year * 12 + month - 1


DAYS: dict[str, Callable[[Array], Array]] = {
    "day": lambda days: days,
    "dow": lambda days: days,
    "isodow": lambda days: days,
    "doy": lambda days: days,
    "week": lambda days: days,
    "month": _months,
    "quarter": lambda days: np.fix(_months(days) / 3).astype(np.int64),
    "year": _years(1),
    "decade": _years(10),
    "century": _years(100),
    "millennium": _years(1_000),
    "isoyear": lambda days: PARTS["isoyear"](days, days),
}
"""Parts of at least a day: the number of the part that contains each day."""


def date_diff(call: Call, frame: Frame) -> Column:
    """Compute date_diff(part, a, b): the number of times that a new part begins between a and b.

    For weeks, it is the number of whole weeks.
    """
    part, *times = call.args
    assert isinstance(part, Literal)
    columns = [frame.column(time) for time in times]
    name = "day" if part.value == "week" else str(part.value)
    left, right = (_number(name, column) for column in columns)
    values, overflow = np.empty(frame.rows, np.int64), None
    if differences(right, left, values) and UNITS.get(name) == 1:
        _, overflow = sub_int64(right, left)
    if part.value == "week":  # whole weeks, not beginnings, as in DuckDB
        values = np.sign(values) * (np.abs(values) // 7)
    return finish(BIGINT, values, columns, overflow)


def _number(part: str, column: Column) -> Array:
    if part in DAYS:
        return DAYS[part](split(column)[0])
    if column.type == DATE:
        return column.values.astype(np.int64) * (DAY_MICROS // UNITS[part])
    return column.values if UNITS[part] == 1 else column.values // UNITS[part]


def make_date(call: Call, frame: Frame) -> Column:
    """Compute make_date(year, month, day)."""
    columns = frame.columns(call)
    days, failed = _day(*(column.values for column in columns))
    return finish(DATE, days, columns, failed)


def _day(year: Array, month: Array, day: Array) -> tuple[Array, Array]:
    """Days since 1970, and flags of days that do not exist."""
    failed = (year < -_FAR) | (year > _FAR) | (month < 1) | (month > 12) | (day < 1)
    year, month = np.where(failed, 1970, year), np.where(failed, 1, month)
    failed |= day > days_in_month(year, month)
    days = days_from_civil(year, month, np.where(failed, 1, day))
    failed |= np.abs(days) > LAST_DAY
    return np.where(failed, 0, days), failed


def make_timestamp(call: Call, frame: Frame) -> Column:
    """Compute make_timestamp(year, month, day, hour, minute, seconds), or of microseconds since 1970."""
    columns = frame.columns(call)
    if len(columns) == 1:
        values = columns[0].values
        return finish(TIMESTAMP, values, columns, (values > LAST_MICRO) | (values < FIRST_MICRO))
    year, month, day, hour, minute, seconds = (column.values for column in columns)
    days, failed = _day(year, month, day)
    near = np.isfinite(seconds) & (np.abs(seconds) < 100)
    micros = round_half_away(np.where(near, seconds, -1) * 1e6).astype(np.int64)
    midnight = (hour == 24) & (minute == 0) & (micros == 0)
    failed |= (hour < 0) | ((hour > 23) & ~midnight) | (minute < 0) | (minute > 59) | (micros < 0) | (seconds >= 61)
    rest = np.clip(hour, 0, 24) * 3_600_000_000 + np.clip(minute, 0, 59) * 60_000_000 + micros
    start, overflow = mul_int64(days, np.full(frame.rows, DAY_MICROS))
    values, over = add_int64(start, rest)
    failed = failed | overflow | over | (values > LAST_MICRO) | (values < FIRST_MICRO)
    return finish(TIMESTAMP, values, columns, failed)


def to_timestamp(call: Call, frame: Frame) -> Column:
    """Compute to_timestamp(seconds since 1970), rounded to microseconds."""
    columns = frame.columns(call)
    micros = round_half_away(columns[0].values * 1e6)
    in_range = (micros >= FIRST_MICRO) & (micros < 2.0**63)  # the last DOUBLE below is before LAST_MICRO
    if in_range.all():
        return finish(TIMESTAMP, micros.astype(np.int64), columns)
    return finish(TIMESTAMP, np.where(in_range, micros, 0.0).astype(np.int64), columns, ~in_range)


MONDAY = 10_959 * DAY_MICROS
"""2000-01-03, the origin of buckets of days and hours; buckets of months begin at 2000-01-01."""
_JANUARY = 2_000 * 12


def time_bucket(call: Call, frame: Frame) -> Column:
    """Compute time_bucket(months, microseconds, time): the beginning of the bucket of a time. One of the two widths is
    0.
    """
    months, micros, time = call.args
    assert isinstance(months, Literal)
    assert isinstance(micros, Literal)
    column = frame.column(time)
    width = int(micros.value or 1)
    if not months.value and call.type == TIMESTAMP and column.type == TIMESTAMP:
        begun = _begun(column.values, width)
        if begun is not None:
            return finish(TIMESTAMP, begun, [column])
    days, _ = split(column)
    if months.value:
        first = (_months(days) - _JANUARY) // int(months.value) * int(months.value) + _JANUARY
        start = days_from_civil(first // 12, first % 12 + 1, np.ones_like(first))
        values, overflow = mul_int64(start, np.full(frame.rows, DAY_MICROS))
        if call.type == DATE:
            return finish(DATE, start, [column])
        return finish(TIMESTAMP, values, [column], overflow | (values < FIRST_MICRO))
    at, far = (column.values, None) if column.type == TIMESTAMP else mul_int64(days, np.full(frame.rows, DAY_MICROS))
    first = np.full(frame.rows, MONDAY % width)
    moved, overflow = sub_int64(at, first)
    values, under = add_int64(moved // width * width, first)
    failed = overflow | under | (values > at) | (values < FIRST_MICRO) | (False if far is None else far)
    return finish(call.type, values // DAY_MICROS if call.type == DATE else values, [column], failed)


def _begun(times: Array, width: int) -> Array | None:
    """The beginnings of the buckets of times. Returns None if the first bucket may begin before the first TIMESTAMP."""
    offset = MONDAY % width
    if times.min(initial=0) < FIRST_MICRO + offset + width:
        return None
    begun: Array = times - offset
    begun //= width
    begun *= width
    begun += offset
    return begun


# Formats -------------------------------------------------------------------------------------------------------


def _digits(part: Callable[[Array, Array], Array], width: int) -> Callable[[Array, Array], pa.Array]:
    def written(days: Array, micros: Array) -> pa.Array:
        text = pa.array(part(days, micros)).cast(pa.large_string())
        return pc.utf8_lpad(text, width=width, padding="0") if width > 1 else text

    return written


def _year(days: Array, micros: Array) -> pa.Array:
    """The year, padded to four digits unless it is negative."""
    years = PARTS["year"](days, micros)
    text = pa.array(years).cast(pa.large_string())
    return pc.if_else(pa.array(years < 0), text, pc.utf8_lpad(text, width=4, padding="0"))


def _names(names: list[str], place: Callable[[Array, Array], Array]) -> Callable[[Array, Array], pa.Array]:
    listed = pa.array(names, pa.large_string())
    return lambda days, micros: listed.take(pa.array(place(days, micros)))


def _twelve(days: Array, micros: Array) -> Array:
    return (PARTS["hour"](days, micros) + 11) % 12 + 1


def _week_from(first: int) -> Callable[[Array, Array], Array]:
    """The week of the year, where weeks begin `first` days after Sunday. Days before the first week are in week 0."""

    def week(days: Array, micros: Array) -> Array:
        of_year = PARTS["doy"](days, micros) - 1
        return (of_year + 7 - (PARTS["dow"](days, micros) - first) % 7) // 7

    return week


_NUMBERS: dict[str, tuple[Callable[[Array, Array], Array], int]] = {
    "d": (PARTS["day"], 2),
    "m": (PARTS["month"], 2),
    "H": (PARTS["hour"], 2),
    "I": (_twelve, 2),
    "M": (PARTS["minute"], 2),
    "S": (PARTS["second"], 2),
    "j": (PARTS["doy"], 3),
}
SPECIFIERS: dict[str, Callable[[Array, Array], pa.Array]] = {
    **{f"%{letter}": _digits(part, width) for letter, (part, width) in _NUMBERS.items()},
    **{f"%-{letter}": _digits(part, 1) for letter, (part, _) in _NUMBERS.items()},
    "%Y": _year,
    "%y": _digits(lambda days, micros: np.abs(PARTS["year"](days, micros)) % 100, 2),
    "%n": _digits(lambda days, micros: micros % 1_000_000 * 1_000, 9),
    "%f": _digits(lambda days, micros: micros % 1_000_000, 6),
    "%g": _digits(lambda days, micros: micros % 1_000_000 // 1_000, 3),
    "%u": _digits(PARTS["isodow"], 1),
    "%w": _digits(PARTS["dow"], 1),
    "%U": _digits(_week_from(0), 2),
    "%W": _digits(_week_from(1), 2),
    "%V": _digits(PARTS["week"], 2),
    "%a": _names([calendar.day_abbr[(day - 1) % 7] for day in range(7)], PARTS["dow"]),
    "%A": _names([calendar.day_name[(day - 1) % 7] for day in range(7)], PARTS["dow"]),
    "%b": _names(list(calendar.month_abbr)[1:], lambda days, micros: PARTS["month"](days, micros) - 1),
    "%B": _names(list(calendar.month_name)[1:], lambda days, micros: PARTS["month"](days, micros) - 1),
    "%p": _names(["AM", "PM"], lambda days, micros: PARTS["hour"](days, micros) // 12),
}
"""For each specifier, the function that writes its part of times.

`SHORT` has the specifiers that stand for several others, or for a character.
"""
SHORT = {"%x": "%Y-%m-%d", "%X": "%H:%M:%S", "%c": "%Y-%m-%d %H:%M:%S", "%%": "%"}


def pieces(written: str, specifiers: Container[str] = SPECIFIERS) -> list[str]:
    """A format as alternating texts and specifiers, beginning with a text. O(length)."""
    parts, at = [""], 0
    for match in _SPECIFIER.finditer(written):
        parts[-1] += written[at : match.start()]
        at = match.end()
        inside = SHORT.get(match[0], match[0])
        if inside in specifiers:
            parts += [inside, ""]
        elif match[0] in SHORT and len(inside) > 1:
            more = pieces(inside)
            parts[-1] += more[0]
            parts += more[1:]
        else:
            parts[-1] += inside
    parts[-1] += written[at:]
    return parts


def formatted(call: Call, frame: Frame) -> Column:
    """Compute strftime(time, format)."""
    time, written = call.args
    assert isinstance(written, Literal)
    column, parts = frame.column(time), pieces(str(written.value))
    frame.sizes.borrow(frame.rows * (_WRITTEN * len(parts) + len(str(written.value).encode())))
    days, micros = split(column)
    texts: list[pa.Array | pa.Scalar] = []
    for place, part in enumerate(parts):
        texts.append(SPECIFIERS[part](days, micros) if place % 2 else pa.scalar(part, pa.large_string()))
    if len(texts) == 1:
        texts[0] = pa.repeat(texts[0], frame.rows)
    return finish_text(pc.binary_join_element_wise(*texts, pa.scalar("", pa.large_string())), [column])


EVALUATORS: dict[str, Evaluator] = {
    "date_diff": date_diff,
    "make_date": make_date,
    "make_timestamp": make_timestamp,
    "to_timestamp": to_timestamp,
    "time_bucket": time_bucket,
    "strftime": formatted,
}
