"""Values of answers in SQLite: the exact stored form, and the form that views show.

    type         kept as                              shown by the view
    BIGINT       INTEGER                              the same
    BOOLEAN      INTEGER 0, 1                         the same
    DOUBLE       REAL; NaN is the text NaN            the same
    DECIMAL      TEXT; as a key: 40 digits, shifted   the same
    TEXT         TEXT                                 the same
    TIMESTAMP    INTEGER, microseconds since 1970     2013-07-04T12:00:00.000000Z
    DATE         INTEGER, days since 1970             2013-07-04

SQLite has no NaN (it would be NULL) and no decimals, and a column that is declared REAL loses the sign of -0.0.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

_NAN = "NaN"
_SHIFT = 10**39
"""A power of ten above every decimal. Added to the digits of decimals of one scale, it keeps their order as texts."""


def declared(kind: pa.DataType) -> str:
    """The type in the column's declaration; empty for DOUBLE."""
    if pa.types.is_floating(kind):
        return ""
    return "TEXT" if pa.types.is_string(kind) or pa.types.is_decimal(kind) else "INTEGER"


def to_sqlite(column: pa.ChunkedArray, *, ordered: bool = False) -> list[Any]:
    """Convert the values of an Arrow column to their stored form. O(values).

    `ordered`: the column is a key of ORDER BY, so decimals become texts of 40 digits.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind):
        column = column.cast(pa.int32())
    values: list[Any] = column.to_pylist()
    if pa.types.is_floating(kind):
        return [_NAN if value is not None and math.isnan(value) else value for value in values]
    if pa.types.is_boolean(kind):
        return [None if value is None else int(value) for value in values]
    if pa.types.is_decimal(kind):
        if ordered:
            return [None if value is None else f"{_shifted(value, kind.scale):040d}" for value in values]
        return [None if value is None else str(value) for value in values]
    return values


def _shifted(value: Decimal, scale: int) -> int:
    """Convert a decimal to a positive integer. The integers of one scale have the order of the decimals."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    whole = int("".join(map(str, digits))) * 10 ** (exponent + scale)
    return _SHIFT + (-whole if sign else whole)


def to_arrow(values: list[Any], kind: pa.DataType) -> pa.Array:
    """Convert stored values to an Arrow column. O(values)."""
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_floating(kind):
        return pa.array([None if value is None else float(value) for value in values], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if value is None else bool(value) for value in values], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(value) for value in values], kind)
    return pa.array(values, kind)


def shown(column: str, kind: pa.DataType) -> str:
    """Write the SQL expression by which a view shows a column."""
    if pa.types.is_timestamp(kind):
        seconds = f"({column} - ({column} % 1000000 + 1000000) % 1000000) / 1000000"
        micros = f"({column} % 1000000 + 1000000) % 1000000"
        return f"strftime('%Y-%m-%dT%H:%M:%S', {seconds}, 'unixepoch') || printf('.%06dZ', {micros})"
    if pa.types.is_date32(kind):
        return f"date({column} * 86400, 'unixepoch')"
    return column


def ordering(column: str, kind: pa.DataType, *, descending: bool, nulls_first: bool) -> list[str]:
    """Write the terms of ORDER BY for a key. NULL comes first or last; NaN is the greatest number."""
    way = " DESC" if descending else ""
    terms = [f"{column} IS {'NOT ' * nulls_first}NULL"]
    if pa.types.is_floating(kind):
        terms.append(f"typeof({column}) = 'text'{way}")
    return [*terms, f"{column}{way}"]
