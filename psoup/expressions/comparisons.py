"""The six comparisons and IN. BIGINT, DECIMAL and DOUBLE are compared exactly with each other.

    a DECIMAL(4,1) < b DECIMAL(6,3)       10.5 | 10.500        the finer side is split into whole units of the coarser
                                          105  | 105, rest 0   and a rest, so nothing is scaled up and overflows

NaN equals itself and is greatest; -0.0 equals 0.0; text is ordered by its UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.frame import Evaluator, Frame, booleans, finish
from psoup.expressions.numbers import wide
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BOOLEAN, Kind
from psoup.values.columns import Array, Column, float_keys

Order = Callable[[Any, Any], Array]

_ORDERS: dict[str, Order] = {
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
_TEXT_ORDERS = {
    "eq": pc.equal,
    "ne": pc.not_equal,
    "lt": pc.less,
    "le": pc.less_equal,
    "gt": pc.greater,
    "ge": pc.greater_equal,
}
_LIMIT = 2.0**63


def compare(call: Call, frame: Frame) -> Column:
    """Compute left RELOP right."""
    left, right = call.args
    if left.type.kind is Kind.TEXT:
        columns = [frame.column(arg) for arg in call.args if not isinstance(arg, Literal)]
        outcome = _TEXT_ORDERS[call.name](frame.text(left), frame.text(right))
        return _text_result(outcome, call, columns, frame)
    columns = frame.columns(call)
    return finish(BOOLEAN, ordered(_ORDERS[call.name], *columns), columns)


def _text_result(outcome: pa.Array | pa.Scalar, call: Call, columns: list[Column], frame: Frame) -> Column:
    if isinstance(outcome, pa.Scalar):  # two constants
        return frame.column(Literal(BOOLEAN, outcome.as_py()))
    if any(isinstance(arg, Literal) and arg.value is None for arg in call.args):
        columns = [*columns, frame.column(Literal(BOOLEAN, None))]
    return finish(BOOLEAN, booleans(outcome), columns)


def ordered(order: Order, left: Column, right: Column) -> Array:
    """Compare two compatible columns row by row with `order` (np.less, ...)."""
    kinds = (left.type.kind, right.type.kind)
    if kinds == (Kind.DOUBLE, Kind.DOUBLE):
        if np.isnan(left.values).any() or np.isnan(right.values).any():
            return order(float_keys(left.values), float_keys(right.values))
        return order(left.values, right.values)
    if kinds == (Kind.BIGINT, Kind.DOUBLE):
        return order(_against_double(left.values, right.values), 0)
    if kinds == (Kind.DOUBLE, Kind.BIGINT):
        return order(0, _against_double(right.values, left.values))
    if wide.WIDE in kinds:
        return wide.ordered(order, left, right)
    if left.type.scale == right.type.scale:
        return order(left.values, right.values)
    if left.type.scale < right.type.scale:
        return order(_against_finer(left.values, right.values, right.type.scale - left.type.scale), 0)
    return order(0, _against_finer(right.values, left.values, left.type.scale - right.type.scale))


def _sign(left: Array, right: Array) -> Array:
    return (left > right).astype(np.int8) - (left < right)


def _against_finer(coarse: Array, fine: Array, places: int) -> Array:
    """The sign (-1, 0, 1) of comparing `coarse` with `fine`, which has 10**places units for one of `coarse`."""
    unit = np.int64(10**places)
    units = fine // unit
    sign = _sign(coarse, units)
    return np.where((sign == 0) & (fine != units * unit), -1, sign)


def _against_double(whole: Array, real: Array) -> Array:
    """The sign (-1, 0, 1) of comparing int64 with float64, exactly; NaN is greatest."""
    floor = np.floor(real)
    above = ~(real < _LIMIT)  # also NaN
    below = real < -_LIMIT
    units = np.where(above | below, 0.0, floor).astype(np.int64)
    sign = _sign(whole, units)
    sign = np.where((sign == 0) & (real != floor), -1, sign)
    return np.where(above, -1, np.where(below, 1, sign))


def is_distinct(call: Call, frame: Frame) -> Column:
    """Whether two values differ, with NULL as an ordinary value."""
    equal, nulls = compare(Call(BOOLEAN, "eq", call.args), frame), np.zeros((2, frame.rows), np.bool_)
    for side, arg in enumerate(call.args):
        column = frame.column(arg)
        if column.valid is not None:
            nulls[side] = ~column.valid
    one_null, both_null = nulls[0] ^ nulls[1], nulls[0] & nulls[1]
    distinct = one_null | ~(equal.values | both_null)
    if equal.error is None or not equal.error.any():
        return Column(BOOLEAN, distinct)
    return Column(BOOLEAN, distinct & ~equal.error, ~equal.error, None, equal.error)


def membership(call: Call, frame: Frame) -> Column:
    """Compute x IN (items): TRUE on a match, else UNKNOWN if x or an item is NULL, else FALSE.

    Constant items of the type of x cost O(log items) for each row; other items are compared one by one.
    """
    subject, items = call.args[0], call.args[1:]
    column = frame.column(subject)
    keyed = subject.type if subject.type.kind is not Kind.WIDE else None
    quick = [item for item in items if isinstance(item, Literal) and item.type == keyed]
    slow = [item for item in items if not (isinstance(item, Literal) and item.type == keyed)]
    matched = _in_constants(column, [item for item in quick if item.value is not None])
    unknown = np.zeros(frame.rows, np.bool_)
    if len(quick) > sum(item.value is not None for item in quick):
        unknown[:] = True
    others: list[Column] = []
    for item in slow:
        match = compare(Call(BOOLEAN, "eq", (subject, item)), frame)
        others.append(match)
        matched = matched | match.values
        if match.valid is not None:
            unknown |= ~match.valid
    return _membership_result(column, others, matched, unknown)


def _membership_result(column: Column, others: list[Column], matched: Array, unknown: Array) -> Column:
    if column.valid is not None:
        unknown = unknown | ~column.valid
        matched = matched & column.valid
    valid = matched | ~unknown
    error = None
    for source in [column, *others]:
        if source.error is not None:
            error = source.error if error is None else error | source.error
    if error is not None:
        error = error & ~valid
    return Column(BOOLEAN, matched, None if valid.all() else valid, None, error)


def _in_constants(column: Column, items: list[Literal]) -> Array:
    if not items:
        return np.zeros(len(column), np.bool_)
    if column.type.kind is Kind.TEXT:
        from psoup.expressions.frame import to_large_string

        values = pa.array([item.value for item in items], pa.large_string())
        return booleans(pc.is_in(to_large_string(column), value_set=values))
    if column.type.kind is Kind.DOUBLE:
        return np.isin(float_keys(column.values), float_keys(np.array([item.value for item in items], np.float64)))
    return np.isin(column.values, np.array([item.value for item in items], column.values.dtype))


def _evaluators() -> dict[str, Evaluator]:
    return {**dict.fromkeys(_ORDERS, compare), "is_distinct": is_distinct, "in": membership}


EVALUATORS: dict[str, Evaluator] = _evaluators()
__all__ = ["EVALUATORS", "Expr", "compare", "ordered"]
