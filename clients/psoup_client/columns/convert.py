"""Conversion of callers' rows to an Arrow table that fits a stream.

    pa.Table, pa.RecordBatch, pandas, Polars, DuckDB ...   (any library that exports Arrow)
    [{"a": 1}, {"a": 2}]     {"a": [1, 2]}                 (Python values)

Columns are found by name, in any case. Rows for a table may have the columns `_deleted` and `_patch`, too. Values are
converted if none changes (`psoup_client.columns.casts`). Text becomes TIMESTAMP, DATE and DECIMAL. Floats become
DECIMAL and, if they are whole, BIGINT (pandas makes floats of integers with gaps). A date becomes the first instant of
its day. A time without a zone is UTC. In pandas NaN is NULL, and an index with a name is a column; elsewhere NaN is a
DOUBLE. Raises InvalidData that names the column and the row.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa

from psoup_client.columns.arrays import fit_array
from psoup_client.columns.casts import ISO, REFUSALS, TimeOptions
from psoup_client.columns.frames import columns_of_frame, fit_series, is_pandas, is_series
from psoup_client.columns.lists import fit_list
from psoup_client.columns.misfit_rows import all_misfits
from psoup_client.columns.plain import typed
from psoup_client.errors import LISTED_ROWS, InvalidData, RefusedRow, RowsRefused
from psoup_client.phrases import verb
from psoup_client.schema import ColumnInfo, StreamInfo


def plain_schema(stream: StreamInfo) -> pa.Schema | None:
    """The schema of tables that `to_table` returns as they are, apart from NULLs. None for a table of the service."""
    return None if stream.primary_key else pa.schema([(column.name, column.arrow) for column in stream.columns])


def as_it_is(data: Any, stream: StreamInfo, plain: pa.Schema | None) -> pa.Table | None:
    """Return `data` as a table if `to_table` would change nothing, else None. `plain`: see `plain_schema`. O(columns).

    Raises InvalidData for a NULL that the stream does not take.
    """
    if plain is None or not isinstance(data, pa.Table | pa.RecordBatch):
        return None
    if not data.schema.equals(plain, check_metadata=True):
        return None
    table = pa.Table.from_batches([data]) if isinstance(data, pa.RecordBatch) else data
    for place, column in enumerate(stream.columns):
        if not column.nullable:
            _check_nulls(table.column(place), column, stream)
    return table


def to_table(data: Any, stream: StreamInfo, times: TimeOptions = ISO) -> pa.Table:
    """Convert `data` to a table with columns of `stream` only, in types that the service takes. O(rows)."""
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])  # PyArrow has no arrays of some types, and a table has pieces
    if isinstance(data, pa.Table):
        named = [(name, data.column(i)) for i, name in enumerate(data.schema.names)]
    elif is_pandas(data):
        names = {column.name.lower() for column in pushed_columns(stream)}
        named = columns_of_frame(data, names, f"a column of {stream.kind} {stream.name!r}")
    elif hasattr(data, "__arrow_c_stream__"):
        return to_table(table_of(data), stream, times)
    elif isinstance(data, Mapping):
        named = list(data.items())
    elif isinstance(data, Sequence) and not isinstance(data, str | bytes):
        named = columns_of_rows(data)
        if not named:
            return stream.schema.empty_table()
        if any(str(name).lower() == PATCH.name for name, _ in named):
            check_patches([row for row in data if _is_patch(row)])
    else:
        raise TypeError(
            f"cannot push a {type(data).__name__}: give an Arrow table, a pandas or Polars frame, "
            f"a list of dicts or a dict of lists{_MADE.get(type(data).__name__, '')}"
        )
    return _assemble(named, stream, times)


_MADE = {"generator": ": list(rows)", "Series": ": series.to_frame()"}
"""Types that are nearly rows, and the expression by which the caller converts them."""


def table_of(data: Any) -> pa.Table:
    """Convert an object that exports Arrow to a table. Raises InvalidData unless it has named columns."""
    try:
        return pa.table(data)
    except REFUSALS as problem:
        raise InvalidData(
            f"a {type(data).__name__} is not a table that Arrow reads: {first_line(problem)}; give a frame whose"
            " columns have types of Arrow, a list of dicts or a dict of lists"
        ) from problem


def first_line(problem: BaseException) -> str:
    """Return the first line of the message of an error."""
    return (str(problem).splitlines() or [type(problem).__name__])[0]


def columns_of_rows(rows: Sequence[Any]) -> list[tuple[str, list[Any]]]:
    """Turn rows into columns by name. Raises InvalidData for a row that is not a dict."""
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
    """Find the stream's column for each column, and convert the values."""
    columns_by_name = {column.name.lower(): column for column in columns_for(stream, [name for name, _ in named])}
    given: dict[str, Any] = {}
    for name, values in named:
        folded = str(name).lower()
        if folded not in columns_by_name:
            raise InvalidData(_unknown(str(name), stream), facts={"column": str(name)})
        if folded in given:
            raise InvalidData(f"column {name!r} comes twice; give it once", facts={"column": str(name)})
        given[folded] = values
    fields, arrays = [], []
    for folded, column in columns_by_name.items():
        if folded in given:
            array = _whole_column(given[folded], column, times)
            _check_nulls(array, column, stream)
            fields.append(pa.field(column.name, array.type))
            arrays.append(array)
    missing = [column.name for folded, column in columns_by_name.items() if folded not in given and not column.nullable]
    if missing:
        are = "column {} is" if len(missing) == 1 else "columns {} are"
        raise InvalidData(
            f"{are.format(', '.join(map(repr, missing)))} missing, and {stream.kind} {stream.name!r} says NOT NULL",
            facts={"column": missing[0]},
        )
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1:
        raise InvalidData(
            "the columns have different lengths: "
            + ", ".join(f"{field.name} {len(array)}" for field, array in zip(fields, arrays, strict=True))
        )
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


