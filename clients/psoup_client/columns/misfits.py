"""Errors for values that do not fit a column. They name the row, the value, the column, and the way out."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from psoup_client.columns.casts import TimeOptions
from psoup_client.columns.date_forms import formats_of
from psoup_client.columns.plain import plain
from psoup_client.columns.zones import is_skipped
from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo

COUNTS = '; if it counts from 1970, say what: time_unit="s" (--time-unit s), or "ms", "us", "ns"'

_COUNT = re.compile(r"[+-]?\d{9,19}(\.\d*)?")
"""Pattern of a text that looks like a count of seconds, or of a smaller unit, since 1970."""

_WRITTEN = {"TIMESTAMP": "2013-07-04T12:00:00Z", "DATE": "2013-07-04"}
"""Examples of texts for types of times."""

_BELOW = ("ns", "ps", "fs", "as")
"""NumPy's units below a microsecond."""

_SHOWN = 80

_WAYS = {
    ("TEXT", int): "; give it as a text",
    ("TEXT", float): "; give it as a text",
    ("TEXT", Decimal): "; give it as a text",
    ("TEXT", bytes): "; decode it",
    ("BIGINT", str): "; give a whole number",
    ("DOUBLE", str): "; give a number",
    ("DOUBLE", int): "; a DOUBLE holds whole numbers up to 2^53, and few of those above: round it",
    ("DOUBLE", Decimal): "; a DOUBLE holds 15 digits, and some numbers of 17: round it, or make the column DECIMAL",
    ("BOOLEAN", str): "; give True or False",
    ("BOOLEAN", int): "; give True or False",
    ("DATE", dt.datetime): "; a DATE has no time of day: give value.date(), or make the column TIMESTAMP",
}
"""The advice for a value of a Python type in a column of an SQL type."""


def misfit(row: int | None, value: Any, column: ColumnInfo, times: TimeOptions) -> InvalidData:
    """Build the error for a value that does not fit a column."""
    place = "" if row is None else f"row {row}: "
    facts = {"column": column.name, "row": "-1" if row is None else str(row)}
    subject = f"{place}{shown(value)} in column {column.name!r}"
    if isinstance(value, str) and column.type == "TIMESTAMP" and _COUNT.fullmatch(value.strip()) and not times.unit:
        return InvalidData(f"{subject} is not a valid TIMESTAMP{_counts(value.strip())}", facts=facts)
    if column.type == "TIMESTAMP" and times.zone is not None and is_skipped(value, times.zone):
        return InvalidData(f"{subject} does not exist in {times.zone}: its clocks are set forward then", facts=facts)
    if isinstance(value, str) and column.type in _WRITTEN:
        return InvalidData(
            f"{subject} is not a valid {column.type}; {date_advice(value, column.type, column.arrow)}", facts=facts
        )
    return InvalidData(
        f"{subject} does not fit {column.type} without loss{_way_out(value, column, times)}", facts=facts
    )


def date_advice(text: str, sql: str, arrow: pa.DataType) -> str:
    """Describe how a text that is not a valid DATE or TIMESTAMP can be read, or written.

    `sql` and `arrow` are the column's types.
    """
    written = f"write it as {_WRITTEN[sql]}"
    forms = " or ".join(f"--date-format '{form}'" for form in formats_of(text, arrow))
    return f"say psoup push {forms}, or {written}" if forms else written


def _counts(text: str) -> str:
    """Advise the unit with which a count since 1970 is of our time."""
    digits = len(text.lstrip("+-").partition(".")[0])
    unit = next(unit for unit, limit in (("s", 11), ("ms", 14), ("us", 17), ("ns", 19)) if digits <= limit)
    return f'; if it counts from 1970, say --time-unit {unit}, or time_unit="{unit}" in Python'


def shown(value: Any) -> str:
    """Write a value for an error, in at most 80 characters."""
    try:
        text = str(value) if isinstance(value, Decimal | np.generic) else repr(value)
    except ValueError:  # Python refuses to write an integer of more than 4,300 digits
        return f"a number of {value.bit_length():,} bits" if isinstance(value, int) else f"a {type(value).__name__}"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _way_out(value: Any, column: ColumnInfo, times: TimeOptions) -> str:
    value = _plain(value)
    if column.type == "TIMESTAMP" and isinstance(value, dt.datetime | np.datetime64 | pa.TimestampScalar):
        finer = not isinstance(value, np.datetime64) or np.datetime_data(value.dtype)[0] in _BELOW
        return "; a TIMESTAMP has microseconds: round it" if finer else "; its year is beyond those of a TIMESTAMP"
    if isinstance(value, bool):
        return "; give a number: int(value)" if pa.types.is_integer(column.arrow) else ""
    if isinstance(value, int | float | Decimal):
        return _way_of_number(value, column, times)
    return _WAYS.get((column.type, type(value)), "")


def _way_of_number(value: int | float | Decimal, column: ColumnInfo, times: TimeOptions) -> str:
    if not (isinstance(value, int) or (value.is_finite() if isinstance(value, Decimal) else math.isfinite(value))):
        infinite = value.is_infinite() if isinstance(value, Decimal) else math.isinf(value)
        return "; only a DOUBLE holds infinity: make it NULL" if infinite else "; make it NULL"
    if column.type == "TIMESTAMP":
        return f", as {times.unit} since 1970" if times.unit else COUNTS
    if pa.types.is_decimal(column.arrow):
        scale, before = column.arrow.scale, column.arrow.precision - column.arrow.scale
        if not -(10**before) < value < 10**before:  # abs() of a Decimal may overflow
            return f"; it has {before} digits before the point"
        text = ", or give text or Decimal" if isinstance(value, float) else ""
        return f"; round it to {scale} digits{text}"
    if pa.types.is_integer(column.arrow):
        beyond = not -(2**63) <= value < 2**63
        return "; it is out of the range of 64 bits" if beyond else "; round it, or make the column DOUBLE"
    return _WAYS.get((column.type, type(value)), "")


def _plain(value: Any) -> Any:
    try:
        return plain(value)
    except (ValueError, pa.ArrowException):
        return value
