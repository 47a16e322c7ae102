"""Mathematical functions of DOUBLEs, with the bits of libm on every processor; functions of whole numbers.

ln(0) is -inf, asin(2) NaN, exp(1000) inf, as in DuckDB        1 << 63, lcm of large ones: errors of their rows
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.expressions.frame import Evaluator, Frame, finish
from psoup.expressions.numbers.numeric import mul_int64
from psoup.expressions.tree import Call
from psoup.kernels.rows.arithmetic import signs
from psoup.kernels.rows.double_math import atan2_float64, math_float64
from psoup.model import BIGINT, BOOLEAN, Kind
from psoup.values.columns import Array, Column

REAL = (
    *("exp", "ln", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan"),
    *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "cbrt"),
)
"""The functions of one DOUBLE. The position of a name is the number of the function in the kernel `math_float64`."""
_BITS = 63


def _real(which: int) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        values = np.empty(frame.rows, np.float64)
        math_float64(which, columns[0].values, values)
        return finish(call.type, values, columns)

    return evaluator


def arc_tangent(call: Call, frame: Frame) -> Column:
    """Compute atan2(y, x)."""
    columns = frame.columns(call)
    values = np.empty(frame.rows, np.float64)
    atan2_float64(columns[0].values, columns[1].values, values)
    return finish(call.type, values, columns)


def _test(test: Callable[[Array], Array]) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        return finish(BOOLEAN, test(columns[0].values), columns)

    return evaluator


def sign(call: Call, frame: Frame) -> Column:
    """Compute sign: -1, 0 or 1. The sign of NaN is 0."""
    columns = frame.columns(call)
    values = np.empty(frame.rows, np.int64)
    signs(columns[0].values, values)
    return finish(BIGINT, values, columns)


def truncate(call: Call, frame: Frame) -> Column:
    """Compute trunc, which rounds towards zero."""
    columns = frame.columns(call)
    values = columns[0].values
    if call.type.kind is Kind.DECIMAL:
        unit = np.int64(10 ** columns[0].type.scale)
        return finish(call.type, (values - np.fmod(values, unit)) // unit, columns)
    return finish(call.type, np.trunc(values) if call.type.kind is Kind.DOUBLE else values, columns)


def _magnitudes(columns: list[Column]) -> list[Array]:
    """The absolute values, uint64[n]. The absolute value of the least BIGINT does not fit int64."""
    return [np.where(c.values < 0, np.negative(c.values), c.values).view(np.uint64) for c in columns]


def greatest_divisor(call: Call, frame: Frame) -> Column:
    """Compute gcd, which is never negative. A result of 2**63, which no BIGINT holds, is an error."""
    columns = frame.columns(call)
    values: Array = np.gcd(*_magnitudes(columns)).view(np.int64)
    return finish(BIGINT, values, columns, values < 0)


def least_multiple(call: Call, frame: Frame) -> Column:
    """Compute lcm, which is never negative. The result is 0 if an argument is 0."""
    columns = frame.columns(call)
    left, right = _magnitudes(columns)
    some = (left > 0) & (right > 0)
    units = (left // np.maximum(np.gcd(left, right), 1)).view(np.int64)
    rest = right.view(np.int64)
    far = (units < 0) | (rest < 0)
    values, overflow = mul_int64(np.where(far | ~some, 0, units), np.where(far, 0, rest))
    return finish(BIGINT, values, columns, some & (far | overflow))


def _bitwise(operation: np.ufunc) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        return finish(BIGINT, operation(*(column.values for column in columns)), columns)

    return evaluator


def shift_left(call: Call, frame: Frame) -> Column:
    """Compute x << n. A negative x or n is an error, and so is a shift that loses bits."""
    columns = frame.columns(call)
    values, places = (column.values for column in columns)
    if min(values.min(initial=0), places.min(initial=0)) >= 0 and places.max(initial=0) <= _BITS:
        shifted = values << places
        return finish(BIGINT, shifted, columns, (shifted >> places) != values)
    shift = np.clip(places, 0, _BITS)
    fits = values <= (np.int64(2**63 - 1) >> shift)
    failed = (values < 0) | (places < 0) | ((places > _BITS) & (values != 0)) | ~fits
    return finish(BIGINT, np.where(failed, 0, values) << shift, columns, failed)


def shift_right(call: Call, frame: Frame) -> Column:
    """Compute x >> n. The result is 0 unless n is from 0 to 63."""
    columns = frame.columns(call)
    values, places = (column.values for column in columns)
    shifted = values >> np.clip(places, 0, _BITS)
    return finish(BIGINT, np.where((places < 0) | (places > _BITS), 0, shifted), columns)


EVALUATORS: dict[str, Evaluator] = {
    **{name: _real(which) for which, name in enumerate(REAL)},
    "atan2": arc_tangent,
    "isnan": _test(np.isnan),
    "isinf": _test(np.isinf),
    "isfinite": _test(np.isfinite),
    "sign": sign,
    "trunc": truncate,
    "gcd": greatest_divisor,
    "lcm": least_multiple,
    "xor": _bitwise(np.bitwise_xor),
    "bits_and": _bitwise(np.bitwise_and),
    "bits_or": _bitwise(np.bitwise_or),
    "bits_not": _bitwise(np.invert),
    "shift_left": shift_left,
    "shift_right": shift_right,
}