DELETION = ColumnInfo("_deleted", "BOOLEAN", pa.bool_(), True)
"""The column that rows for a table may have besides the columns of the table: whether the row deletes its key."""


PATCH = ColumnInfo("_patch", "BOOLEAN", pa.bool_(), True)
"""The column that rows for a table may have as well: whether the row keeps the values of columns that it lacks."""


def columns_for(stream: StreamInfo, names: Sequence[object]) -> tuple[ColumnInfo, ...]:
    """The columns that rows for a stream or a table may have. `names`: the columns that they have."""
    hidden = {DELETION.name, PATCH.name}
    return pushed_columns(stream, marked=any(str(name).lower() in hidden for name in names))


def pushed_columns(stream: StreamInfo, *, marked: bool = True) -> tuple[ColumnInfo, ...]:
    """The columns that rows for a stream or a table may have.

    `marked`: whether rows for a table have `_deleted` or `_patch`. Then only the key and the time are NOT NULL here, as
    deletions need no other column. The service checks the other columns, row by row.
    """
    if not (stream.primary_key and marked):
        return stream.columns
    needed = {*stream.primary_key, stream.time_column}
    columns = [column if column.name in needed else replace(column, nullable=True) for column in stream.columns]
    declared = {column.name.lower() for column in columns}
    return (*columns, DELETION, *(() if PATCH.name in declared else (PATCH,)))


def check_patches(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise InvalidData unless all patches, which are dicts, have the same columns. O(values)."""
    hidden = {DELETION.name, PATCH.name}
    names = [{str(name).lower() for name in row} - hidden for row in rows]
    needed: set[str] = set().union(*names)
    for number, given in enumerate(names):
        if given != needed:
            column = min(needed - given)
            raise InvalidData(
                f"row {number}: the patch lacks {column!r}, which another row has; give NULL to set it to NULL, or push"
                " patches with other columns in another call",
                facts={"row": str(number), "column": column},
            )


def _is_patch(row: Mapping[str, Any]) -> bool:
    return any(str(name).lower() == PATCH.name and value is True for name, value in row.items())


def null_reason(column: ColumnInfo, stream: StreamInfo) -> str:
    """Describe why a row with NULL in a column is refused."""
    if column.name in stream.primary_key:
        whole = "the" if len(stream.primary_key) == 1 else "part of the"
        return f"{column.name!r} is NULL; it is {whole} primary key of table {stream.name!r}"
    why = f"the {stream.kind} says NOT NULL" if not column.nullable else f"it is the {stream.kind}'s TIMESTAMP BY"
    return f"{column.name!r} is NULL, but {why}"


def _whole_column(values: Any, column: ColumnInfo, times: TimeOptions) -> pa.Array | pa.ChunkedArray:
    """Convert the values of a column. Raises InvalidData; RowsRefused with all rows if some values do not fit."""
    try:
        return array_of(values, column, times)
    except InvalidData as problem:
        raise all_misfits(values, partial(array_of, column=column, times=times), problem) from problem.__cause__


def _unknown(name: str, stream: StreamInfo) -> str:
    names = [column.name for column in stream.columns]
    near = difflib.get_close_matches(name.lower(), [n.lower() for n in names], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return f"{stream.kind} {stream.name!r} has no column {name!r}; {hint}its columns: {', '.join(names)}"


def _check_nulls(array: pa.Array | pa.ChunkedArray, column: ColumnInfo, stream: StreamInfo) -> None:
    if column.nullable or not array.null_count:
        return
    import pyarrow.compute as pc  # imported here: it takes 40 ms, and most clients do not need it

    why = null_reason(column, stream)
    rows = pc.indices_nonzero(pc.is_null(array))[:LISTED_ROWS].to_pylist()
    later = array.null_count - 1
    raise RowsRefused(
        f"row {rows[0]}: {why}" + (f", as in {later:,} later {verb(later, 'row', 'rows')}" if later else ""),
        rows=tuple(RefusedRow(row, why) for row in rows),
        reason=InvalidData.reason,
        facts={"column": column.name, "row": str(rows[0]), "nulls": str(array.null_count)},
    )


def array_of(values: Any, column: ColumnInfo, times: TimeOptions = ISO) -> pa.Array | pa.ChunkedArray:
    """Convert the values of a column to an array that the service takes. Raises InvalidData that names the row."""
    if is_series(values):
        return fit_series(values, column, times)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return fit_array(values, column, times)
    single = not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0
    if single or isinstance(values, str | bytes | Mapping | Set):
        raise InvalidData(
            f"column {column.name!r} is one {type(values).__name__}; give a list of values, or put a single row in a"
            " list: [{...}]",
            facts={"column": column.name},
        )
    if not isinstance(values, list | tuple):
        try:
            array = typed(values)
        except REFUSALS:
            values = list(values)
        else:
            return fit_array(array, column, times)
    return fit_list(values, column, times)
