"""Rows as columns in JSON: the smallest form of few rows after compression, and readable by a browser.

    _id  3  4  9          [[3, 1, 5],
    sym  A  NULL  B   ─>   ["A", null, "B"],
    n    1  2  2^60        [1, 2, "1152921504606846976"]]

Tuple IDs and times grow from row to row, so their differences are written. Few rows are read directly from their
chunks, because making a batch takes twice as long as writing it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import sub
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from psoup.execution.rows.record_batch import Part
from psoup.expressions.tree import ID_INDEX, TIME_INDEX
from psoup.model import Kind
from psoup.values.columns import Array, Column

FEW = 100
"""The most rows for which a list is quicker than an array."""
_EXACT = 2**53
"""The greatest integer up to which every reader of JSON is exact."""
_INT32 = pa.int32()
_INT64 = pa.int64()
_FLOATS = {pa.float32().id, pa.float64().id}
_DECIMALS = {pa.decimal128(1).id}
_DAYS = {pa.date32().id}
"""The IDs of Arrow's date types. To call `pyarrow.types` for each column took a third of the time of few rows."""
_INSTANTS = {pa.timestamp("us").id}
"""The IDs of Arrow's timestamp types."""
_NAMED = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def to_json(batches: Sequence[pa.RecordBatch], differences: int) -> bytes:
    """The rows of one or more batches as JSON. O(values).

    `differences`: the number of first columns that are written as differences.
    """
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    columns = batch.columns
    parts = [orjson.dumps(_differences(column)) for column in columns[:differences]]
    parts += map(_column, columns[differences:])  # one by one, because each holds the interpreter's lock
    return b"[%b]" % b",".join(parts)


def stored_to_json(parts: Sequence[Part], attributes: Sequence[int], differences: int) -> bytes:
    """The JSON of rows of chunks (from one to `FEW`), equal to `to_json` of a batch of these attributes. O(values)."""
    columns = [_stored(parts, index) for index in attributes]
    grown = [_steps(column) for column in columns[:differences]]
    return b"[%b]" % b",".join([*map(orjson.dumps, grown), _strict(columns[differences:])[1:-1]])


def _stored(parts: Sequence[Part], index: int) -> list[Any]:
    """The values of an attribute or a pseudo-column, as JSON shows them."""
    if len(parts) > 1:
        return [value for part in parts for value in _stored([part], index)]
    ((chunk, offsets),) = parts
    values: list[Any]
    if index == ID_INDEX:
        values = (offsets + chunk.first_id).tolist()
    elif index == TIME_INDEX:
        values = chunk.times.take(offsets).tolist()
    else:
        column = chunk.columns[index]
        values = _READ.get(column.type.kind, _numbers)(column, offsets)
        if column.valid is not None:
            valid = column.valid.take(offsets).tolist()
            values = [value if is_there else None for value, is_there in zip(values, valid, strict=True)]
    return values


def _numbers(column: Column, offsets: Array) -> list[Any]:
    """The values of a column of numbers or truth values."""
    values: list[Any] = column.values.take(offsets).tolist()
    return values


def _texts(column: Column, offsets: Array) -> list[Any]:
    assert column.data is not None, "texts have bytes"
    ends, data = column.values, column.data.data
    starts, stops = ends.take(offsets).tolist(), ends.take(offsets + 1).tolist()
    return [str(data[start:stop], "utf-8") for start, stop in zip(starts, stops, strict=True)]


def _doubles(column: Column, offsets: Array) -> list[Any]:
    values: list[Any] = column.values.take(offsets).tolist()
    return values if all(map(math.isfinite, values)) else [_named(value) for value in values]


def _decimals(column: Column, offsets: Array) -> list[Any]:
    values: list[Any] = column.take(offsets).to_arrow().cast(pa.string()).to_pylist()
    return values


_READ = {Kind.TEXT: _texts, Kind.DOUBLE: _doubles, Kind.DECIMAL: _decimals}


def _strict(columns: Sequence[Sequence[Any]]) -> bytes:
    """Columns of values as JSON. Integers beyond 2^53 become texts, because not every reader of JSON is exact there."""
    try:
        return orjson.dumps(columns, option=orjson.OPT_STRICT_INTEGER)
    except orjson.JSONEncodeError:  # a number beyond 2^53
        return orjson.dumps([[_exact(value) for value in column] for column in columns])


def _exact(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not -_EXACT <= value <= _EXACT else value


def _named(value: float) -> Any:
    """A double. NaN and the infinities become their names, because JSON does not have them."""
    return value if math.isfinite(value) else _NAMED[repr(value)]


def _steps(values: Sequence[int]) -> list[int]:
    """The differences of each value to the one before. The first value stays as it is."""
    return [*values[:1], *map(sub, values[1:], values)]


def _differences(column: pa.Array) -> list[int]:
    """The differences of each value of an integer column without NULL to the one before. The first value stays."""
    column = column.view(_INT64)
    if len(column) <= FEW:
        return _steps(column.to_pylist())
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
    return _strict([column.to_pylist()])[1:-1]


def _floats(column: pa.Array) -> list[Any]:
    """The values of a column of floats. NaN and the infinities become their names, because JSON does not have them."""
    values: list[Any] = column.to_pylist()
    finite = np.isfinite(column.to_numpy(zero_copy_only=False))  # NULL counts as not finite
    if int(np.count_nonzero(finite)) + column.null_count == len(values):
        return values
    return [value if value is None else _named(value) for value in values]
