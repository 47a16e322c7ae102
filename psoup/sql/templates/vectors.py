"""A template's WHERE for many rows of values at once: columns of values to columns of intervals, without a loop.

    sym = ? AND qty BETWEEN ? AND 9        sym   [ "a"  "b"  NULL ]  ->  [a, a]  [b, b]   never
                                           qty   [  3    12    5  ]  ->  [3, 9]   never   never

The intervals are closed here: integer keys have a next one, and a text is followed by itself with a zero byte. What is
computed is what `conjuncts` computes for each row; forms and types that it would take another way for are left to it.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.columns import Array, float_keys
from psoup.errors import InvalidInput
from psoup.expressions.tree import Expr, Literal
from psoup.model import DataType, Kind
from psoup.plan.factors import Interval
from psoup.plan.many import ClauseColumns, Edges, TermColumn
from psoup.sql.templates.conjuncts import AttributeConditions, Conjuncts, Slow, compared_with
from psoup.sql.where.intervals import ends

Comparison = tuple[str, int]
"""`eq`, `lt`, `le`, `gt` or `ge`, and the number of a hole."""

_EXACT_DOUBLE = 2**53
_DIGITS = 17
"""Digits of a DECIMAL column of which each value surely has no more than 18 when it is written."""
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000_000, 253_402_300_799_999_999
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY, _LAST_DAY = datetime.date.min.toordinal() - _EPOCH, datetime.date.max.toordinal() - _EPOCH


@dataclass(frozen=True, slots=True)
class VectorGroup:
    """What WHERE says about one attribute: comparisons with holes, and for int64 keys the bounds without them."""

    attribute: Expr
    comparisons: tuple[Comparison, ...]
    low: int
    top: int


def vector_groups(ready: Conjuncts | None) -> tuple[VectorGroup, ...] | None:
    """The groups of a WHERE in the form that is computed here; None if one of them has another."""
    if ready is None or ready.finished is None:
        return None
    groups = [_group(group) for group in ready.groups]
    found = tuple(group for group in groups if group is not None)
    return found if len(found) == len(groups) else None


def _group(group: AttributeConditions) -> VectorGroup | None:
    comparisons: list[Comparison] = []
    fixed = [] if group.rest is None else [group.rest]
    for condition in group.conditions:
        operators = ("ge", "le") if condition.operator == "between" else (condition.operator,)
        if operators[0] in ("in", "ne"):
            return None
        for operator, operand in zip(operators, condition.operands, strict=True):
            if not isinstance(operand, Literal):
                comparisons.append((operator, operand))
                continue
            try:
                fixed.append(compared_with(group.attribute.type, operator, operand))
            except (Slow, InvalidInput):
                return None
    if group.attribute.type.kind is Kind.TEXT:
        lows = sum(operator in ("eq", "ge", "gt") for operator, _ in comparisons)
        highs = sum(operator in ("eq", "le", "lt") for operator, _ in comparisons)
        return None if fixed or lows > 1 or highs > 1 else VectorGroup(group.attribute, tuple(comparisons), 0, 0)
    if any(len(intervals) != 1 for intervals in fixed):
        return None
    low, top = _closed(group.attribute.type, [intervals[0] for intervals in fixed])
    return VectorGroup(group.attribute, tuple(comparisons), low, top) if low <= top else None


def _closed(kind: DataType, intervals: Sequence[Interval]) -> tuple[int, int]:
    """The least and the greatest int64 key in all of some intervals."""
    first, beyond = ends(kind)
    assert isinstance(first, int) and isinstance(beyond, int)
    low = max([first, *(int(i.low) for i in intervals if i.low is not None)])
    high = min([beyond, *(int(i.high) for i in intervals if i.high is not None)])
    return low, high - 1


# Values ----------------------------------------------------------------------------------------------------


def fits(kind: DataType, expected: DataType | None, column: pa.Array) -> bool:
    """Whether the values are constants that an attribute of type `kind` is compared with here. O(n).

    `expected`: see `parameters.literal_of`. Where it does not, each value is looked at by itself, and refused if wrong.
    """
    if expected is None or expected.kind is not kind.kind:
        return False
    t, given = pa.types, column.type
    if t.is_string(given):
        return kind.kind is Kind.TEXT and b"\0" not in _bytes_of(column)
    if t.is_int64(given):
        if kind.kind is Kind.DOUBLE:
            return _within(column, -_EXACT_DOUBLE, _EXACT_DOUBLE)
        greatest = (2**63 - 1) // 10**kind.scale
        return kind.kind is Kind.BIGINT or (kind.kind is Kind.DECIMAL and _within(column, -greatest, greatest))
    if t.is_decimal(given):
        return kind.kind is Kind.DECIMAL and 0 <= given.scale <= kind.scale and _decimals_fit(kind, column)
    if t.is_timestamp(given):
        return kind.kind is Kind.TIMESTAMP and _within(column.view(pa.int64()), _FIRST_TIME, _LAST_TIME)
    if t.is_date32(given):
        return kind.kind is Kind.DATE and _within(column.view(pa.int32()), _FIRST_DAY, _LAST_DAY)
    return bool(t.is_float64(given)) and kind.kind is Kind.DOUBLE


def _bytes_of(column: pa.StringArray) -> bytes:
    offsets, data = column.buffers()[1:]
    if data is None or not len(column):
        return b""
    first, last = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)[[0, -1]].tolist()
    return bytes(memoryview(data)[first:last])


def _within(column: pa.Array, least: int, greatest: int) -> bool:
    found = pc.min_max(column).as_py()
    return found["min"] is None or (found["min"] >= least and found["max"] <= greatest)


def _decimals_fit(kind: DataType, column: pa.Array) -> bool:
    if max(column.type.precision, column.type.scale + 1) > _DIGITS:
        return False
    greatest = (2**63 - 1) // 10 ** (kind.scale - column.type.scale)
    return _within(_unscaled(column), -greatest, greatest)


def _unscaled(column: pa.Array) -> pa.Array:
    """The digits of a DECIMAL column as int64; they fit."""
    wide = column.cast(pa.decimal128(38, column.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]
    return pa.array(np.ascontiguousarray(words), mask=_nulls(column))


def _nulls(column: pa.Array) -> Array:
    found: Array = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _keys(kind: DataType, column: pa.Array) -> Array:
    """int64[n], the keys of values that fit, arbitrary where NULL."""
    t, given = pa.types, column.type
    scale = kind.scale
    if t.is_decimal(given):
        column, scale = _unscaled(column), scale - given.scale
    elif t.is_timestamp(given):
        column = column.view(pa.int64())
    elif t.is_date32(given):
        column = column.view(pa.int32()).cast(pa.int64())
    values: Array = column.fill_null(0).to_numpy()
    if kind.kind is Kind.DOUBLE:
        return float_keys(values.astype(np.float64))
    return values * np.int64(10**scale) if scale else values


# Intervals -------------------------------------------------------------------------------------------------


def clause_columns(
    groups: Sequence[VectorGroup], ready: Conjuncts, columns: Sequence[pa.Array], holes: Sequence[int]
) -> ClauseColumns:
    """The clauses of the rows of `columns`, one for each parameter, which fit. `holes`: the parameter of each. O(n)."""
    never = np.zeros(len(columns[0]), np.bool_)
    terms = []
    for group in groups:
        own = [(operator, columns[holes[hole]]) for operator, hole in group.comparisons]
        for _, column in own:
            if column.null_count:
                never |= _nulls(column)
        terms.append(_text_term(group, own, never) if group.attribute.type.kind is Kind.TEXT
                     else _term(group, own, never))  # fmt: skip
    fixed = tuple(factor for _, factor in ready.finished or ())
    return ClauseColumns(len(never), tuple(terms), fixed, never if never.any() else None)


def _term(group: VectorGroup, comparisons: Sequence[tuple[str, pa.Array]], never: Array) -> TermColumn:
    """`never` is written where no key is left."""
    kind = group.attribute.type
    first, last = _closed(kind, ())
    low, top = np.full(len(never), group.low, np.int64), np.full(len(never), group.top, np.int64)
    for operator, column in comparisons:
        keys = _keys(kind, column)
        if operator == "gt":
            never |= keys == last
            keys = keys + (keys != last)
        elif operator == "lt":
            never |= keys == first
            keys = keys - (keys != first)
        if operator in ("eq", "ge", "gt"):
            low = np.maximum(low, keys)
        if operator in ("eq", "le", "lt"):
            top = np.minimum(top, keys)
    never |= low > top
    return TermColumn(group.attribute, Edges(low, False, low == first), Edges(top, True, top == last))


def _text_term(group: VectorGroup, comparisons: Sequence[tuple[str, pa.Array]], never: Array) -> TermColumn:
    """At most one comparison gives the low end, at most one the high one. `never` is written."""
    low = high = None
    for operator, column in comparisons:
        keys = column.cast(pa.large_string()).view(pa.large_binary()).fill_null(b"")
        empty: Array = pc.equal(pc.binary_length(keys), 0).to_numpy(zero_copy_only=False)
        nowhere = np.zeros(len(keys), np.bool_)
        if operator in ("eq", "ge", "gt"):  # no text is below ''
            low = Edges(keys, operator == "gt", nowhere if operator == "gt" else empty)
        if operator in ("eq", "le", "lt"):
            high = Edges(keys, operator != "lt", nowhere)
        if operator == "lt":
            never |= empty
    if low is not None and high is not None and low.keys is not high.keys:
        crossed = pc.greater if high.past and not low.past else pc.greater_equal
        never |= crossed(low.keys, high.keys).to_numpy(zero_copy_only=False)
    return TermColumn(group.attribute, low, high)
