"""Arithmetic, comparisons and casts of sums: exact numbers of up to 38 digits.

    sum(a) + sum(b)     both as integers of the finer scale: int64 if a whole column fits, else Python's
    sum(a) < 0.1e0      exactly, also against a DOUBLE
    sum(a) * sum(b)     a result of more than 38 digits is an error of its row

Only rows of groups have sums, so there are at most a million rows. Few of them need Python's integers.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.frame import Evaluator, Frame, finish, to_large_string
from psoup.expressions.tree import Call, Literal
from psoup.model import BIGINT, EXACT_DOUBLE, MAX_WIDE_PRECISION, DataType, Kind
from psoup.values.columns import Array, Column
from psoup.values.limbs import integers, largest, limbs

Converted = tuple[Array, Array | None]

WIDE = Kind.WIDE
"""The kind under a short name: looking it up in its class takes 90 ns."""
_END = 2**63
_MOST_EXPONENT = 32_767
"""The greatest exponent of ten that is read from a text, as for narrower numbers."""
_MOST_EXACT_TEN = 22
"""The greatest power of ten that is exactly a DOUBLE: 10**22 is one, 10**23 is not."""
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_NUMBER = re.compile(
    rf"[ \t\n\v\f\r]*([+-]?(?:{_DIGITS})?(?:\.(?:{_DIGITS})?)?(?:[eE]([+-]?{_DIGITS}))?)[ \t\n\v\f\r]*"
)


def numbers(column: Column) -> Array:
    """The values of an exact column in units of its last place: int64[n], or Python's integers if they need more."""
    if column.type.kind is Kind.WIDE:
        return integers(column.values)
    return column.values.astype(np.int64, copy=False)


def _apply(operation: Callable[[Any, Any], Array], bound: int, left: Array, right: Any) -> Array:
    """Compute `operation` in int64 if `bound` shows that no step overflows, else on Python's integers."""
    narrow = left.dtype != object and not (isinstance(right, np.ndarray) and right.dtype == object) and bound < _END
    return operation(left, right) if narrow else operation(left.astype(object), right)


def _scaled(values: Array, places: int) -> Array:
    """The values times 10**places."""
    if not places:
        return values
    unit = 10**places
    return _apply(lambda value, by: value * by, max(largest(values), 1) * unit, values, unit)


def _aligned(columns: list[Column]) -> tuple[Array, Array]:
    """The values of two exact columns, both at the finer of their scales."""
    scale = max(column.type.scale for column in columns)
    left, right = (_scaled(numbers(column), scale - column.type.scale) for column in columns)
    return left, right


