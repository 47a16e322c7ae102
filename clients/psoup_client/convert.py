"""Rows as callers have them -> an Arrow table that fits a stream.

    pa.Table, pa.RecordBatch, pandas, Polars, DuckDB ...   (whatever speaks Arrow)
    [{"a": 1}, {"a": 2}]     {"a": [1, 2]}                 (Python values)

Columns are found by name, in any case. Values are converted where none is lost: text to TIMESTAMP, DATE and DECIMAL,
whole floats to BIGINT (pandas makes floats of integers with gaps). A time without a zone is UTC. In pandas, NaN is
NULL, as pandas means it; elsewhere NaN is a DOUBLE. Raises InvalidData that names the column and the row.
"""

from __future__ import annotations

import datetime as dt
import difflib
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo, StreamInfo
from psoup_client.times import to_micros

_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)
_ZONED = r"(\d\s*[Zz]|:\d{2}([.,]\d+)?\s*[+-]\d{2}(:?\d{2})?)\s*$"
"""Text of a time that ends in a zone; the -01 of 2024-05-01 is none."""


def to_table(data: Any, stream: StreamInfo) -> pa.Table:
    """Make `data` a table with columns of `stream` only, each of a type that the service takes. O(rows)."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        named = [(name, data.column(i)) for i, name in enumerate(data.schema.names)]
    elif is_pandas(data):
        named = [(str(name), _SeriesValues(data.iloc[:, i])) for i, name in enumerate(data.columns)]
    elif hasattr(data, "__arrow_c_stream__"):
        return to_table(pa.table(data), stream)
    elif isinstance(data, Mapping):
        named = list(data.items())
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        named = _columns_of_rows(data)
        if not named:
            return stream.schema.empty_table()
    else:
        raise TypeError(
            f"cannot push a {type(data).__name__}: give an Arrow table, a pandas or Polars frame, "
            "a list of dicts or a dict of lists"
        )
    return _assemble(named, stream)


class _SeriesValues:
    """A pandas column, so that `_array` knows that NaN means NULL."""

    def __init__(self, series: Any) -> None:
        self.series = series


def is_pandas(data: Any) -> bool:
    """Whether it is a frame of pandas: none exists before pandas is imported, or while it is being imported."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return frame is not None and isinstance(data, frame)


