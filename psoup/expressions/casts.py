"""CAST and TRY_CAST between all kinds, as DuckDB converts.

    to BIGINT     DOUBLE rounds halves to even; DECIMAL and TEXT away from zero      to DECIMAL    away from zero
    to BOOLEAN    a number is true unless zero                                        to DATE       the day, UTC

A value that does not fit is an error of its row; for TRY_CAST it is NULL. `parse_numbers` and `parse_times` read text,
`formats` writes it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.expressions import formats
from psoup.expressions.civil import DAY_MICROS
from psoup.expressions.frame import Evaluator, Frame, finish, finish_text, text_bytes
from psoup.expressions.numbers import parse_numbers, wide
from psoup.expressions.numbers.numeric import mul_int64, too_wide
from psoup.expressions.numbers.rounding import round_half_away, scale_down
from psoup.expressions.times import parse_times
from psoup.expressions.tree import Call, Literal
from psoup.model import EXACT_DOUBLE, DataType, Kind
from psoup.values.columns import Array, Column

Converted = tuple[Array, Array | None]
"""Values of the target type, and flags of values that could not be converted."""

Conversion = Callable[[Column, DataType], Converted]

_BIGINT_END = 2.0**63
_COPIES = 6
"""The bytes that a cast allocates to read a text, as a multiple of the bytes of the text.

They hold the parts that a pattern finds, and the conversions of these parts.
"""
_WRITTEN = 160
"""The bytes that a cast allocates to write a value as text. At most 40 of them remain."""


def _same(column: Column, target: DataType) -> Converted:
    return column.values, None


def _unless_zero(column: Column, target: DataType) -> Converted:
    return column.values != 0, None


def _whole_to_decimal(column: Column, target: DataType) -> Converted:
    bound = 10 ** (target.precision - target.scale)
    values = column.values.astype(np.int64)
    failed = (values >= bound) | (values <= -bound)
    return np.where(failed, 0, values) * np.int64(10**target.scale), failed


def _double_to_bigint(column: Column, target: DataType) -> Converted:
    values = np.rint(column.values)
    failed = ~((values >= -_BIGINT_END) & (values < _BIGINT_END))
    return np.where(failed, 0.0, values).astype(np.int64), failed


def _double_to_decimal(column: Column, target: DataType) -> Converted:
    values = round_half_away(column.values * 10.0**target.scale)
    bound = 10.0**target.precision
    failed = ~((values > -bound) & (values < bound))
    return np.where(failed, 0.0, values).astype(np.int64), failed


def _decimal_to_bigint(column: Column, target: DataType) -> Converted:
    return scale_down(column.values, column.type.scale), None


def _decimal_to_double(column: Column, target: DataType) -> Converted:
    unit = np.int64(10**column.type.scale)
    values = column.values
    direct = values / float(unit)
    if not (np.abs(values) > EXACT_DOUBLE).any():
        return direct, None
    rest = np.fmod(values, unit)
    split = (values - rest) // unit + rest / float(unit)
    return np.where(np.abs(values) > EXACT_DOUBLE, split, direct), None


def _decimal_to_decimal(column: Column, target: DataType) -> Converted:
    places = target.scale - column.type.scale
    if places <= 0:
        values = scale_down(column.values, -places)
        return values, too_wide(values, target)
    bound = 10 ** (target.precision - places)
    failed = (column.values >= bound) | (column.values <= -bound)
    return np.where(failed, 0, column.values) * np.int64(10**places), failed


def _timestamp_to_date(column: Column, target: DataType) -> Converted:
    return column.values // DAY_MICROS, None


def _date_to_timestamp(column: Column, target: DataType) -> Converted:
    return mul_int64(column.values.astype(np.int64), np.full(len(column), DAY_MICROS))


_NUMERIC: dict[tuple[Kind, Kind], Conversion] = {
    (Kind.BOOLEAN, Kind.BIGINT): _same,
    (Kind.BOOLEAN, Kind.DOUBLE): _same,
    (Kind.BOOLEAN, Kind.DECIMAL): _whole_to_decimal,
    (Kind.BIGINT, Kind.BOOLEAN): _unless_zero,
    (Kind.BIGINT, Kind.DOUBLE): _same,
    (Kind.BIGINT, Kind.DECIMAL): _whole_to_decimal,
    (Kind.DOUBLE, Kind.BOOLEAN): _unless_zero,
    (Kind.DOUBLE, Kind.BIGINT): _double_to_bigint,
    (Kind.DOUBLE, Kind.DECIMAL): _double_to_decimal,
    (Kind.DECIMAL, Kind.BOOLEAN): _unless_zero,
    (Kind.DECIMAL, Kind.BIGINT): _decimal_to_bigint,
    (Kind.DECIMAL, Kind.DOUBLE): _decimal_to_double,
    (Kind.DECIMAL, Kind.DECIMAL): _decimal_to_decimal,
    (Kind.TIMESTAMP, Kind.DATE): _timestamp_to_date,
    (Kind.DATE, Kind.TIMESTAMP): _date_to_timestamp,
    (Kind.TEXT, Kind.BOOLEAN): parse_numbers.to_boolean,
    (Kind.TEXT, Kind.BIGINT): parse_numbers.to_exact,
    (Kind.TEXT, Kind.DECIMAL): parse_numbers.to_exact,
    (Kind.TEXT, Kind.DOUBLE): parse_numbers.to_double,
    (Kind.TEXT, Kind.DATE): parse_times.to_date,
    (Kind.TEXT, Kind.TIMESTAMP): parse_times.to_timestamp,
    **wide.CONVERSIONS,
}


def cast(call: Call, frame: Frame) -> Column:
    """Compute CAST to the call's type."""
    column = frame.column(call.args[0])
    if column.type.kind is Kind.TEXT:
        frame.sizes.borrow(_COPIES * text_bytes(column))
    if call.type.kind is Kind.TEXT:
        frame.sizes.borrow(_WRITTEN * frame.rows)
        return finish_text(formats.WRITERS[column.type.kind](column), [column])
    values, failed = _NUMERIC[column.type.kind, call.type.kind](column, call.type)
    return finish(call.type, values, [column], failed)


def try_cast(call: Call, frame: Frame) -> Column:
    """Compute TRY_CAST. A value that does not convert is NULL, but an error of the argument stays an error."""
    column = frame.column(call.args[0])
    result = cast(call, frame)
    return Column(result.type, result.values, result.valid, result.data, column.error)


def narrow(call: Call, frame: Frame) -> Column:
    """Check a BIGINT against the range of TINYINT, SMALLINT or INTEGER.

    A value outside of the range is an error of its row; for TRY_CAST it is NULL.
    """
    value, bits = call.args
    assert isinstance(bits, Literal)
    column, bound = frame.column(value), 1 << (int(bits.value or 1) - 1)
    failed = (column.values < -bound) | (column.values >= bound)
    result = finish(call.type, column.values, [column], failed)
    if call.name == "narrow":
        return result
    return Column(result.type, result.values, result.valid, None, column.error)


EVALUATORS: dict[str, Evaluator] = {"cast": cast, "try_cast": try_cast, "narrow": narrow, "try_narrow": narrow}
