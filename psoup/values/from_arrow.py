"""Conversion of Arrow arrays to columns: finds each by name, checks it, and refuses values that would change.

    table  a: int32, b: string  ──> names ──> types ──> values, NULLs ──> columns of a stream's schema
                                  └────────────┴─ InvalidBatch: the column, and the first bad row

An array that already has the engine's form shares its memory (`psoup.values.kinds`).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidBatch
from psoup.model import FIRST_VERSION, PATCH, DataType, Kind, Schema, positions
from psoup.values.columns import Column, empty_column, null_column
from psoup.values.kinds import TYPES, accepts, memory_type


def columns_from_arrow(schema: Schema, table: pa.Table | pa.RecordBatch, name: str = "") -> tuple[Column, ...]:
    """The columns of `table` in the schema's order and types.

    Columns are found by name (any case) and converted if no value is lost. A nullable attribute may be missing: missing
    attributes of one type share a column of NULL. Raises InvalidBatch with the column, and the first bad row if there
    is one. `name`: the stream or table, for errors.
    """
    places = positions(schema, table.schema.names)
    columns = []
    missing: dict[DataType, Column] = {}
    for attribute in schema.attributes:
        at = places.get(attribute.name.lower(), -1)
        if at < 0:
            if attribute.type not in missing:
                missing[attribute.type] = null_column(attribute.type, table.num_rows)
            columns.append(missing[attribute.type])
            continue
        name_given = PATCH if attribute is FIRST_VERSION else attribute.name
        column = column_from_arrow(name_given, attribute.type, _column(table, at))
        if not attribute.nullable and column.valid is not None:
            row = int(np.argmin(column.valid))
            why = _null_reason(schema, attribute.name, name)
            raise InvalidBatch(f"row {row}: {attribute.name!r} is NULL{why}", column=attribute.name, row=row)
        columns.append(column)
    return tuple(columns)


def _null_reason(schema: Schema, column: str, name: str) -> str:
    """The reason why an attribute is not NULL. In the schema of a table, the primary key is NOT NULL and nothing else.

    `name`: the table.
    """
    if schema.noun == "stream":
        return ", but the stream says NOT NULL"
    key = [attribute.name for attribute in schema.shown if not attribute.nullable]
    return f"; it is {'the' if key == [column] else 'part of the'} primary key of table {name!r}"


def _column(table: pa.Table | pa.RecordBatch, at: int) -> pa.Array | pa.ChunkedArray:
    """The column of `table` at position `at`.

    PyArrow has no array class for some types, such as month_interval. Such a column is a ChunkedArray.
    """
    try:
        return table.column(at)
    except KeyError:
        return pa.Table.from_batches([table]).column(at)


def column_from_arrow(name: str, data_type: DataType, source: pa.Array | pa.ChunkedArray) -> Column:
    """Convert an Arrow array to a column of `data_type`. Raises InvalidBatch if a value would change."""
    target = memory_type(data_type)
    same = source.type == target
    if not same:
        _check_type(name, data_type, source.type)
    if isinstance(source, pa.ChunkedArray):
        if source.num_chunks == 0:  # Arrow cannot make an empty array of every type
            source = pa.nulls(0)
        else:
            source = source.combine_chunks() if source.num_chunks != 1 else source.chunk(0)
    if isinstance(source, pa.ChunkedArray):  # combine_chunks of an over-long text column stays chunked
        raise InvalidBatch(f"column {name!r} is too large for one batch; send smaller batches", column=name)
    array = source if same else _convert(name, data_type, source, target)
    valid = None
    if array.null_count:
        valid = pc.is_valid(array).to_numpy(zero_copy_only=False)
    rows = len(array)
    if not rows:  # its buffers may be missing
        return empty_column(data_type)
    if data_type.kind is Kind.TEXT:
        _, offsets_buffer, data_buffer = array.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64, rows + 1, 8 * array.offset)
        data = np.zeros(0, np.uint8) if data_buffer is None else np.frombuffer(data_buffer, np.uint8)
        column = Column(data_type, offsets, valid, data)
        return clear_null_text(column) if valid is not None else column
    if data_type.kind is Kind.BOOLEAN:
        values = array.fill_null(False).to_numpy(zero_copy_only=False)
        return Column(data_type, values, valid)
    dtype = TYPES[data_type.kind].dtype
    # The count is needed: a buffer from the wire may be longer than its values, and no multiple of their size.
    values = np.frombuffer(array.buffers()[1], dtype, rows, dtype.itemsize * array.offset)
    if valid is not None:
        values = np.where(valid, values, np.zeros(1, dtype))
    return Column(data_type, values, valid)


def clear_null_text(column: Column) -> Column:
    """Replace the texts of NULL rows by empty texts. In Arrow such rows may have bytes."""
    if not np.diff(column.values)[~column.valid].any():  # type: ignore[operator]
        return column
    full = Column(column.type, column.values, None, column.data)
    lengths = np.where(column.valid, np.diff(column.values), 0)  # type: ignore[arg-type]
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    rows = np.flatnonzero(column.valid)  # type: ignore[arg-type]
    return Column(column.type, offsets, column.valid, full.take(rows).data)


def _check_type(name: str, data_type: DataType, source: pa.DataType) -> None:
    plain = source.value_type if pa.types.is_dictionary(source) else source
    if not accepts(data_type, plain):
        raise InvalidBatch(f"column {name!r} is {data_type}, but the batch has {source}; convert it first", column=name)


def _convert(name: str, data_type: DataType, source: pa.Array, target: pa.DataType) -> pa.Array:
    """Convert `source` to the Arrow type with the engine's memory layout."""
    if pa.types.is_dictionary(source.type):
        source = source.dictionary_decode()
    try:
        return _cast(source, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as problem:
        row = _first_bad_row(source, target)
        value = "a value" if row is None else _written(source[row])
        place = "" if row is None else f"row {row}: "
        raise InvalidBatch(
            f"{place}{value} in column {name!r} does not fit {data_type} without loss",
            column=name,
            row=-1 if row is None else row,
        ) from problem


def _written(value: pa.Scalar) -> str:
    try:
        return repr(value.as_py())
    except (ValueError, ArithmeticError, KeyError):  # a year that Python's datetime lacks, an unknown zone
        return "the value"


def _cast(source: pa.Array, target: pa.DataType) -> pa.Array:
    if source.type == target:
        return source
    if pa.types.is_timestamp(source.type):  # instants: a zone only changes their text
        source = source.cast(pa.timestamp(source.type.unit))
    if pa.types.is_decimal(target) and not pa.types.is_null(source.type):
        wide = pa.decimal128(38, target.scale)
        if not pa.types.is_decimal(source.type):
            source = source.cast(pa.decimal128(20, 0))
        return source.cast(wide).cast(pa.decimal128(target.precision, target.scale)).cast(target)
    return source.cast(target)


def _first_bad_row(source: pa.Array, target: pa.DataType) -> int | None:
    """The first row whose value cannot be converted. Found by repeated halving, with O(n) conversions in all."""
    low, high = 0, len(source)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            _cast(source.slice(low, middle - low), target)
            low = middle
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            high = middle
    return low if high > low else None