def _columns_of_rows(rows: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidData(
                f"row {number} is a {type(row).__name__}: every row must be a dict", facts={"row": str(number)}
            )
        names.update(dict.fromkeys(row))
    return [(name, [row.get(name) for row in rows]) for name in names]


def _assemble(named: Sequence[tuple[str, Any]], stream: StreamInfo) -> pa.Table:
    """Match columns with the stream's, and convert each."""
    known = {column.name.lower(): column for column in stream.columns}
    given: dict[str, Any] = {}
    for name, values in named:
        folded = str(name).lower()
        if folded not in known:
            raise InvalidData(_unknown(str(name), stream), facts={"column": str(name)})
        if folded in given:
            raise InvalidData(f"column {name!r} comes twice; give it once", facts={"column": str(name)})
        given[folded] = values
    fields, arrays = [], []
    for folded, column in known.items():
        if folded in given:
            array = _array(given[folded], column)
            _check_nulls(array, column)
            fields.append(pa.field(column.name, array.type))
            arrays.append(array)
        elif not column.nullable:
            raise InvalidData(
                f"column {column.name!r} is missing, and stream {stream.name!r} says NOT NULL",
                facts={"column": column.name},
            )
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1:
        raise InvalidData(
            "the columns have different lengths: "
            + ", ".join(f"{field.name} {len(array)}" for field, array in zip(fields, arrays, strict=True))
        )
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _unknown(name: str, stream: StreamInfo) -> str:
    names = [column.name for column in stream.columns]
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"stream {stream.name!r} has no column {name!r}; {hint}its columns: {', '.join(names)}"


def _check_nulls(array: pa.Array | pa.ChunkedArray, column: ColumnInfo) -> None:
    if column.nullable or not array.null_count:
        return
    import pyarrow.compute as pc  # its 40 ms are for those who need it, not for every client

    row = pc.index(pc.is_null(array), True).as_py()
    raise InvalidData(
        f"row {row}: {column.name!r} is NULL, but the stream says NOT NULL",
        facts={"column": column.name, "row": str(row)},
    )


def _array(values: Any, column: ColumnInfo) -> pa.Array | pa.ChunkedArray:
    if isinstance(values, _SeriesValues):
        return _from_series(values.series, column)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _from_arrow(values, column)
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise InvalidData(f"column {column.name!r} is one {type(values).__name__}; give a list of values")
    if isinstance(values, list | tuple):
        return _from_python(values, column)
    try:
        return _from_arrow(pa.array(values), column)
    except _ARROW_ERRORS:
        return _from_python(list(values), column)


def _from_series(series: Any, column: ColumnInfo) -> pa.Array | pa.ChunkedArray:
    try:
        return _from_arrow(pa.Array.from_pandas(series), column)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # objects of several types
        return _from_python([None if value != value else value for value in series.tolist()], column)


# Arrow to Arrow ------------------------------------------------------------------------------------------


def _from_arrow(array: pa.Array | pa.ChunkedArray, column: ColumnInfo) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_dictionary(array.type):
        array = _decode(array)
    if array.type == column.arrow or pa.types.is_null(array.type) or _goes_as_it_is(array.type, column.arrow):
        return array
    if not _may_convert(array.type, column.arrow):
        raise InvalidData(
            f"column {column.name!r} is {column.type}, but the data has {array.type}; convert it first",
            facts={"column": column.name},
        )
    try:
        return _cast(array, column.arrow)
    except _ARROW_ERRORS as problem:
        row = _first_bad_row(array, column.arrow)
        raise _unfit(row, None if row is None else array[row].as_py(), column) from problem


def _decode(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Write out the values of a dictionary array."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_decode(chunk) for chunk in array.chunks], None if array.num_chunks else pa.string())
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # Polars has these; pyarrow cannot take rows of them
        values = values.cast(pa.large_string())
    return values.take(array.indices)


def _goes_as_it_is(source: pa.DataType, target: pa.DataType) -> bool:
    """Whether the service takes `source` for `target` and no value of it can fail."""
    t = pa.types
    if t.is_integer(target):
        return bool(t.is_integer(source) and not t.is_uint64(source))
    if t.is_floating(target):
        return bool(t.is_floating(source) or (t.is_integer(source) and source.bit_width <= 32))
    if t.is_string(target):
        return bool(t.is_large_string(source) or t.is_string_view(source))
    return bool(t.is_timestamp(target) and t.is_timestamp(source) and source.unit == "us")


def _may_convert(source: pa.DataType, target: pa.DataType) -> bool:
    t = pa.types
    text = t.is_string(source) or t.is_large_string(source) or t.is_string_view(source)
    if t.is_integer(target):
        return bool(t.is_integer(source) or t.is_floating(source))
    if t.is_floating(target):
        return bool(t.is_integer(source))
    if t.is_decimal(target):
        return bool(t.is_decimal(source) or t.is_integer(source) or text)
    if t.is_timestamp(target):
        return bool(t.is_timestamp(source) or t.is_date(source) or text)
    return bool(t.is_date(target) and (t.is_date(source) or t.is_timestamp(source) or text))


def _cast(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    t = pa.types
    text = t.is_string(array.type) or t.is_large_string(array.type) or t.is_string_view(array.type)
    if text and t.is_timestamp(target):
        return _parse_times(array.cast(pa.string()))
    if t.is_decimal(target) and t.is_integer(array.type):
        array = array.cast(pa.decimal128(20, 0))
    if t.is_timestamp(array.type) and array.type.tz is not None:
        array = array.cast(pa.timestamp(array.type.unit, "UTC"))
    result = array.cast(target)
    if t.is_date(target) and t.is_timestamp(array.type) and not result.cast(array.type).equals(array):
        raise ValueError("a DATE has no time of day")  # Arrow would cut it off
    return result


def _parse_times(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Read ISO 8601 text, with or without a zone, as instants."""
    import pyarrow.compute as pc

    instant = pa.timestamp("us", tz="UTC")
    zoned = pc.match_substring_regex(text, _ZONED)
    with_zone = pc.if_else(zoned, text, pa.scalar(None, pa.string())).cast(instant)
    without = pc.if_else(zoned, pa.scalar(None, pa.string()), text).cast(pa.timestamp("us"))
    return pc.coalesce(with_zone, without.cast(instant))


def _first_bad_row(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> int | None:
    """Find the first row that cannot be converted, by halving. O(rows) conversions in all."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(array.slice(low, middle - low), target)
            low = middle
        except _ARROW_ERRORS:
            high = middle
    return low if high > low else None


# Python values to Arrow ----------------------------------------------------------------------------------


def _from_python(values: Sequence[Any], column: ColumnInfo) -> pa.Array | pa.ChunkedArray:
    try:
        # Without a type: given one, pyarrow cuts 1.5 to a BIGINT of 1 and takes 1 as a DATE.
        return _from_arrow(pa.array(values), column)
    except (InvalidData, *_ARROW_ERRORS):
        pass  # values of several types, or one that does not fit: now one by one
    converted = []
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else _one(value, column.arrow))
            pa.scalar(converted[-1], column.arrow)
        except (*_ARROW_ERRORS, InvalidOperation) as problem:
            raise _unfit(row, value, column) from problem
    return pa.array(converted, column.arrow)


def _one(value: Any, target: pa.DataType) -> Any:
    """Give a Python value the form that pyarrow takes for `target` without loss; raises ValueError if none does."""
    if hasattr(value, "item"):  # a scalar of NumPy
        value = value.item()
    t = pa.types
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if t.is_timestamp(target):
        fit = _as_time(value)
    elif t.is_date(target):
        fit = dt.date.fromisoformat(value.strip()) if isinstance(value, str) else value
        fit = None if isinstance(fit, dt.datetime) or not isinstance(fit, dt.date) else fit
    elif t.is_decimal(target):
        fit = Decimal(value.strip()) if isinstance(value, str) else value if number else None
    elif t.is_integer(target):
        fit = int(value) if number and value == int(value) else None
    elif t.is_floating(target):
        fit = float(value) if number and (not isinstance(value, int) or value == float(value)) else None
    elif t.is_boolean(target):
        fit = value if isinstance(value, bool) else None
    else:
        fit = value if isinstance(value, str) else None
    if fit is None:
        raise ValueError(f"{value!r} is not a valid {target}")
    return fit


def _as_time(value: Any) -> Any:
    if isinstance(value, str):
        return to_micros(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time(), dt.UTC)
    return value if isinstance(value, dt.datetime) else None


_WRITTEN = {"TIMESTAMP": "2013-07-04T12:00:00Z", "DATE": "2013-07-04"}
"""Texts of these types."""


def _unfit(row: int | None, value: Any, column: ColumnInfo) -> InvalidData:
    place = "" if row is None else f"row {row}: "
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    facts = {"column": column.name, "row": "-1" if row is None else str(row)}
    if isinstance(value, str) and column.type in _WRITTEN:
        way = f"is not a valid {column.type}; write it as {_WRITTEN[column.type]}"
        return InvalidData(f"{place}{shown} in column {column.name!r} {way}", facts=facts)
    hint = (
        "; write it as text or Decimal, floats are not exact"
        if isinstance(value, float) and "DEC" in column.type
        else ""
    )
    return InvalidData(
        f"{place}{shown} in column {column.name!r} does not fit {column.type} without loss{hint}",
        facts=facts,
    )
