"""Rows of an answer in JSON, as PushRows takes them.

    BIGINT 7, "9007199254740993"       DECIMAL "1.50"        DOUBLE 0.5, "NaN"
    TIMESTAMP "2024-05-01T12:00:00Z"   DATE "2024-05-01"     NULL null

Integers beyond 2^53 are texts, because the numbers of many readers of JSON are doubles.
"""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from psoup.model import EPOCH, EXACT_DOUBLE
from psoup.plan.column_names import unique_names

_NAMED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def rows_json(batch: pa.RecordBatch) -> bytes:
    """The rows of an answer as JSON: an array of objects, which PushRows takes. O(values), in Python."""
    return orjson.dumps(plain_rows(batch))


def plain_rows(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """The rows of a batch by the unique names of columns, with the values of JSON. O(values), in Python."""
    names = unique_names(batch.schema.names)
    columns = [plain_values(values) for values in batch.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain_values(column: pa.Array) -> list[Any]:
    """The values of a column as JSON has them."""
    t, kind = pa.types, column.type
    if t.is_timestamp(kind):
        return [None if value is None else instant_text(value) for value in column.view(pa.int64()).to_pylist()]
    if t.is_date(kind):
        return [None if value is None else _day(value) for value in column.view(pa.int32()).to_pylist()]
    values: list[Any] = column.to_pylist()
    if t.is_decimal(kind):
        return [None if value is None else f"{value:f}" for value in values]
    if t.is_floating(kind):
        return [value if value is None or math.isfinite(value) else _NAMED[repr(value)] for value in values]
    if t.is_integer(kind):
        return [
            str(value) if value is not None and not -EXACT_DOUBLE <= value <= EXACT_DOUBLE else value
            for value in values
        ]
    return values


def instant_text(micros: int) -> str:
    """A time, in microseconds since 1970, as ISO 8601 in UTC: "2024-05-01T12:00:00Z"."""
    try:
        return f"{(EPOCH + timedelta(microseconds=micros)).isoformat()}Z"
    except OverflowError:  # Python's years end at 9999
        return f"{np.datetime64(micros, 'us')}Z"


def _day(days: int) -> str:
    try:
        return (EPOCH + timedelta(days=days)).date().isoformat()
    except OverflowError:
        return str(np.datetime64(days, "D"))
