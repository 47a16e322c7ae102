"""Rows as callers have them -> an Arrow table that fits a stream.

    pa.Table, pa.RecordBatch, pandas, Polars, DuckDB ...   (whatever speaks Arrow)
    [{"a": 1}, {"a": 2}]     {"a": [1, 2]}                 (Python values)

Columns are found by name, in any case. Values are converted where none is changed (`psoup_client.casts`): text to
TIMESTAMP, DATE and DECIMAL, floats to DECIMAL and, if they are whole, to BIGINT (pandas makes floats of integers with
gaps). A time without a zone is UTC. In pandas, NaN is NULL, as pandas means it; elsewhere NaN is a DOUBLE. Raises
InvalidData that names the column and the row.
"""

from __future__ import annotations

import datetime as dt
import difflib
import re
import sys
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from psoup_client.casts import ISO, TimeOptions, cast, goes_as_it_is, may_convert
from psoup_client.errors import InvalidData
from psoup_client.schema import ColumnInfo, StreamInfo
from psoup_client.times import to_micros

_ARROW_ERRORS = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, TypeError, ValueError)


def to_table(data: Any, stream: StreamInfo, times: TimeOptions = ISO) -> pa.Table:
    """Make `data` a table with columns of `stream` only, each of a type that the service takes. O(rows)."""
    if isinstance(data, pa.Table | pa.RecordBatch):
        named = [(name, data.column(i)) for i, name in enumerate(data.schema.names)]
    elif is_pandas(data):
        named = [(str(name), _SeriesValues(data.iloc[:, i])) for i, name in enumerate(data.columns)]
    elif hasattr(data, "__arrow_c_stream__"):
        return to_table(pa.table(data), stream, times)
    elif isinstance(data, Mapping):
        named = list(data.items())
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        named = columns_of_rows(data)
        if not named:
            return stream.schema.empty_table()
    else:
        raise TypeError(
            f"cannot push a {type(data).__name__}: give an Arrow table, a pandas or Polars frame, "
            f"a list of dicts or a dict of lists{_MADE.get(type(data).__name__, '')}"
        )
    return _assemble(named, stream, times)


_MADE = {"generator": ": list(rows)", "Series": ": series.to_frame()"}
"""How what is nearly rows becomes rows."""


class _SeriesValues:
    """A pandas column, so that `_array` knows that NaN means NULL."""

    def __init__(self, series: Any) -> None:
        self.series = series


def is_pandas(data: Any) -> bool:
    """Whether it is a frame of pandas: none exists before pandas is imported, or while it is being imported."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return frame is not None and isinstance(data, frame)


def columns_of_rows(rows: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Turn rows into columns by name; raises InvalidData for what is not a dict."""
    names: dict[str, None] = {}
    for number, row in enumerate(rows):
        if not isinstance(row, Mapping):
            raise InvalidData(
                f"row {number} is a {type(row).__name__}: every row must be a dict of values by column",
                facts={"row": str(number)},
            )
        names.update(dict.fromkeys(row))
    return [(name, [row.get(name) for row in rows]) for name in names]


