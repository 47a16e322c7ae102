"""Conversion of Python values of any library to the few types that Arrow reads without a guess.

    np.int8(3), Colour.RED(3)          ──> int               pd.NaT, pd.NA, None          ──> None
    np.str_("a"), pa.scalar("a")       ──> str               np.datetime64, pd.Timestamp  ──> datetime, date

Arrow guesses an array's type from the first values, and cuts later values to it. A datetime after a date loses its
time, a float16 after an integer its fraction. Values of one plain type, or of a few pairs of types, are safe.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

_PLAIN = frozenset({bool, int, float, str, Decimal, dt.date, dt.datetime})
_NONE = type(None)
_PAIRS = (frozenset({int, float}), frozenset({int, Decimal}))
"""Pairs of types that Arrow converts to one type. Arrow raises an error if that would change a value."""


def kinds_of(values: Iterable[object]) -> frozenset[type]:
    """Return the types of the values except None."""
    return frozenset(map(type, values)) - {_NONE}


def goes_together(kinds: frozenset[type]) -> bool:
    """Whether Arrow may guess the type of an array whose values have these types."""
    return kinds <= _PLAIN if len(kinds) < 2 else kinds in _PAIRS


def plain(value: Any) -> Any:
    """Convert a value to None or a plain type. A value of an unknown type is returned unchanged.

    Raises ValueError if the conversion would lose something.
    """
    kind = type(value)
    if kind in _PLAIN or kind is _NONE:
        return value
    if isinstance(value, pa.Scalar):
        return _of_scalar(value)
    if isinstance(value, np.generic):
        return _of_numpy(value)
    if _is_missing(value):
        return None
    for base, copied in _COPIES:
        if isinstance(value, base):
            return copied(value)
    return value


def plain_values(values: Sequence[Any]) -> list[Any]:
    """Convert all values by `plain`."""
    return [plain(value) for value in values]


def _is_missing(value: object) -> bool:
    """Whether a value is NaT or NA of pandas."""
    pandas = sys.modules.get("pandas")
    return value is getattr(pandas, "NaT", None) or value is getattr(pandas, "NA", None)


def _of_scalar(value: pa.Scalar) -> Any:
    if pa.types.is_timestamp(value.type):
        value = value.cast(pa.timestamp("us", value.type.tz))
    return plain(value.as_py())


def _of_numpy(value: Any) -> Any:
    if isinstance(value, np.datetime64):
        return _of_instant(value)
    if isinstance(value, np.timedelta64):
        return value
    if isinstance(value, np.longdouble) and float(value) != value and value == value:
        raise ValueError(f"{value} has more digits than a float")
    return float(value) if isinstance(value, np.longdouble) else value.item()


def _of_instant(value: np.datetime64) -> dt.datetime | dt.date | None:
    """Convert a NumPy time to a datetime, or to a date if its unit is a day or longer."""
    if np.isnat(value):
        return None
    unit = np.datetime_data(value.dtype)[0]
    instant = value.astype("datetime64[D]" if unit in ("Y", "M", "W", "D") else "datetime64[us]")
    if instant.astype(value.dtype) != value:
        raise ValueError(f"{value} has parts below a microsecond")
    read = instant.item()
    if not isinstance(read, dt.date):
        raise ValueError(f"{value} is not within the years 1 to 9999")
    return read


def _of_datetime(value: dt.datetime) -> dt.datetime:
    if getattr(value, "nanosecond", 0):  # only a Timestamp of pandas has nanoseconds
        raise ValueError(f"{value} has nanoseconds")
    return dt.datetime.combine(dt.date(value.year, value.month, value.day), value.timetz())


_COPIES: tuple[tuple[type, Any], ...] = (
    (int, int.__int__),
    (float, float.__float__),
    (str, str.__str__),
    (Decimal, Decimal),
    (dt.datetime, _of_datetime),
    (dt.date, lambda day: dt.date(day.year, day.month, day.day)),
)
"""Functions that convert instances of subclasses to the plain type. Datetime comes before its base class date."""


def guessed(values: Sequence[Any]) -> pa.Array | pa.ChunkedArray:
    """Build an array of values whose type is not known, such as parameters. O(values).

    A date among datetimes becomes its midnight. Raises TypeError for values of several types, and ValueError or an
    error of Arrow for a value that would change.
    """
    if not isinstance(values, list | tuple):
        try:
            return typed(values)
        except (TypeError, ValueError, pa.ArrowException):
            values = list(values)
    kinds = kinds_of(values)
    if not goes_together(kinds):
        values = plain_values(values)
        kinds = kinds_of(values)
    if kinds == {dt.date, dt.datetime}:
        values = [value if value is None or type(value) is dt.datetime else midnight(value) for value in values]
    elif not goes_together(kinds) and len(kinds) > 1:
        raise TypeError(f"values of {len(kinds)} types do not make one column")
    return pa.array(values)


def typed(values: Any) -> pa.Array | pa.ChunkedArray:
    """Build an array of values that already have a type, such as arrays of NumPy and Polars.

    Raises TypeError for any other value, and an error of Arrow for a type that Arrow lacks.
    """
    if hasattr(values, "__arrow_c_stream__"):  # a detour by Python values would cut nanoseconds of Polars
        return pa.chunked_array(values)
    kind = getattr(values, "dtype", None)
    if kind is None or kind == np.dtype(object) or hasattr(kind, "categories"):
        raise TypeError("the values have no type in common")
    return pa.array(values)


def midnight(day: dt.date) -> dt.datetime:
    """Return the first instant of a day, UTC."""
    return dt.datetime(day.year, day.month, day.day, tzinfo=dt.UTC)
