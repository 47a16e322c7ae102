"""Arithmetic on numbers: exact in int64, an error on overflow of int64 or of a DECIMAL's digits.

BIGINT and DECIMAL (scaled) are computed in wrapping int64, and rows that wrapped are found afterwards, without a loop.
DOUBLE follows IEEE 754: 1/0 is infinite, 0/0 and sqrt(-1) are NaN, as in DuckDB.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.expressions.civil import LAST_DAY
from psoup.expressions.frame import Evaluator, Frame, finish
from psoup.expressions.tree import Call
from psoup.kernels.rows.double_math import power_float64
from psoup.model import DataType, Kind
from psoup.values.columns import Array, Column

LEAST = np.int64(-(2**63))
_DOUBT = 9.2e18
"""Products whose DOUBLE estimate is below this certainly fit int64 (2**63 is 9.223e18)."""


def too_wide(values: Array, data_type: DataType) -> Array | None:
    """Flags of rows whose scaled `values` (int64) have more digits than a DECIMAL. Returns None for other types."""
    if data_type.kind is not Kind.DECIMAL:
        return None
    bound = 10**data_type.precision
    wide: Array = (values >= bound) | (values <= -bound)
    return wide


def _either(first: Array | None, second: Array | None) -> Array | None:
    if first is None or second is None:
        return second if first is None else first
    return first | second


def add_int64(left: Array, right: Array) -> tuple[Array, Array]:
    """The sum modulo 2**64, and flags of overflow."""
    total = left + right
    return total, ((left ^ total) & (right ^ total)) < 0


def sub_int64(left: Array, right: Array) -> tuple[Array, Array]:
    """The difference modulo 2**64, and flags of overflow."""
    total = left - right
    wrapped = left ^ right
    wrapped &= left ^ total
    return total, wrapped < 0


def mul_int64(left: Array, right: Array) -> tuple[Array, Array]:
    """The product modulo 2**64, and flags of overflow."""
    product = left * right
    estimate = left.astype(np.float64) * right.astype(np.float64)
    overflow = np.abs(estimate) > _DOUBT
    rows = np.flatnonzero(overflow)
    if len(rows):
        near = product[rows]
        overflow[rows] = ((near < 0) != (estimate[rows] < 0)) | (near // right[rows] != left[rows])
    return product, overflow


def _arithmetic(exact: Callable[[Array, Array], tuple[Array, Array]], real: np.ufunc) -> Evaluator:
    def evaluator(call: Call, frame: Frame) -> Column:
        columns = frame.columns(call)
        left, right = (c.values for c in columns)
        if call.type.kind is Kind.DOUBLE:
            return finish(call.type, real(left, right), columns)
        if call.type.kind is Kind.DATE:
            return _days(call, columns, exact)
        values, overflow = exact(left.astype(np.int64, copy=False), right.astype(np.int64, copy=False))
        return finish(call.type, values, columns, _either(overflow, too_wide(values, call.type)))

    return evaluator


def _days(call: Call, columns: list[Column], exact: Callable[[Array, Array], tuple[Array, Array]]) -> Column:
    shift = columns[1].values
    days, overflow = exact(columns[0].values.astype(np.int64), shift)
    failed = overflow | (np.abs(days) > LAST_DAY) | (shift > LAST_DAY + 1) | (shift < -LAST_DAY - 2)
    return finish(call.type, np.where(failed, 0, days), columns, failed)


def difference(call: Call, frame: Frame) -> Column:
    """The difference of order keys, clamped to int64 on overflow: its sign still tells which is greater."""
    columns = frame.columns(call)
    left, right = (c.order_keys() for c in columns)
    values, overflow = sub_int64(left, right)
    return finish(call.type, np.where(overflow, np.where(left < right, LEAST, ~LEAST), values), columns)


def divide(call: Call, frame: Frame) -> Column:
    """Compute / of DOUBLEs."""
    columns = frame.columns(call)
    return finish(call.type, columns[0].values / columns[1].values, columns)


def divide_whole(call: Call, frame: Frame) -> Column:
    """Compute //, rounded towards zero. A division by zero is an error. For DOUBLEs it is /, as in DuckDB."""
    columns = frame.columns(call)
    left, right = (c.values for c in columns)
    if call.type.kind is Kind.DOUBLE:
        return finish(call.type, left / right, columns, right == 0)
    failed = (right == 0) | ((left == LEAST) & (right == -1))
    divisor = np.where(failed, 1, right)
    quotient = left // divisor
    quotient += (quotient * divisor != left) & ((left < 0) != (divisor < 0))
    return finish(call.type, quotient, columns, failed)


def remainder(call: Call, frame: Frame) -> Column:
    """Compute % with the sign of the dividend. A division by zero is an error, but NaN for DOUBLEs."""
    columns = frame.columns(call)
    left, right = (c.values for c in columns)
    if call.type.kind is Kind.DOUBLE:
        return finish(call.type, np.fmod(left, right), columns)
    failed = right == 0
    divisor = np.where(failed | (right == -1), 1, right)  # x % -1 is 0, but traps for the least int64
    return finish(call.type, np.fmod(left, divisor), columns, failed)


def negate(call: Call, frame: Frame) -> Column:
    """Compute unary minus."""
    columns = frame.columns(call)
    values = columns[0].values
    return finish(call.type, -values, columns, None if call.type.kind is Kind.DOUBLE else values == LEAST)


def absolute(call: Call, frame: Frame) -> Column:
    """Compute abs."""
    columns = frame.columns(call)
    values = columns[0].values
    return finish(call.type, np.abs(values), columns, None if call.type.kind is Kind.DOUBLE else values == LEAST)


def square_root(call: Call, frame: Frame) -> Column:
    """Compute sqrt, which is NaN below zero."""
    columns = frame.columns(call)
    return finish(call.type, np.sqrt(columns[0].values), columns)


def power(call: Call, frame: Frame) -> Column:
    """Compute power, which is infinite on overflow."""
    columns = frame.columns(call)
    values = np.empty(len(columns[0]), np.float64)
    power_float64(columns[0].values, columns[1].values, values)
    return finish(call.type, values, columns)


EVALUATORS: dict[str, Evaluator] = {
    "add": _arithmetic(add_int64, np.add),
    "sub": _arithmetic(sub_int64, np.subtract),
    "mul": _arithmetic(mul_int64, np.multiply),
    "difference": difference,
    "div": divide,
    "intdiv": divide_whole,
    "mod": remainder,
    "neg": negate,
    "abs": absolute,
    "sqrt": square_root,
    "power": power,
}
