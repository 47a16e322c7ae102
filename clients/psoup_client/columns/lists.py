"""Conversion of lists of Python values to Arrow arrays for a column of a stream.

[1, 2.0]  [Decimal("1.5"), 2]          Arrow guesses a type that holds all values, and `casts` converts the array
[date, datetime]  [np.int8(1), 2.0]    Python converts each value to the column's type, or refuses it with its row
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from psoup_client.columns.arrays import Column, fit_array
from psoup_client.columns.casts import INSTANT, ISO, REFUSALS, TimeOptions, cast
from psoup_client.columns.decimals import are_near, exact
from psoup_client.columns.misfits import misfit
from psoup_client.columns.plain import goes_together, kinds_of, midnight, plain
from psoup_client.columns.zones import aware
from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo
from psoup_client.times import to_micros
from psoup_proto.json_rows.columns import checked_text, instant_of_text
from psoup_proto.json_rows.numbers import double_of_whole, whole

_DIGITS = 40
"""The greatest number of digits of a number that may be a time."""


def fit_list(values: Sequence[Any], column: ColumnInfo, times: TimeOptions) -> Column:
    """Convert values to an array for `column`. Raises InvalidData that names the row.

    O(values): some nanoseconds each if all have one type, and some microseconds if they have several types.
    """
    kinds = kinds_of(values)
    if goes_together(kinds) and not (times.zone is not None and _differ_in_zones(values)):
        typed = column.arrow if Decimal in kinds and pa.types.is_decimal(column.arrow) else None  # 8 times faster
        try:
            if typed is None or are_near(values):
                return fit_array(pa.array(values, typed), column, times)
        except (InvalidData, *REFUSALS):
            pass  # some value needs a conversion, or does not fit: convert one by one
    form, stored = _form_of(column.arrow, times)
    fits = []
    for row, value in enumerate(values):
        try:
            plain_value = plain(value)
            fits.append(None if plain_value is None else form(plain_value))
        except REFUSALS as problem:
            raise misfit(row, value, column, times) from problem
    return pa.array(fits, stored).cast(column.arrow)


def _differ_in_zones(values: Sequence[Any]) -> bool:
    """Whether some datetimes have a zone and some have none, or one has a fold. Arrow would take them all alike."""
    zoneless = [value for value in values if isinstance(value, dt.datetime) and value.tzinfo is None]
    return any(value.fold for value in zoneless) or 0 < len(zoneless) < len(values)


Form = Callable[[Any], Any]
"""Function that converts a plain value to one that Arrow accepts for a column; raises one of REFUSALS."""


def _form_of(target: pa.DataType, times: TimeOptions) -> tuple[Form, pa.DataType]:
    """Return the function that converts one value for the column, and the Arrow type of its results."""
    t = pa.types
    if t.is_timestamp(target):
        return lambda value: _micros(value, times), pa.int64()
    if t.is_date(target):
        return lambda value: _day(value, times), target
    if t.is_decimal(target):
        return lambda value: _decimal(value, target), target
    if t.is_integer(target):
        return _whole, target
    if t.is_floating(target):
        return _double, target
    return (_truth if t.is_boolean(target) else checked_text), target


def _micros(value: Any, times: TimeOptions) -> int:
    if isinstance(value, str):
        if times != ISO:
            return int(cast(pa.array([value]), INSTANT, times)[0].value)
        return instant_of_text(value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return _counted(value, times)
    if isinstance(value, dt.datetime):
        return to_micros(aware(value, times.zone))
    if isinstance(value, dt.date):
        return to_micros(aware(midnight(value).replace(tzinfo=None), times.zone))
    raise _not_valid(value)


def _counted(value: int | float | Decimal, times: TimeOptions) -> int:
    if times.unit is None:
        raise ValueError("a number is a time only with a unit")
    if isinstance(value, Decimal):
        if abs(value.adjusted()) > _DIGITS:
            raise ValueError("it is out of the range of times")
        return int(cast(pa.array([format(value, "f")]), INSTANT, times)[0].value)
    return int(cast(pa.array([value]), INSTANT, times)[0].value)


def _day(value: Any, times: TimeOptions) -> dt.date:
    if isinstance(value, dt.datetime):
        instant = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value.astimezone(dt.UTC)
        if instant.time() != dt.time():
            raise ValueError("a DATE has no time of day")
        return instant.date()
    if isinstance(value, dt.date):
        return value
    if isinstance(value, str):
        read = cast(pa.array([value]), pa.date32(), times)[0].as_py()
        assert isinstance(read, dt.date)
        return read
    raise _not_valid(value)


def _decimal(value: Any, target: pa.DataType) -> Decimal:
    if isinstance(value, int | Decimal) and not isinstance(value, bool):
        return exact(Decimal(value), target)
    if not isinstance(value, str | float):
        raise _not_valid(value)
    number = cast(pa.array([value.strip() if isinstance(value, str) else value]), target, ISO)[0].as_py()
    assert isinstance(number, Decimal)
    return number


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _not_valid(value)
    return whole(value)


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _not_valid(value)
    if isinstance(value, int):
        return double_of_whole(value)
    number = float(value)
    if isinstance(value, Decimal) and value.is_finite() and not stands_for(number, value):
        raise ValueError("it is not exact")
    return number


def stands_for(number: float, value: Decimal) -> bool:
    """Whether a float equals a decimal number, or has the same digits when written."""
    return math.isfinite(number) and (value == number or value == Decimal(repr(number)))


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _not_valid(value)
    return value


def _not_valid(value: object) -> TypeError:
    return TypeError(f"a {type(value).__name__} is not valid here")
