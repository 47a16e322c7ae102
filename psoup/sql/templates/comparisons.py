"""Intervals for comparisons of an attribute with a template's constants: one constant, or a column of constants.

    qty > ?     one constant   7              ->   [8, inf)                       `one_by_one`, some microseconds
                a column       [7, NULL, 9]   ->   low [8, ?, 10], never [. x .]  `int_term`, `text_term`

The cut of a constant is two keys: the least key that is not less than it, and the least key that is greater. For each
operator, the table `psoup.sql.where.intervals.ENDS` says which key of the cut begins the interval, and which ends it.
Both forms are faster than the general form, `intervals.compared`. A test checks that all three agree. The intervals of
columns are closed, because each key has a next key. The next key of a text is the text with a zero byte. `vectors.fits`
decides which columns have these forms.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.conversion import NUMBERS, cast
from psoup.expressions.numbers.long_numbers import moved
from psoup.expressions.tree import Expr, Literal, LongNumber
from psoup.model import EXACT_DOUBLE, STREAMED, TEXT, DataType, Kind
from psoup.plan.factors import Interval, Key
from psoup.plan.standing_query import Edges, TermColumn
from psoup.sql.where.intervals import ENDS, Intervals, compared, cut
from psoup.values.columns import Array, float_keys
from psoup.values.kinds import ends

Keys = Callable[[Sequence[Literal]], Intervals]
"""A function that maps the constants in the holes to the intervals of a condition."""

_AS_IT_IS = frozenset(
    {(kind, kind) for kind in STREAMED}
    | {(Kind.BIGINT, Kind.DECIMAL), (Kind.BIGINT, Kind.DOUBLE), (Kind.DECIMAL, Kind.BIGINT), (Kind.DOUBLE, Kind.BIGINT)}
)
"""Pairs of the kinds of an attribute and a constant that can be compared without a cast of the attribute."""


class Slow(Exception):
    """Raised if a condition on a constant is more than a set of intervals. The caller then binds the whole WHERE
    again."""


# One constant ----------------------------------------------------------------------------------------------


def one_by_one(kind: DataType, operator: str, operand: int | Literal) -> Keys:
    """A function that returns the keys of an attribute of type `kind` for which a comparison is true.

    `operand`: the number of a hole, or a constant.
    """
    if isinstance(operand, Literal):
        fixed = compared_with(kind, operator, operand)
        return lambda _: fixed
    if operator == "ne":
        return lambda literals: compared_with(kind, "ne", literals[operand])
    first, beyond = ends(kind)
    begin, end = ENDS[operator]

    def keys(literals: Sequence[Literal]) -> Intervals:
        literal = literals[operand]
        if literal.value is None:
            return ()
        both = _cut(kind, literal)
        return _one(None if begin is None else both[begin], None if end is None else both[end], first, beyond)

    return keys


def _one(low: Key | None, high: Key | None, first: Key, beyond: Key | None) -> Intervals:
    """The result of `intervals.normal` for one interval."""
    if low is not None:
        if low <= first:  # type: ignore[operator]
            low = None
        elif beyond is not None and low >= beyond:  # type: ignore[operator]
            return ()
    if high is not None:
        if high <= first:  # type: ignore[operator]
            return ()
        if beyond is not None and high >= beyond:  # type: ignore[operator]
            high = None
        elif low is not None and low >= high:  # type: ignore[operator]
            return ()
    return (Interval(low, high),)


def compared_with(kind: DataType, operator: str, literal: Literal) -> Intervals:
    """The keys of an attribute of type `kind` for which the comparison is true. Raises Slow."""
    if literal.value is None:
        return ()
    if isinstance(literal, LongNumber) and kind.kind in NUMBERS:
        literal = moved(literal, kind, operator)
    return compared(operator, kind, _fitting(kind, literal))


def _fitting(kind: DataType, literal: Literal) -> Literal:
    """The constant in a type that needs no cast of the attribute. A TEXT takes the attribute's type. Raises Slow."""
    if (kind.kind, literal.type.kind) in _AS_IT_IS:
        return literal
    if literal.type != TEXT:
        raise Slow
    converted = cast(literal, kind)
    assert isinstance(converted, Literal)
    return converted


