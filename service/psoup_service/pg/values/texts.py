"""Values in text format, exactly as PostgreSQL prints them, one at a time.

    1e15 ──FLOAT8──> b"1e+15"      1714557600000000 ──TIMESTAMPTZ──> b"2024-05-01 10:00:00+00"

`Plain` values come from `plain.plain_values`: times are microseconds since 1970, dates are days.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np

from psoup_service.pg.values import types
from psoup_service.pg.values.float_digits import shortest

Text = Callable[[Any], bytes]

_DAY = 86_400_000_000
_QUOTED = re.compile(r'[{}",\\\s]')


def date_text(days: int) -> str:
    """The text of a date. days: since 1970, of any year."""
    year, month, day = civil(days)
    if year > 0:
        return f"{year:04d}-{month:02d}-{day:02d}"
    return f"{1 - year:04d}-{month:02d}-{day:02d} BC"


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day of a date: days since 1970. Year 0 is 1 BC."""
    days += 719_468
    era, of_era = divmod(days, 146_097)
    year = (of_era - of_era // 1460 + of_era // 36_524 - of_era // 146_096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + era * 400 + (month <= 2), month, of_year - (153 * shifted + 2) // 5 + 1


def time_text(micros: int) -> str:
    """The text of a time of day. micros: since midnight."""
    seconds, fraction = divmod(micros, 1_000_000)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text


def timestamp_text(micros: int, offset: int | None = None) -> str:
    """The text of an instant. offset: seconds east of UTC that are printed; None prints no zone."""
    days, time = divmod(micros + (offset or 0) * 1_000_000, _DAY)
    date = date_text(days)
    date, era = (date[:-3], " BC") if date.endswith(" BC") else (date, "")
    return f"{date} {time_text(time)}{'' if offset is None else offset_text(offset)}{era}"


def offset_text(offset: int) -> str:
    """The text of an offset from UTC: +02, -05:30, +00:53:28."""
    seconds = abs(offset)
    text = f"{'-' if offset < 0 else '+'}{seconds // 3600:02d}"
    if seconds % 3600:
        text += f":{seconds // 60 % 60:02d}"
    return text + (f":{seconds % 60:02d}" if seconds % 60 else "")


def float_text(value: float, digits: int = 15) -> str:
    """The shortest text that reads as a number. digits: from how many on the text has an exponent."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    written = shortest(np.float64(value) if digits == 15 else np.float32(value))
    mantissa, _, exponent = written.partition("e")
    sign = "-" if mantissa.startswith("-") else ""
    whole, _, fraction = mantissa.lstrip("-").partition(".")
    figures = (whole + fraction).lstrip("0")
    place = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(figures))
    figures = figures.rstrip("0")
    if not figures:
        return f"{sign}0"
    if not -4 <= place - 1 < digits:
        tail = f".{figures[1:]}" if len(figures) > 1 else ""
        return f"{sign}{figures[0]}{tail}e{'-' if place <= 0 else '+'}{abs(place - 1):02d}"
    if place <= 0:
        return f"{sign}0.{'0' * -place}{figures}"
    if place >= len(figures):
        return sign + figures + "0" * (place - len(figures))
    return f"{sign}{figures[:place]}.{figures[place:]}"


def _bool(value: bool) -> bytes:
    return b"t" if value else b"f"


def _str(value: object) -> bytes:
    return str(value).encode("utf-8", "replace")


def _vector(values: list[int]) -> bytes:
    return " ".join(map(str, values)).encode()


def _numeric(value: Decimal) -> bytes:
    return format(value, "f").encode()


_TEXTS: dict[int, Text] = {
    types.BOOL: _bool,
    types.INT2VECTOR: _vector,
    types.OIDVECTOR: _vector,
    types.BYTEA: lambda value: b"\\x" + value.hex().encode(),
    types.FLOAT4: lambda value: float_text(value, 6).encode(),
    types.FLOAT8: lambda value: float_text(value).encode(),
    types.NUMERIC: _numeric,
    types.DATE: lambda value: date_text(value).encode(),
    types.TIME: lambda value: time_text(value).encode(),
    types.TIMESTAMP: lambda value: timestamp_text(value).encode(),
    types.TIMESTAMPTZ: lambda value: timestamp_text(*value).encode(),
}


def text_of(oid: int) -> Text:
    """The function that writes the values of a type. A TIMESTAMPTZ is a pair: microseconds, and its zone's offset."""
    if oid in types.ELEMENTS:
        element = text_of(types.ELEMENTS[oid])
        return lambda values: _array(values, element)
    return _TEXTS.get(oid, _str)


def _array(values: list[Any], element: Text) -> bytes:
    return b"{" + b",".join(_item(value, element) for value in values) + b"}"


def _item(value: Any, element: Text) -> bytes:
    if value is None:
        return b"NULL"
    if isinstance(value, list):
        return _array(value, element)
    raw = element(value)
    text = raw.decode()
    if text and text.upper() != "NULL" and not _QUOTED.search(text):
        return raw
    return b'"' + raw.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'
