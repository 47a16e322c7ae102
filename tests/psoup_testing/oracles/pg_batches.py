"""Random rows with values of every type that clients of PostgreSQL get, extremes included.

random_batch(rng, 100)  ──>  RecordBatch: flag, whole, number, price, wide, …       a tenth of the values is NULL
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, Attribute, decimal

Rng = np.random.Generator

_LETTERS = list("ab ,;\"'\\\n\r\t\b\f\v{}é€😀N.|")
_ODD = ["", "\\N", "\\.", "NULL", "x" * 5_000, " ", "a,b", 'say "no"', "\\", "é;|"]
_FIRST_TIME, _LAST_TIME = -210_866_803_200_000_000, 2**63 - 1
_FIRST_DAY, _LAST_DAY = -2_440_588, 2_145_042_904
"""The ends of PostgreSQL's times and dates: 4713 BC, and the last day of its DATE."""
_YEARS_1_TO_9999 = (-62_135_596_800_000_000, 253_402_300_799_999_999)
_EXACT = Context(prec=60)

STREAMED = [
    Attribute("flag", BOOLEAN),
    Attribute("whole", BIGINT),
    Attribute("number", DOUBLE),
    Attribute("price", decimal(18, 4)),
    Attribute("wide", decimal(38, 11)),
    Attribute("tiny", decimal(38, 38)),
    Attribute("round", decimal(30, 0)),
    Attribute("text", TEXT),
    Attribute("time", TIMESTAMP),
    Attribute("late", TIMESTAMP),
    Attribute("day", DATE),
]
"""The columns of PSoup's own types."""

SQL = {
    "flag": "boolean",
    "whole": "bigint",
    "number": "double precision",
    "price": "numeric",
    "wide": "numeric",
    "tiny": "numeric",
    "round": "numeric",
    "text": "text",
    "time": "timestamptz",
    "late": "timestamptz",
    "day": "date",
    "small": "smallint",
    "int": "integer",
    "real": "real",
    "local": "timestamp",
    "bytes": "bytea",
    "names": "text[]",
    "numbers": "integer[]",
    "long": "text",
}
"""The type of each column in PostgreSQL."""


def random_batch(rng: Rng, rows: int) -> pa.RecordBatch:
    """Rows with a column for each type."""
    texts = random_texts(rng, rows)
    reals = np.array(_floats(rng, rows)).clip(-3e38, 3e38).astype(np.float32).astype(float).tolist()
    columns: dict[str, tuple[Sequence[Any], pa.DataType]] = {
        "flag": ((rng.random(rows) < 0.5).tolist(), pa.bool_()),
        "whole": (_integers(rng, rows, -(2**63), 2**63 - 1), pa.int64()),
        "number": (_floats(rng, rows), pa.float64()),
        "price": (_decimals(rng, rows, 18, 4), pa.decimal128(18, 4)),
        "wide": (_decimals(rng, rows, 38, 11), pa.decimal128(38, 11)),
        "tiny": (_decimals(rng, rows, 38, 38), pa.decimal128(38, 38)),
        "round": (_decimals(rng, rows, 30, 0), pa.decimal128(30, 0)),
        "text": (texts, pa.string()),
        "time": (_integers(rng, rows, _FIRST_TIME, _LAST_TIME), pa.timestamp("us", tz="UTC")),
        "late": (_integers(rng, rows, *_YEARS_1_TO_9999), pa.timestamp("us", tz="UTC")),
        "day": (_integers(rng, rows, _FIRST_DAY, _LAST_DAY), pa.date32()),
        "small": (_integers(rng, rows, -(2**15), 2**15 - 1), pa.int16()),
        "int": (_integers(rng, rows, -(2**31), 2**31 - 1), pa.int32()),
        "real": (reals, pa.float32()),
        "local": (_integers(rng, rows, *_YEARS_1_TO_9999), pa.timestamp("us")),
        "bytes": ([rng.bytes(int(rng.integers(0, 9))) for _ in range(rows)], pa.binary()),
        "names": ([_names(rng, texts) for _ in range(rows)], pa.list_(pa.string())),
        "numbers": ([[1, None, -5][: rng.integers(0, 4)] for _ in range(rows)], pa.list_(pa.int32())),
        "long": (texts, pa.large_string()),
    }
    return pa.record_batch({name: _column(rng, values, kind) for name, (values, kind) in columns.items()})


def streamed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns of PSoup's own types."""
    return batch.select([attribute.name for attribute in STREAMED])


def comparable(column: pa.Array | pa.ChunkedArray) -> list[str]:
    """The values of a column as texts; NaN equals NaN, and times may have years that Python lacks."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date(column.type) else pa.int64())
    return [repr(value) for value in column.to_pylist()]


def _column(rng: Rng, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    absent = rng.random(len(values)) < 0.1
    given = [None if skip else value for value, skip in zip(values, absent, strict=True)]
    return pa.array(given, kind)


def random_texts(rng: Rng, rows: int) -> list[str]:
    """Texts with letters of all kinds: delimiters, quotes, line breaks."""
    sizes = rng.integers(0, 12, rows)
    letters = iter(rng.choice(_LETTERS, int(sizes.sum())).tolist())
    texts = ["".join(next(letters) for _ in range(size)) for size in sizes.tolist()]
    return [*texts, *_ODD][-rows:]


def _names(rng: Rng, texts: list[str]) -> list[str | None]:
    chosen = rng.integers(0, len(texts), int(rng.integers(0, 4))).tolist()
    return [None if rng.random() < 0.2 else texts[place] for place in chosen]


def _integers(rng: Rng, rows: int, low: int, high: int) -> list[int]:
    near = np.clip(rng.integers(-200, 200, rows), low, high)
    values = np.where(rng.random(rows) < 0.5, near, rng.integers(low, high, rows, endpoint=True)).tolist()
    return [*values, low, high, 0][-rows:]


def _floats(rng: Rng, rows: int) -> list[float]:
    """Any bits, prices, large whole numbers, powers of two and of ten."""
    kinds = [
        rng.integers(0, 2**64, rows, dtype=np.uint64).view(np.float64),
        np.round(rng.random(rows) * 1e4, 2),
        rng.integers(2**53, 2**63 - 1, rows).astype(float),
        rng.integers(-(10**17), 10**17, rows).astype(float),
        2.0 ** rng.integers(-1074, 1023, rows),
        10.0 ** rng.integers(-320, 308, rows),
    ]
    values = np.array(kinds)[rng.integers(0, len(kinds), rows), np.arange(rows)]
    return [*values.tolist(), 0.0, -0.0, float("nan"), float("inf"), float("-inf"), 5e-324, 1e15, 1e-5][-rows:]


def _decimals(rng: Rng, rows: int, precision: int, scale: int) -> list[Decimal]:
    sizes = rng.integers(1, precision + 1, rows).tolist()
    digits = ["".join(rng.choice(list("0123456789"), size)) for size in sizes]
    signs = rng.choice(["", "-"], rows).tolist()
    return [Decimal(sign + text).scaleb(-scale, _EXACT) for sign, text in zip(signs, digits, strict=True)]