def _divided(values: Array, unit: int, rounding: str) -> Array:
    """The values divided by the positive number `unit`.

    `rounding`: `floor`, `ceil`, `trunc`, or `round` with halves away from zero.
    """
    if largest(values) + unit >= _END:
        values = values.astype(object)
    if rounding == "floor":
        return values // unit
    if rounding == "ceil":
        return -(-values // unit)
    size = (np.abs(values) + (unit // 2 if rounding == "round" else 0)) // unit
    return np.where(values < 0, -size, size)


def _result(call: Call, values: Array, columns: list[Column], failed: Array | None = None) -> Column:
    """The values as a column of the call's type. A row with too many digits is an error, and so is a row in
    `failed`.
    """
    made, wide = _stored(values, call.type)
    return finish(call.type, made, columns, wide if failed is None else wide | failed)


def _stored(values: Array, target: DataType) -> tuple[Array, Array]:
    """Exact values in units of the last place of `target`, in its storage form, and flags of values that do not fit."""
    lowest, beyond = (-_END, _END) if target.kind is Kind.BIGINT else (1 - 10**target.precision, 10**target.precision)
    if values.dtype != object and lowest <= -_END and beyond >= _END:
        wide: Array = np.zeros(len(values), np.bool_)
    else:
        wide = (values < lowest) | (values >= beyond)
        values = np.where(wide, 0, values)
    return limbs(values) if target.kind is Kind.WIDE else values.astype(np.int64), wide


# Arithmetic ------------------------------------------------------------------------------------------------


def add(call: Call, frame: Frame) -> Column:
    """Compute + of exact numbers."""
    columns = frame.columns(call)
    left, right = _aligned(columns)
    return _result(call, _apply(lambda a, b: a + b, largest(left) + largest(right), left, right), columns)


def subtract(call: Call, frame: Frame) -> Column:
    """Compute - of exact numbers."""
    columns = frame.columns(call)
    left, right = _aligned(columns)
    return _result(call, _apply(lambda a, b: a - b, largest(left) + largest(right), left, right), columns)


def multiply(call: Call, frame: Frame) -> Column:
    """Compute * of exact numbers. The scale of the result is the sum of the scales."""
    columns = frame.columns(call)
    left, right = map(numbers, columns)
    return _result(call, _apply(lambda a, b: a * b, largest(left) * largest(right), left, right), columns)


def _whole_parts(call: Call, frame: Frame) -> tuple[list[Column], Array, Array, Array]:
    """The arguments, their values at one scale, and flags of rows whose divisor is 0. Such a divisor is
    returned as 1.
    """
    columns = frame.columns(call)
    left, right = _aligned(columns)
    failed: Array = right == 0
    if max(largest(left), largest(right)) >= _END:  # the magnitude of the least int64 is no int64
        left, right = left.astype(object), right.astype(object)
    return columns, left, np.where(failed, 1, right), failed


def divide_whole(call: Call, frame: Frame) -> Column:
    """Compute //, rounded towards zero. A division by zero is an error."""
    columns, left, right, failed = _whole_parts(call, frame)
    size = np.abs(left) // np.abs(right)
    return _result(call, np.where((left < 0) != (right < 0), -size, size), columns, failed)


def remainder(call: Call, frame: Frame) -> Column:
    """Compute % with the sign of the dividend. A division by zero is an error."""
    columns, left, right, failed = _whole_parts(call, frame)
    size = np.abs(left) % np.abs(right)
    return _result(call, np.where(left < 0, -size, size), columns, failed)


def negate(call: Call, frame: Frame) -> Column:
    """Compute unary minus."""
    columns = frame.columns(call)
    values = numbers(columns[0])
    return _result(call, _apply(lambda a, b: b - a, largest(values), values, 0), columns)


def absolute(call: Call, frame: Frame) -> Column:
    """Compute abs."""
    columns = frame.columns(call)
    values = numbers(columns[0])
    return _result(call, np.abs(values if largest(values) < _END else values.astype(object)), columns)


def sign(call: Call, frame: Frame) -> Column:
    """Compute sign: -1, 0 or 1."""
    columns = frame.columns(call)
    values = numbers(columns[0])
    return finish(BIGINT, (values > 0).astype(np.int64) - (values < 0), columns)


def _rounding(rounding: str) -> Evaluator:
    """The evaluator of round, floor, ceil or trunc; the second argument of round is the number of places to keep."""

    def evaluator(call: Call, frame: Frame) -> Column:
        column, digits = frame.column(call.args[0]), 0
        if len(call.args) == 2:
            assert isinstance(call.args[1], Literal)
            digits = int(call.args[1].value or 0)
        places = min(column.type.scale - digits, 2 * column.type.precision)
        values = numbers(column)
        if places > 0:
            values = _scaled(_divided(values, 10**places, rounding), min(max(-digits, 0), 2 * column.type.precision))
        return _result(call, values, [column])

    return evaluator


# Comparisons -----------------------------------------------------------------------------------------------


def ordered(order: Callable[[Any, Any], Array], left: Column, right: Column) -> Array:
    """Compare two number columns row by row with `order` (np.less, ...). At least one of them is WIDE."""
    if right.type.kind is Kind.DOUBLE:
        return order(_against_double(left, right.values), 0)
    if left.type.kind is Kind.DOUBLE:
        return order(0, _against_double(right, left.values))
    return order(*_aligned([left, right])).astype(np.bool_)


def _against_double(exact: Column, real: Array) -> Array:
    """The sign (-1, 0, 1) of comparing exact numbers with float64; NaN is greatest.

    Rounding keeps the order. So the exact values are compared only in rows where the nearest DOUBLE equals the other
    number.
    """
    near, values, unit = to_double(exact), numbers(exact), 10**exact.type.scale
    signs = (near > real).astype(np.int8) - (near < real)
    signs[np.isnan(real)] = -1
    if largest(values) <= EXACT_DOUBLE and unit == 1:
        return signs
    for row in np.flatnonzero((signs == 0) & np.isfinite(real)).tolist():
        value, double = Fraction(int(values[row]), unit), Fraction(float(real[row]))
        signs[row] = (value > double) - (value < double)
    return signs


# Casts -----------------------------------------------------------------------------------------------------


def to_double(column: Column) -> Array:
    """The DOUBLE nearest to each number."""
    values, scale = numbers(column), column.type.scale
    if largest(values) <= EXACT_DOUBLE and scale <= _MOST_EXACT_TEN:
        return values.astype(np.float64) / 10.0**scale
    return (values.astype(object) / 10**scale).astype(np.float64)


def _double(column: Column, target: DataType) -> Converted:
    return to_double(column), None


def _boolean(column: Column, target: DataType) -> Converted:
    return (numbers(column) != 0).astype(np.bool_), None


def _exact(column: Column, target: DataType) -> Converted:
    """The exact numbers at another scale, rounded with halves away from zero."""
    places, values = target.scale - column.type.scale, numbers(column)
    return _stored(_scaled(values, places) if places >= 0 else _divided(values, 10**-places, "round"), target)


def _from_double(column: Column, target: DataType) -> Converted:
    """The whole number nearest to the DOUBLE times 10**scale, halves away from zero, as in DuckDB."""
    scaled = column.values * 10.0**target.scale
    failed = ~(np.abs(scaled) < 10.0**target.precision)
    size = np.floor(np.where(failed, 0.0, np.abs(scaled)) + 0.5)
    values = np.array([int(value) for value in np.copysign(size, scaled).tolist()], object)
    made, wide = _stored(values.reshape(len(column)), target)
    return made, failed | wide


def _from_text(column: Column, target: DataType) -> Converted:
    """The numbers that texts spell, rounded with halves away from zero."""
    read = [_number(text, target.scale) for text in to_large_string(column).to_pylist()]
    values: Array = np.array([0 if number is None else number for number in read], object).reshape(len(read))
    made, wide = _stored(values, target)
    return made, wide | np.array([number is None for number in read], np.bool_).reshape(len(read))


def _number(text: str | None, scale: int) -> int | None:
    """A number in units of its last place. Returns None if the text is not a number, or is much too large."""
    if text is None:
        return 0
    written = _NUMBER.fullmatch(text)
    exact = decimal.Context(prec=len(text) + 99)
    try:
        value = decimal.Decimal(written[1] if written else "")
        if value.adjusted() > MAX_WIDE_PRECISION or (written and _is_beyond(written[2] or "0")):
            return None
        return int(value.scaleb(scale, exact).to_integral_value(decimal.ROUND_HALF_UP, exact))
    except decimal.InvalidOperation:
        return None


def _is_beyond(exponent: str) -> bool:
    """Whether an exponent is greater than the greatest one that is parsed."""
    digits = exponent.replace("_", "").lstrip("+-0") or "0"
    return len(digits) > 9 or int(digits) > _MOST_EXPONENT


def text_of(column: Column) -> pa.Array:
    """The numbers as texts with all their places, as DuckDB writes a DECIMAL of 38 digits."""
    scale, values = column.type.scale, numbers(column)
    size = np.abs(values if largest(values) < _END else values.astype(object))
    digits = pa.array(list(map(str, size.tolist())), pa.large_string())
    nothing = pa.scalar("", pa.large_string())
    if scale:
        digits = pc.utf8_lpad(digits, width=scale + (column.type.precision > scale), padding="0")
        whole = pc.utf8_slice_codeunits(digits, 0, -scale)
        part = pc.utf8_slice_codeunits(digits, -scale)
        digits = pc.binary_join_element_wise(whole, part, pa.scalar(".", pa.large_string()))
    minus = pc.if_else(pa.array(np.asarray(values < 0, np.bool_)), pa.scalar("-", pa.large_string()), nothing)
    return pc.binary_join_element_wise(minus, digits, nothing)


_EXACT = (Kind.BOOLEAN, Kind.BIGINT, Kind.DECIMAL, Kind.WIDE)

CONVERSIONS: dict[tuple[Kind, Kind], Callable[[Column, DataType], Converted]] = {
    **{(kind, Kind.WIDE): _exact for kind in _EXACT},
    (Kind.DOUBLE, Kind.WIDE): _from_double,
    (Kind.TEXT, Kind.WIDE): _from_text,
    (Kind.WIDE, Kind.BOOLEAN): _boolean,
    (Kind.WIDE, Kind.BIGINT): _exact,
    (Kind.WIDE, Kind.DECIMAL): _exact,
    (Kind.WIDE, Kind.DOUBLE): _double,
}
"""The casts to and from wide numbers; `text_of` makes their texts."""

EVALUATORS: dict[str, Evaluator] = {
    "add": add,
    "sub": subtract,
    "mul": multiply,
    "intdiv": divide_whole,
    "mod": remainder,
    "neg": negate,
    "abs": absolute,
    "sign": sign,
    **{name: _rounding(name) for name in ("round", "floor", "ceil", "trunc")},
}
"""The functions that compute with wide numbers, without a conversion."""


def over(narrow: dict[str, Evaluator]) -> dict[str, Evaluator]:
    """The evaluators of `narrow`, extended to take wide numbers too."""
    return {name: _either(narrow[name], wide) for name, wide in EVALUATORS.items()}


def _either(narrow: Evaluator, wide: Evaluator) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        args = call.args  # one or two
        widest = args[0].type.kind is WIDE or args[-1].type.kind is WIDE
        return (wide if widest else narrow)(call, frame)

    return evaluator
