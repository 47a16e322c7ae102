"""Random values of the seven types, and their ways out: an Arrow array, a literal of either dialect.

A value is a plain Python object: bool, int, float, Decimal, str; TIMESTAMP is microseconds and DATE is days since
1970, because `datetime` cannot hold all of what a stream can.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, Kind, decimal
from psoup.phrases import quoted_text

Value = bool | int | float | Decimal | str | None

MAX_INT = 2**63 - 1
YEAR_1 = -62_135_596_800_000_000
"""0001-01-01 00:00:00 in microseconds since 1970."""
YEAR_9999 = 253_402_300_799_999_999
"""9999-12-31 23:59:59.999999 in microseconds since 1970."""
DAY = 86_400_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

DECIMALS = (decimal(5, 2), decimal(18, 4), decimal(9, 0), decimal(3, 3), decimal(18, 0))
TYPES: tuple[DataType, ...] = (BOOLEAN, BIGINT, DOUBLE, TEXT, TIMESTAMP, DATE, *DECIMALS)

_DOUBLES = (0.0, -0.0, 1.0, -1.5, 0.1, 2.5, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 2.0**53)
_TEXTS = (
    "",
    "a",
    "ab",
    "abc",
    "b",
    "B",
    "a%b",
    "a_b",
    "x\\y",
    "it's",
    "é",
    "zé",
    "日本",
    "😀",
    " pad ",
    "12",
    "-3.5",
    "\x7f",
)
_TIMES = (YEAR_1, YEAR_9999, 0, -1, 1, 1_577_836_800_000_000, 1_582_934_399_999_999, 951_782_400_000_000)


def kinds() -> st.SearchStrategy[DataType]:
    """A random type; each kind is equally likely."""
    return st.one_of(st.sampled_from((BOOLEAN, BIGINT, DOUBLE, TEXT, TIMESTAMP, DATE)), st.sampled_from(DECIMALS))


def values(data_type: DataType) -> st.SearchStrategy[Value]:
    """Values of one type, extremes and neighbours among them; never NULL."""
    kind = data_type.kind
    if kind is Kind.BOOLEAN:
        return st.booleans()
    if kind is Kind.BIGINT:
        extremes = st.sampled_from((0, 1, -1, MAX_INT, -MAX_INT - 1, MAX_INT - 1, 2**31, -(2**31) - 1, 2**53 + 1))
        return st.one_of(st.integers(-20, 20), st.integers(-1000, 1000), extremes)
    if kind is Kind.DOUBLE:
        small = st.integers(-40, 40).map(lambda n: n / 4)
        return st.one_of(small, st.sampled_from(_DOUBLES), st.floats(-1e6, 1e6))
    if kind is Kind.DECIMAL:
        top = 10**data_type.precision - 1
        scaled = st.one_of(st.integers(-min(300, top), min(300, top)), st.sampled_from((0, 1, top, -top)))
        return scaled.map(lambda n: Decimal(n).scaleb(-data_type.scale))
    if kind is Kind.TEXT:
        return st.one_of(st.sampled_from(_TEXTS), st.text("abAé%_", max_size=4))
    if kind is Kind.TIMESTAMP:
        near = st.integers(-200_000, 200_000).map(lambda n: 1_577_836_800_000_000 + n * 1_000_001)
        return st.one_of(near, st.sampled_from(_TIMES))
    return st.one_of(st.integers(18_200, 18_300), st.sampled_from((-719_162, 2_932_896, 0, -1, 18_321)))


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type in which a client sends values of this type."""
    if data_type.kind is Kind.DECIMAL:
        return pa.decimal128(data_type.precision, data_type.scale)
    return {
        Kind.BOOLEAN: pa.bool_(),
        Kind.BIGINT: pa.int64(),
        Kind.DOUBLE: pa.float64(),
        Kind.TEXT: pa.string(),
        Kind.TIMESTAMP: pa.timestamp("us"),
        Kind.DATE: pa.date32(),
    }[data_type.kind]


def arrow_array(data_type: DataType, column: Sequence[Value]) -> pa.Array:
    """The values as Arrow; times and dates go in as the integers they are."""
    if data_type.kind is Kind.TIMESTAMP:
        return pa.array(column, pa.int64()).cast(pa.timestamp("us"))
    if data_type.kind is Kind.DATE:
        return pa.array(column, pa.int32()).cast(pa.date32())
    return pa.array(column, arrow_type(data_type))


def plain_values(array: pa.Array | pa.ChunkedArray) -> list[Value]:
    """The way back: Arrow to the plain values above."""
    if pa.types.is_timestamp(array.type):
        return list(array.cast(pa.timestamp("us")).cast(pa.int64()).to_pylist())
    if pa.types.is_date(array.type):
        return list(array.cast(pa.int32()).to_pylist())
    return list(array.to_pylist())


def iso_time(micros: int) -> str:
    """`2020-01-31 12:00:00.000001`, in UTC."""
    return (EPOCH + timedelta(microseconds=micros)).replace(tzinfo=None).isoformat(" ")


def iso_date(days: int) -> str:
    """`2020-01-31`."""
    return (date(1970, 1, 1) + timedelta(days=days)).isoformat()


def written_text(text: str) -> str:
    """The literal in one of its three forms, by what the text is: '…', $$…$$ or E'…'."""
    if "'" in text and "$" not in text:
        return f"$${text}$$"
    if len(text) % 4 == 3:
        return "E'" + "".join(f"\\{c}" if c in "'\\" else c.replace("\n", "\\n") for c in text) + "'"
    return quoted_text(text)


def psoup_literal(data_type: DataType, value: Value) -> str:
    """The literal as a person would write it to PSoup."""
    kind = data_type.kind
    if value is None:
        return "NULL"
    if kind is Kind.TEXT:
        return written_text(str(value))
    if kind is Kind.BOOLEAN:
        return "TRUE" if value else "FALSE"
    if kind is Kind.TIMESTAMP:
        return f"TIMESTAMP '{iso_time(int(value))}'"
    if kind is Kind.DATE:
        return f"DATE '{iso_date(int(value))}'"
    if kind is Kind.DOUBLE:
        number = float(value)
        if not math.isfinite(number):
            return f"CAST('{number}' AS DOUBLE)"
        text = repr(number)
        return text if "e" in text else text + "e0"
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def duck_literal(data_type: DataType, value: Value) -> str:
    """The literal for DuckDB, with its type spelled out: its own integers would be 32 bits wide."""
    kind = data_type.kind
    if value is None:
        return f"CAST(NULL AS {duck_type(data_type)})"
    if kind is Kind.TEXT:
        return quoted_text(str(value))
    if kind in (Kind.BOOLEAN, Kind.TIMESTAMP, Kind.DATE):
        return psoup_literal(data_type, value)
    text = f"{value:f}" if isinstance(value, Decimal) else repr(value)
    return f"CAST('{text}' AS {duck_type(data_type)})"


def duck_type(data_type: DataType) -> str:
    """The name of the type in both dialects, but for TEXT."""
    return "VARCHAR" if data_type.kind is Kind.TEXT else str(data_type)
