"""The values of a column in JSON, converted to an Arrow array of the column's type.

    [12.5, "12.50", null]   DECIMAL(9,2)   ──> 12.50, 12.50, NULL
    ["2024-05-01T12:00+02:00"]  TIMESTAMP  ──> 2024-05-01T10:00:00Z; without a zone it is UTC
    [12.505]                DECIMAL(9,2)   ──> Misfit: value 0, and what to write instead

Each value is converted by itself: a microsecond each. Rows in JSON are few, because a request is short.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from psoup_proto.json_rows import numbers

_SHOWN = 80
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
"""Pattern of a fraction of a second with digits below a microsecond."""
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_FAULTS = (ValueError, TypeError, ArithmeticError)

Form = Callable[[Any], Any]
"""Function that converts a value of JSON; raises one of `_FAULTS`."""


class Misfit(ValueError):
    """Raised for a value that does not fit its column. `row`: its place among the values. `way_out`: what to write."""

    def __init__(self, row: int, value: Any, way_out: str) -> None:
        super().__init__(f"{shown(value)} does not fit; {way_out}")
        self.row = row
        self.shown = shown(value)
        self.way_out = way_out


def column(values: Sequence[Any], target: pa.DataType) -> pa.Array:
    """Convert the values of a column. Raises Misfit for the first one that does not fit. O(values)."""
    form, stored = _form_of(target)
    fits = list[Any]()
    try:
        for value in values:
            fits.append(None if value is None else form(value))
    except _FAULTS as problem:
        raise Misfit(len(fits), values[len(fits)], _way_out(target)) from problem
    return pa.array(fits, stored).cast(target)


def instant_of_text(text: str) -> int:
    """Return microseconds since 1970 UTC of a time in ISO 8601. Raises ValueError.

    A time without a zone is UTC. Digits below a microsecond have to be 0.

    >>> instant_of_text("1970-01-01T01:00:01+01:00"), instant_of_text(" 1970-01-01 ")
    (1000000, 0)
    """
    if _FINER.search(text):
        raise ValueError(f"{text[:100]!r} has parts below a microsecond")
    time = dt.datetime.fromisoformat(text.strip())
    return ((time.replace(tzinfo=dt.UTC) if time.tzinfo is None else time) - _EPOCH) // _MICROSECOND


def checked_text(value: Any) -> str:
    """Return a text. Raises TypeError for another value, and ValueError for half of a surrogate pair."""
    if not isinstance(value, str):
        raise TypeError(f"a {type(value).__name__} is not valid here")
    value.encode()
    return value


def shown(value: Any) -> str:
    """Write a value of JSON for an error, in at most 80 characters."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "an array"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**_SHOWN:
        return f"a number of {value.bit_length():,} bits"
    text = str(value) if isinstance(value, Decimal) else json.dumps(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _form_of(target: pa.DataType) -> tuple[Form, pa.DataType]:
    """Return the function that converts one value for a column, and the Arrow type of its results."""
    t = pa.types
    if t.is_timestamp(target):
        return lambda value: instant_of_text(checked_text(value)), pa.int64()
    if t.is_decimal(target):
        return lambda value: _decimal(value, target), target
    if t.is_date(target):
        return _day, target
    if t.is_integer(target):
        return _whole, target
    if t.is_floating(target):
        return _double, target
    return (_truth if t.is_boolean(target) else checked_text), target


def _decimal(value: Any, target: pa.DataType) -> Decimal:
    if isinstance(value, str):
        return numbers.decimal_of_text(value.strip(), target)
    return numbers.exact(Decimal(_number(value)), target)


def _whole(value: Any) -> int:
    return numbers.whole_of_text(value) if isinstance(value, str) else numbers.whole(_number(value))


def _double(value: Any) -> float:
    if isinstance(value, str):
        return numbers.double_of_text(value)
    if isinstance(_number(value), int):
        return numbers.double_of_whole(value)
    return numbers.double(value) if isinstance(value, Decimal) else float(value)


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError(f"a {type(value).__name__} is not a number")
    return value


def _day(value: Any) -> dt.date:
    text = checked_text(value)
    if not _DAY.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not a valid date")
    return dt.date.fromisoformat(text)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"a {type(value).__name__} is not true or false")
    return value


def _way_out(target: pa.DataType) -> str:
    t = pa.types
    if t.is_decimal(target):
        before = target.precision - target.scale
        return f"write a number, or its text, of at most {before} digits before the point and {target.scale} after it"
    if t.is_integer(target):
        return "write a whole number of 64 bits; from 2^53 on as a text, if your JSON has doubles only"
    if t.is_floating(target):
        return 'write a number, or "NaN", "Infinity" or "-Infinity"; a whole number above 2^53 is rarely exact'
    if t.is_timestamp(target):
        return 'write "2013-07-04T12:00:00Z", with at most six digits behind the second'
    if t.is_date(target):
        return 'write "2013-07-04"'
    return "write true or false" if t.is_boolean(target) else "write a text, in quotes"