def _cut(kind: DataType, literal: Literal) -> tuple[Key, Key]:
    """The result of `intervals.cut`, computed quickly for the usual constants. Raises Slow."""
    value, given = literal.value, literal.type.kind
    if given is kind.kind:
        if given is Kind.TEXT:
            key = value.encode()  # type: ignore[union-attr]
            return key, key + b"\0"
        if given is Kind.DOUBLE:
            return _double_cut(value)  # type: ignore[arg-type]
        if given is not Kind.DECIMAL or literal.type.scale == kind.scale:
            return value, value + 1  # type: ignore[operator, return-value]
    elif given is Kind.BIGINT and kind.kind is Kind.DOUBLE and -EXACT_DOUBLE <= value <= EXACT_DOUBLE:  # type: ignore[operator]
        return _double_cut(float(value))  # type: ignore[arg-type]
    literal = _fitting(kind, literal)
    if literal.value is None:  # a TEXT that is read as NULL
        raise Slow
    return cut(kind, literal)


def _double_cut(value: float) -> tuple[int, int]:
    """The cut of one DOUBLE: its order key, as in `columns.float_keys`, and the next key."""
    if value != value or value == 0.0:
        value = 0.0 if value == 0.0 else float("nan")
    (key,) = struct.unpack("<q", struct.pack("<d", value))
    if key < 0:
        key ^= 0x7FFF_FFFF_FFFF_FFFF
    return key, key + 1


# A column of constants -------------------------------------------------------------------------------------


def closed_ends(kind: DataType) -> tuple[int, int]:
    """The least and the greatest int64 key of a type."""
    first, beyond = ends(kind)
    assert isinstance(first, int) and isinstance(beyond, int)
    return first, beyond - 1


def int_term(
    attribute: Expr, comparisons: Sequence[tuple[str, pa.Array]], bounds: tuple[int, int], never: Array
) -> TermColumn:
    """The keys within `bounds` for which all comparisons are true, in each row. Sets `never` in rows without such
    keys. O(n)."""
    kind = attribute.type
    first, last = closed_ends(kind)
    low, top = np.full(len(never), bounds[0], np.int64), np.full(len(never), bounds[1], np.int64)
    for operator, column in comparisons:
        keys = _keys(kind, column)
        begin, end = ENDS[operator]
        if begin is not None:
            if begin:
                never |= keys == last
            low = np.maximum(low, keys + (keys != last) if begin else keys)
        if end is not None:
            if not end:
                never |= keys == first
            top = np.minimum(top, keys if end else keys - (keys != first))
    never |= low > top
    return TermColumn(attribute, Edges(low, False, low == first), Edges(top, True, top == last))


def text_term(attribute: Expr, comparisons: Sequence[tuple[str, pa.Array]], never: Array) -> TermColumn:
    """The result of `int_term` for a TEXT attribute. O(bytes).

    At most one comparison is a lower bound, and at most one an upper bound.
    """
    low = high = None
    for operator, column in comparisons:
        keys = column.cast(pa.large_string()).view(pa.large_binary()).fill_null(b"")
        empty: Array = pc.equal(pc.binary_length(keys), 0).to_numpy(zero_copy_only=False)
        nowhere = np.zeros(len(keys), np.bool_)
        begin, end = ENDS[operator]
        if begin is not None:  # no text is below ''
            low = Edges(keys, begin == 1, nowhere if begin else empty)
        if end is not None:
            high = Edges(keys, end == 1, nowhere)
        if end == 0:
            never |= empty
    if low is not None and high is not None and low.keys is not high.keys:
        crossed = pc.greater if high.past and not low.past else pc.greater_equal
        never |= crossed(low.keys, high.keys).to_numpy(zero_copy_only=False)
    return TermColumn(attribute, low, high)


def unscaled(column: pa.Array) -> pa.Array:
    """The scaled values of a DECIMAL column as int64. They must fit into int64."""
    wide = column.cast(pa.decimal128(38, column.type.scale))
    words = np.frombuffer(wide.buffers()[1], np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]
    return pa.array(np.ascontiguousarray(words), mask=nulls(column))


def nulls(column: pa.Array) -> Array:
    """Flags of the rows that are NULL: bool[n]."""
    mask: Array = column.is_null().to_numpy(zero_copy_only=False)
    return mask


def _keys(kind: DataType, column: pa.Array) -> Array:
    """The order keys of values that `vectors.fits` accepts: int64[n], arbitrary for NULL."""
    t, source = pa.types, column.type
    scale = kind.scale
    if t.is_decimal(source):
        column, scale = unscaled(column), scale - source.scale
    elif t.is_timestamp(source):
        column = column.view(pa.int64())
    elif t.is_date32(source):
        column = column.view(pa.int32()).cast(pa.int64())
    values: Array = column.fill_null(0).to_numpy()
    if kind.kind is Kind.DOUBLE:
        return float_keys(values.astype(np.float64))
    return values * np.int64(10**scale) if scale else values