def _assemble(named: Sequence[tuple[str, Any]], stream: StreamInfo, times: TimeOptions) -> pa.Table:
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
            array = array_of(given[folded], column, times)
            _check_nulls(array, column)
            fields.append(pa.field(column.name, array.type))
            arrays.append(array)
    missing = [column.name for folded, column in known.items() if folded not in given and not column.nullable]
    if missing:
        are = "column {} is" if len(missing) == 1 else "columns {} are"
        raise InvalidData(
            f"{are.format(', '.join(map(repr, missing)))} missing, and stream {stream.name!r} says NOT NULL",
            facts={"column": missing[0]},
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


def array_of(values: Any, column: ColumnInfo, times: TimeOptions = ISO) -> pa.Array | pa.ChunkedArray:
    """Make the values of a column an array that the service takes; raises InvalidData that names the row."""
    if isinstance(values, _SeriesValues):
        return _from_series(values.series, column, times)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return _from_arrow(values, column, times)
    if isinstance(values, str | bytes) or not hasattr(values, "__len__"):
        raise InvalidData(
            f"column {column.name!r} is one {type(values).__name__}; give a list of values, or put a single row in a"
            " list: [{...}]"
        )
    if isinstance(values, list | tuple):
        return _from_python(values, column, times)
    try:
        return _from_arrow(pa.array(values), column, times)
    except _ARROW_ERRORS:
        return _from_python(list(values), column, times)


def _from_series(series: Any, column: ColumnInfo, times: TimeOptions) -> pa.Array | pa.ChunkedArray:
    try:
        return _from_arrow(pa.Array.from_pandas(series), column, times)
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # objects of several types
        return _from_python([None if value != value else value for value in series.tolist()], column, times)


# Arrow to Arrow ------------------------------------------------------------------------------------------


def _from_arrow(
    array: pa.Array | pa.ChunkedArray, column: ColumnInfo, times: TimeOptions
) -> pa.Array | pa.ChunkedArray:
    if pa.types.is_dictionary(array.type):
        array = _decode(array)
    if array.type == column.arrow or pa.types.is_null(array.type) or goes_as_it_is(array.type, column.arrow):
        return array
    if not may_convert(array.type, column.arrow, times):
        counts = column.type == "TIMESTAMP" and (pa.types.is_integer(array.type) or pa.types.is_floating(array.type))
        raise InvalidData(
            f"column {column.name!r} is {column.type}, but the data has {array.type}"
            + (_COUNTS if counts else "; convert it first"),
            facts={"column": column.name},
        )
    try:
        return cast(array, column.arrow, times)
    except _ARROW_ERRORS as problem:
        row = _first_bad_row(array, column.arrow, times)
        raise _unfit(row, None if row is None else _value(array[row]), column, times) from problem


def _decode(array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Write out the values of a dictionary array."""
    if isinstance(array, pa.ChunkedArray):
        return pa.chunked_array([_decode(chunk) for chunk in array.chunks], None if array.num_chunks else pa.string())
    values = array.dictionary
    if pa.types.is_string_view(values.type):  # Polars has these; pyarrow cannot take rows of them
        values = values.cast(pa.large_string())
    return values.take(array.indices)


def _value(scalar: pa.Scalar) -> Any:
    try:
        return scalar.as_py()
    except ValueError:  # nanoseconds, which a datetime does not have
        return scalar.cast(pa.timestamp("us", scalar.type.tz), safe=False).as_py()


def _first_bad_row(array: pa.Array | pa.ChunkedArray, target: pa.DataType, times: TimeOptions) -> int | None:
    """Find the first row that cannot be converted, by halving. O(rows) conversions in all."""
    low, high = 0, len(array)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            cast(array.slice(low, middle - low), target, times)
            low = middle
        except _ARROW_ERRORS:
            high = middle
    return low if high > low else None


# Python values to Arrow ----------------------------------------------------------------------------------


def _from_python(values: Sequence[Any], column: ColumnInfo, times: TimeOptions) -> pa.Array | pa.ChunkedArray:
    try:
        # Without a type: given one, pyarrow cuts 1.5 to a BIGINT of 1 and takes 1 as a DATE.
        return _from_arrow(pa.array(values), column, times)
    except (InvalidData, *_ARROW_ERRORS):
        pass  # values of several types, or one that does not fit: now one by one
    converted = []
    for row, value in enumerate(values):
        try:
            converted.append(None if value is None else _one(value, column.arrow, times))
            pa.scalar(converted[-1], column.arrow)
        except (*_ARROW_ERRORS, InvalidOperation) as problem:
            raise _unfit(row, value, column, times) from problem
    return pa.array(converted, column.arrow)


def _one(value: Any, target: pa.DataType, times: TimeOptions) -> Any:
    """Give a Python value the form that pyarrow takes for `target` without loss; raises ValueError if none does."""
    if hasattr(value, "item"):  # a scalar of NumPy
        value = value.item()
    t = pa.types
    number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
    if t.is_timestamp(target):
        fit = _as_time(value, target, times)
    elif t.is_date(target):
        fit = cast(pa.array([value]), target, times)[0].as_py() if isinstance(value, str) else value
        fit = None if isinstance(fit, dt.datetime) or not isinstance(fit, dt.date) else fit
    elif t.is_decimal(target):
        fit = Decimal(value.strip()) if isinstance(value, str) else value if number else None
        fit = cast(pa.array([value]), target, times)[0].as_py() if isinstance(value, float) else fit
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


def _as_time(value: Any, target: pa.DataType, times: TimeOptions) -> Any:
    if times != ISO and isinstance(value, str | int | float) and not isinstance(value, bool):
        return cast(pa.array([value]), target, times)[0].as_py()
    if isinstance(value, str):
        return None if _FINER.search(value) else to_micros(value)
    if isinstance(value, dt.date) and not isinstance(value, dt.datetime):
        return dt.datetime.combine(value, dt.time(), dt.UTC)
    return value if isinstance(value, dt.datetime) else None


_COUNTS = '; if it counts from 1970, say what: time_unit="s" (--time-unit s), or "ms", "us", "ns"'

_TAKEN = {
    ("TEXT", int): "; give it as a text",
    ("TEXT", float): "; give it as a text",
    ("BIGINT", str): "; give a whole number",
    ("BIGINT", float): "; round it, or make the column DOUBLE",
    ("BOOLEAN", str): "; give True or False",
    ("BOOLEAN", int): "; give True or False",
}
"""What to do with a value of that Python type for a column of that type."""

_COUNT = re.compile(r"[+-]?\d{9,19}(\.\d*)?")
"""A text that looks like a number of seconds since 1970, or of less."""

_FINER = re.compile(r"[.,]\d{6}\d*[1-9]")
"""A part of a second below a microsecond."""

_WRITTEN = {"TIMESTAMP": "2013-07-04T12:00:00Z", "DATE": "2013-07-04"}
"""Texts of these types."""


def _unfit(row: int | None, value: Any, column: ColumnInfo, times: TimeOptions) -> InvalidData:
    place = "" if row is None else f"row {row}: "
    shown = repr(value) if len(repr(value)) <= 80 else repr(value)[:77] + "..."
    facts = {"column": column.name, "row": "-1" if row is None else str(row)}
    if isinstance(value, str) and column.type == "TIMESTAMP" and _COUNT.fullmatch(value.strip()) and not times.unit:
        return InvalidData(f"{place}{shown} in column {column.name!r} is not a valid TIMESTAMP{_COUNTS}", facts=facts)
    if isinstance(value, str) and column.type in _WRITTEN:
        written = f"write it as {_WRITTEN[column.type]}, or name its form (psoup push --date-format)"
        way = f"is not a valid {column.type}; {written}"
        return InvalidData(f"{place}{shown} in column {column.name!r} {way}", facts=facts)
    hint = _way_out(value, column, times)
    return InvalidData(
        f"{place}{shown} in column {column.name!r} does not fit {column.type} without loss{hint}",
        facts=facts,
    )


def _way_out(value: Any, column: ColumnInfo, times: TimeOptions) -> str:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if pa.types.is_decimal(column.arrow) and isinstance(value, float):
        small = abs(value) < 10 ** (column.arrow.precision - column.arrow.scale)
        if small:
            return f"; round it to {column.arrow.scale} digits, or give text or Decimal"
    if column.type == "TIMESTAMP" and isinstance(value, dt.datetime):
        return "; a TIMESTAMP has microseconds: round it"
    if column.type == "TIMESTAMP" and number:
        return f", as {times.unit} since 1970" if times.unit else _COUNTS
    if pa.types.is_decimal(column.arrow) and number:
        return f"; it has {column.arrow.precision - column.arrow.scale} digits before the point"
    return _TAKEN.get((column.type, type(value)), "")
