"""The WHERE of a template for many rows of values: columns of values become columns of intervals, without a loop.

    sym = ? AND qty BETWEEN ? AND 9        sym   [ "a"  "b"  NULL ]  ->  [a, a]  [b, b]   never
                                           qty   [  3    12    5  ]  ->  [3, 9]   never   never

The result equals the result of `conjuncts` for each row. This module returns None for forms and types that it cannot
compute, and the caller binds row by row. `comparisons` has the comparisons, for one constant and for columns.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidInput
from psoup.expressions.tree import Expr, Literal
from psoup.model import EPOCH, EXACT_DOUBLE, DataType, Kind
from psoup.plan.standing_query import ClauseColumns
from psoup.sql.templates.comparisons import Slow, closed_ends, compared_with, int_term, nulls, text_term, unscaled
from psoup.sql.templates.conjuncts import AttributeConditions, Conjuncts
from psoup.sql.where.intervals import ENDS

Comparison = tuple[str, int]
"""A comparison with a hole: the operator (`eq`, `lt`, `le`, `gt` or `ge`), and the number of the hole."""

_DIGITS = 17
"""The most digits of a DECIMAL column whose values all have at most 18 digits in a statement."""
_FIRST_TIME = -62_135_596_800_000_000
"""The first TIMESTAMP: the year 1."""
_LAST_TIME = 253_402_300_799_999_999
"""The last TIMESTAMP: the end of the year 9999."""
_FIRST_DAY = datetime.date.min.toordinal() - EPOCH.toordinal()
"""The first DATE."""
_LAST_DAY = datetime.date.max.toordinal() - EPOCH.toordinal()
"""The last DATE."""


@dataclass(frozen=True, slots=True)
class VectorGroup:
    """The part of WHERE about one attribute: the comparisons with holes.

    `low`, `top`: for int64 keys, the bounds that the conditions without holes set.
    """

    attribute: Expr
    comparisons: tuple[Comparison, ...]
    low: int
    top: int


def vector_groups(ready: Conjuncts | None) -> tuple[VectorGroup, ...] | None:
    """The groups of a WHERE. None if this module cannot compute one of them."""
    if ready is None or ready.finished is None or ready.patterns:
        return None
    groups = [_group(group) for group in ready.groups]
    complete = tuple(group for group in groups if group is not None)
    return complete if len(complete) == len(groups) else None


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
        lows, highs = (sum(ENDS[operator][side] is not None for operator, _ in comparisons) for side in (0, 1))
        return None if fixed or lows > 1 or highs > 1 else VectorGroup(group.attribute, tuple(comparisons), 0, 0)
    if any(len(intervals) != 1 for intervals in fixed):
        return None
    low, top = closed_ends(group.attribute.type)
    for (interval,) in fixed:
        low = low if interval.low is None else max(low, int(interval.low))
        top = top if interval.high is None else min(top, int(interval.high) - 1)
    return VectorGroup(group.attribute, tuple(comparisons), low, top) if low <= top else None


# Values ----------------------------------------------------------------------------------------------------


def fits(kind: DataType, expected: DataType | None, column: pa.Array) -> bool:
    """Whether this module can compare all values of a column with an attribute of type `kind`. O(n).

    `expected`: as for `holes.literal_of`. If the result is False, the caller binds each value by itself, and refuses
    wrong values.
    """
    if expected is None or expected.kind is not kind.kind:
        return False
    t, source = pa.types, column.type
    if t.is_string(source):
        return kind.kind is Kind.TEXT and b"\0" not in _bytes_of(column)
    if t.is_int64(source):
        if kind.kind is Kind.DOUBLE:
            return _within(column, -EXACT_DOUBLE, EXACT_DOUBLE)
        greatest = (2**63 - 1) // 10**kind.scale
        return kind.kind is Kind.BIGINT or (kind.kind is Kind.DECIMAL and _within(column, -greatest, greatest))
    if t.is_decimal(source):
        return kind.kind is Kind.DECIMAL and 0 <= source.scale <= kind.scale and _decimals_fit(kind, column)
    if t.is_timestamp(source):
        return kind.kind is Kind.TIMESTAMP and _within(column.view(pa.int64()), _FIRST_TIME, _LAST_TIME)
    if t.is_date32(source):
        return kind.kind is Kind.DATE and _within(column.view(pa.int32()), _FIRST_DAY, _LAST_DAY)
    return bool(t.is_float64(source)) and kind.kind is Kind.DOUBLE


def _bytes_of(column: pa.StringArray) -> bytes:
    offsets, data = column.buffers()[1:]
    if data is None or not len(column):
        return b""
    first, last = np.frombuffer(offsets, np.int32, len(column) + 1, 4 * column.offset)[[0, -1]].tolist()
    return bytes(memoryview(data)[first:last])


def _within(column: pa.Array, lowest: int, greatest: int) -> bool:
    ends = pc.min_max(column).as_py()
    return ends["min"] is None or (ends["min"] >= lowest and ends["max"] <= greatest)


def _decimals_fit(kind: DataType, column: pa.Array) -> bool:
    if max(column.type.precision, column.type.scale + 1) > _DIGITS:
        return False
    greatest = (2**63 - 1) // 10 ** (kind.scale - column.type.scale)
    return _within(unscaled(column), -greatest, greatest)


# Intervals -------------------------------------------------------------------------------------------------


def clause_columns(
    groups: Sequence[VectorGroup], ready: Conjuncts, columns: Sequence[pa.Array], holes: Sequence[int]
) -> ClauseColumns:
    """The clauses for the rows of `columns`, whose values `fits` accepted. O(n).

    `holes`: the number of the parameter in each hole.
    """
    never = np.zeros(len(columns[0]), np.bool_)
    terms = []
    for group in groups:
        comparisons = [(operator, columns[holes[hole]]) for operator, hole in group.comparisons]
        for _, column in comparisons:
            if column.null_count:
                never |= nulls(column)
        if group.attribute.type.kind is Kind.TEXT:
            terms.append(text_term(group.attribute, comparisons, never))
        else:
            terms.append(int_term(group.attribute, comparisons, (group.low, group.top), never))
    fixed = tuple(factor for _, factor in ready.finished or ())
    return ClauseColumns(len(never), tuple(terms), fixed, never if never.any() else None)
