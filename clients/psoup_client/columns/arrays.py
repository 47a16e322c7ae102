"""Conversion of Arrow arrays to arrays for a column of a stream, without a change of any value."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from psoup_client.columns.casts import REFUSALS, TimeOptions, cast, goes_as_it_is, may_convert
from psoup_client.columns.misfits import COUNTS, misfit
from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo

Column: TypeAlias = pa.Array | pa.ChunkedArray


def fit_array(array: Column, column: ColumnInfo, times: TimeOptions) -> Column:
    """Convert an array for `column`. Raises InvalidData that names the row. O(values)."""
    if pa.types.is_dictionary(array.type):
        array = _decoded(array, column)
    local = pa.types.is_timestamp(column.arrow) and times.zoneless(array.type)
    if array.type == column.arrow or pa.types.is_null(array.type):
        return array
    if goes_as_it_is(array.type, column.arrow) and not local:
        return array
    if not may_convert(array.type, column.arrow, times):
        counts = column.type == "TIMESTAMP" and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type))
        raise InvalidData(
            f"column {column.name!r} is {column.type}, but the data has {array.type}"
            + (COUNTS if counts else "; convert it first"),
            facts={"column": column.name},
        )
    try:
        return cast(array, column.arrow, times)
    except REFUSALS as problem:
        row = _first_bad_row(array, column.arrow, times)
        raise misfit(row, None if row is None else _value(array[row]), column, times) from problem


def _decoded(array: Column, column: ColumnInfo) -> Column:
    try:
        return _decode(array)
    except REFUSALS as problem:
        raise InvalidData(
            f"column {column.name!r} is a dictionary that cannot be read: {problem}", facts={"column": column.name}
        ) from problem


def _decode(array: Column) -> Column:
    """Replace dictionary encoding by plain values."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_decode(chunk) for chunk in array.chunks], None if array.num_chunks else pa.string())
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # an array of Polars; pyarrow cannot `take` from it
        values = values.cast(pa.large_string())
    return values.take(array.indices)


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except (KeyError, *REFUSALS):  # a datetime lacks this zone, nanoseconds or year
        kind = scalar.type
        unit: Any = kind.unit if pa.types.is_timestamp(kind) else "D" if pa.types.is_date32(kind) else "ms"
        return np.datetime64(scalar.value, unit)


def _first_bad_row(array: Column, target: pa.DataType, times: TimeOptions) -> int | None:
    """Find the first row that cannot be converted, by bisection. Converts O(rows) values."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(array.slice(low, middle - low), target, times)
            low = middle
        except REFUSALS:
            high = middle
    return low if high > low else None
