"""Rows as columns in JSON: the smallest form of few rows once it is compressed, and one that a browser reads by itself.

    _id  3  4  9          [[3, 1, 5],
    sym  A  NULL  B   ─>   ["A", null, "B"],
    n    1  2  2^60        [1, 2, "1152921504606846976"]]

Numbers of tuples and times grow from row to row, so their differences are written.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import sub
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

_FEW = 100
"""Rows up to which a list is sooner there than an array."""
_EXACT = 2**53
"""The integers up to which every reader of JSON has them all."""
_INT32, _INT64 = pa.int32(), pa.int64()
_FLOATS, _DECIMALS = {pa.float32().id, pa.float64().id}, {pa.decimal128(1).id}
_DAYS, _INSTANTS = {pa.date32().id}, {pa.timestamp("us").id}
"""Numbers of Arrow's types: to ask `pyarrow.types` about each column took a third of the time of writing few rows."""
_NAMED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def to_json(batches: Sequence[pa.RecordBatch], differences: int) -> bytes:
    """The rows of some batches, at least one; the first columns, `differences` of them, as differences. O(values)."""
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    columns = batch.columns
    parts = [orjson.dumps(_differences(column)) for column in columns[:differences]]
    parts += map(_column, columns[differences:])  # one by one: each holds all other threads up
    return b"[%b]" % b",".join(parts)


def _differences(column: pa.Array) -> list[int]:
    """Whole numbers without NULL as differences to the one before, the first to 0."""
    column = column.view(_INT64)
    if len(column) <= _FEW:
        values: list[int] = column.to_pylist()
        return [*values[:1], *map(sub, values[1:], values)]
    numbers = column.to_numpy()
    steps = numbers.copy()
    steps[1:] -= numbers[:-1]
    listed: list[int] = steps.tolist()
    return listed


def _column(column: pa.Array) -> bytes:
    kind = column.type.id
    if kind in _FLOATS:
        return orjson.dumps(_floats(column))
    if kind in _DECIMALS:
        column = column.cast(pa.string())
    elif kind in _DAYS:
        column = column.view(_INT32)
    elif kind in _INSTANTS:
        column = column.view(_INT64)
    values = column.to_pylist()
    try:
        return orjson.dumps(values, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:  # a number beyond 2^53
        return orjson.dumps([v if v is None or -_EXACT <= v <= _EXACT else str(v) for v in values])


def _floats(column: pa.Array) -> list[Any]:
    """Numbers; those that JSON does not have by their names."""
    values: list[Any] = column.to_pylist()
    finite = np.isfinite(column.to_numpy(zero_copy_only=False))  # NULL is not
    if int(np.count_nonzero(finite)) + column.null_count == len(values):
        return values
    return [value if value is None or math.isfinite(value) else _NAMED[repr(value)] for value in values]
