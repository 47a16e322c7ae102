"""Values as text, in DuckDB's spelling. The results are Arrow large_string arrays; a NULL row has any text.

0.05 as DECIMAL(5,2)  0.05     DECIMAL(2,2)  .05        1e16  1e+16       2020-01-01 10:00:00.5      0044-03-15 (BC)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.civil import civil_from_days
from psoup.expressions.numbers.wide import text_of
from psoup.expressions.times.temporal import split
from psoup.model import Kind
from psoup.values.columns import Array, Column


def _scalar(text: str) -> pa.Scalar:
    return pa.scalar(text, pa.large_string())


def _digits(values: Array, width: int = 1) -> pa.Array:
    """Non-negative integers as text, padded with zeros."""
    text = pa.array(values).cast(pa.large_string())
    return pc.utf8_lpad(text, width=width, padding="0") if width > 1 else text


def _join(*parts: pa.Array | pa.Scalar) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _scalar(""))


def _if(condition: Array, text: pa.Array | pa.Scalar) -> pa.Array:
    return pc.if_else(pa.array(condition), text, _scalar(""))


def boolean(column: Column) -> pa.Array:
    """The text true or false."""
    return pc.if_else(pa.array(column.values), _scalar("true"), _scalar("false"))


def bigint(column: Column) -> pa.Array:
    """The decimal digits, with a minus if the number is negative."""
    return pa.array(column.values).cast(pa.large_string())


def double(column: Column) -> pa.Array:
    """The shortest text that reads back as the same DOUBLE, with an exponent below 1e-4 and from 1e16 on."""
    return pa.array(column.values.astype("U32"), pa.large_string())


def decimal(column: Column) -> pa.Array:
    """The number with all its decimal places. It has no zero before the point if the type has no digit there."""
    scale = column.type.scale
    if scale == 0:
        return bigint(column)
    unit = np.int64(10**scale)
    size = np.abs(column.values)
    whole = _scalar("") if column.type.precision == scale else _digits(size // unit)
    return _join(_if(column.values < 0, _scalar("-")), whole, _scalar("."), _digits(size % unit, scale))


def date(column: Column) -> pa.Array:
    """The form YYYY-MM-DD. A year before 1 is written with (BC)."""
    return _date_text(split(column)[0])


def timestamp(column: Column) -> pa.Array:
    """The form YYYY-MM-DD HH:MM:SS[.ffffff], without trailing zeros."""
    days, micros = split(column)
    seconds, fraction = micros // 1_000_000, micros % 1_000_000
    tail = pc.utf8_rtrim(_join(_scalar("."), _digits(fraction, 6)), characters="0")
    return _join(
        _date_text(days),
        _scalar(" "),
        _digits(seconds // 3600, 2),
        _scalar(":"),
        _digits(seconds // 60 % 60, 2),
        _scalar(":"),
        _digits(seconds % 60, 2),
        _if(fraction > 0, tail),
    )


def _date_text(days: Array) -> pa.Array:
    year, month, day = civil_from_days(days)
    before = year <= 0
    return _join(
        _digits(np.where(before, 1 - year, year), 4),
        _scalar("-"),
        _digits(month, 2),
        _scalar("-"),
        _digits(day, 2),
        _if(before, _scalar(" (BC)")),
    )


WRITERS: dict[Kind, Callable[[Column], pa.Array]] = {
    Kind.BOOLEAN: boolean,
    Kind.BIGINT: bigint,
    Kind.DOUBLE: double,
    Kind.DECIMAL: decimal,
    Kind.DATE: date,
    Kind.TIMESTAMP: timestamp,
    Kind.WIDE: text_of,
}
"""The text of each kind."""
