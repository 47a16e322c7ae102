"""Values of parameters: the conversion between rows and columns. Each column has one type.

    [("JFK", 60), ("BOS", None)]   <->   string ["JFK", "BOS"], int64 [60, None]

This module only knows the types of values. The binder gives each value a meaning. If the values of one parameter have
several types, the rows stay rows.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.errors import InvalidInput
from psoup.expressions.conversion import NUMBERS
from psoup.model import DataType, Kind
from psoup.plan.standing_query import Parameter

Columns = tuple[pa.Array, ...]
"""A column for each parameter, of string, int64, float64, decimal128, timestamp('us') (UTC), date32, bool or null."""

_NONE = np.zeros(1, np.int32)
_MAX_DIGITS = 8
"""The most digits before the point, and after it, of the texts that `numbers_of_text` converts to DECIMAL."""

_PLAIN: dict[type, Callable[[], pa.DataType]] = {
    int: pa.int64,
    str: pa.string,
    float: pa.float64,
    datetime.date: pa.date32,
    datetime.datetime: lambda: pa.timestamp("us"),
}


def columns_of_rows(rows: Sequence[Sequence[Parameter]], width: int) -> Columns | None:
    """The columns of rows of `width` values. O(values).

    None if rows differ in length, or if the values of a column have several types.
    """
    if not set(map(type, rows)) <= {tuple, list} or set(map(len, rows)) != {width}:
        return None
    columns = [_column(list(map(itemgetter(place), rows))) for place in range(width)]
    complete = tuple(column for column in columns if column is not None)
    return complete if len(complete) == len(columns) else None


def _column(values: Sequence[Any]) -> pa.Array | None:
    kinds = set(map(type, values)) - {type(None)}
    kind = next(iter(kinds), type(None))
    if len(kinds) > 1 or (kind is datetime.datetime and any(value and value.tzinfo for value in values)):
        return None
    try:
        if kind in _PLAIN:
            return _array(values, _PLAIN[kind]())
        if kind is Decimal and len({value.as_tuple().exponent for value in values if value is not None}) == 1:
            # decimals with equal numbers of digits, so that `as_py` returns the same decimals
            return _array(values, None)
    # a value is too large, or not UTF-8: `bind` refuses it later
    except (pa.ArrowException, ValueError, OverflowError):
        return None
    return None


def _array(values: Sequence[Any], kind: pa.DataType | None) -> pa.Array | None:
    made = pa.array(values, kind)
    return made if isinstance(made, pa.Array) else None  # too much text for one array


def columns_of_table(table: pa.Table) -> Columns:
    """The columns of a table from the wire. Raises InvalidInput for a type whose values cannot be constants of SQL.
    O(values)."""
    if not table.num_columns:
        raise InvalidInput("parameters has no columns; give one for each parameter", field="parameters")
    try:
        table.validate(full=True)  # offsets and UTF-8 from the wire: no offset may lead outside of the buffers
    except pa.ArrowException as problem:
        said = str(problem).splitlines()[0][:200]
        raise InvalidInput(f"parameters is not a valid Arrow table: {said}", field="parameters") from problem
    return tuple(_checked(name, column) for name, column in zip(table.column_names, table.columns, strict=True))


def _checked(name: str, column: pa.ChunkedArray) -> pa.Array:
    try:
        kind = column.type
        if pa.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
        target = _target(column.type)
        if target is not None:
            whole = column.cast(target).combine_chunks()
            return whole if isinstance(whole, pa.Array) else pa.concat_arrays(whole.chunks)
    except (pa.ArrowException, ValueError, OverflowError) as problem:
        said = str(problem).splitlines()[0][:200]
        raise InvalidInput(f"column {name!r} of parameters: {said}", field="parameters", column=name) from problem
    raise InvalidInput(
        f"column {name!r} of parameters is {column.type}; a parameter is a number, a text, a time, a date or a BOOLEAN",
        field="parameters",
        column=name,
    )


def _target(kind: pa.DataType) -> pa.DataType | None:
    """The Arrow type that a column of parameters gets, by the type that the client sent. None if the type is
    refused."""
    t = pa.types
    if t.is_null(kind) or t.is_boolean(kind) or t.is_uint64(kind):
        return kind
    if t.is_integer(kind):
        return pa.int64()
    if t.is_floating(kind):
        return pa.float64()
    if t.is_decimal(kind):
        return kind if t.is_decimal128(kind) or t.is_decimal256(kind) else pa.decimal128(kind.precision, kind.scale)
    if t.is_string(kind) or t.is_large_string(kind) or t.is_string_view(kind):
        return pa.string()
    if t.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz is not None else None)
    return pa.date32() if t.is_date(kind) else None


def column_bytes(column: pa.Array) -> Iterator[bytes]:
    """Yield bytes that identify a column by its type, NULLs and values, whatever its layout in memory. O(bytes)."""
    yield str(column.type).encode()
    if not pa.types.is_string(column.type) and not pa.types.is_int64(column.type):
        yield repr(column.to_pylist()).encode()
        return
    yield np.packbits(column.is_null().to_numpy(zero_copy_only=False)).tobytes()
    if pa.types.is_int64(column.type):
        yield column.fill_null(0).to_numpy().tobytes()
        return
    plain = column.fill_null("")
    offsets = np.frombuffer(plain.buffers()[1], np.int32, len(plain) + 1, 4 * plain.offset) if len(plain) else _NONE
    yield np.diff(offsets).tobytes()
    yield bytes(memoryview(plain.buffers()[2] or b"")[offsets[0] : offsets[-1]])


def numbers_of_text(column: pa.Array, expected: DataType | None) -> pa.Array:
    """Convert a column of texts to numbers, if numbers are expected and all texts have a plain form. O(bytes).

    Else returns the column itself. Then `holes.literal_of` converts each value by itself, to the same constants.
    """
    if expected is None or not pa.types.is_string(column.type):
        return column
    if expected.kind is Kind.DOUBLE:
        return column.cast(pa.float64()) if _all_are(column, r"[0-9]{1,15}(\.[0-9]{1,15})?") else column
    if expected.kind not in NUMBERS:
        return column
    if _all_are(column, "[0-9]{1,18}"):
        return column.cast(pa.int64())
    digits = len(column.drop_null()[0].as_py().partition(".")[2])
    if 0 < digits <= _MAX_DIGITS and _all_are(column, rf"[0-9]{{1,{_MAX_DIGITS}}}\.[0-9]{{{digits}}}"):
        return column.cast(pa.decimal128(_MAX_DIGITS + digits, digits))
    return column


def _all_are(column: pa.Array, digits: str) -> bool:
    return bool(pc.all(pc.match_substring_regex(column, f"^-?{digits}$"), min_count=0).as_py())


def rows_of_columns(columns: Columns, names: Sequence[str] = ()) -> list[tuple[Parameter, ...]]:
    """The rows of some columns. Raises InvalidInput for a value that Python has no type for. O(values)."""
    plain = []
    for place, column in enumerate(columns):
        try:
            plain.append(column.to_pylist())
        except (pa.ArrowException, ValueError, OverflowError) as problem:
            name = names[place] if place < len(names) else str(place + 1)
            said = str(problem).splitlines()[0][:200]
            raise InvalidInput(f"column {name!r} of parameters: {said}", field="parameters", column=name) from problem
    return list(zip(*plain, strict=True))
