"""Deletions from a table: rows with the columns of its key, and `_deleted`.

    key (id)            [7, 9]               ──>  id 7, 9                  _deleted true, true
    key (shop, id)      [("a", 7)]           ──>  shop "a", id 7           _deleted true
    any key             [{"id": 7}], a table ──>  the columns of the key   _deleted true

A deletion in a table with TIMESTAMP BY has a time, as each of its versions has one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from psoup_client.columns.casts import TimeOptions
from psoup_client.columns.convert import DELETION, PATCH, pushed_columns, to_table
from psoup_client.columns.frames import is_series
from psoup_client.columns.zones import instant
from psoup_client.errors import FailedPrecondition, InvalidData
from psoup_client.schema import StreamInfo
from psoup_client.times import Instant, to_micros


def check_table(info: StreamInfo, call: str) -> None:
    """Raise FailedPrecondition for a stream. `call`: the name of the method that is for tables."""
    if not info.primary_key:
        raise FailedPrecondition(
            f"{info.name!r} is a stream, which only grows, and {call} is for tables; add rows with push, or create a"
            " table for rows that change: CREATE TABLE name (column TYPE, PRIMARY KEY (column))",
            reason="WRONG_KIND",
            facts={"stream": info.name},
        )


def deletions(table: StreamInfo, keys: Any, time: Instant | None, times: TimeOptions) -> pa.Table:
    """Make the rows that delete keys of a table. Raises InvalidData for a key that does not fit. O(keys)."""
    needed = [column.name for column in of_keys(table).columns]
    rows = to_table(_rows(table, keys), _of_deletions(table, time), times)
    rows = rows.select([name for name in needed if name in rows.column_names])
    if time is not None:
        rows = rows.drop_columns([name for name in rows.column_names if name == table.time_column])
        times_of_rows = pa.array([to_micros(instant(time, times.zone))] * len(rows), pa.timestamp("us", "UTC"))
        rows = rows.append_column(table.time_column, times_of_rows)
    elif table.time_column not in ("", *rows.column_names):
        raise InvalidData(
            f"table {table.name!r} has TIMESTAMP BY {table.time_column}, so a deletion has a time: give time=..., or"
            f" rows with the column {table.time_column!r}",
            facts={"column": table.time_column},
        )
    return marked(rows)


def of_keys(table: StreamInfo) -> StreamInfo:
    """The table with only the columns that a deletion has: the key and the time."""
    needed = (*table.primary_key, table.time_column)
    return replace(table, columns=tuple(column for column in table.columns if column.name in needed))


def marked(rows: pa.Table) -> pa.Table:
    """The rows with the column `_deleted`, which is true in each. O(rows)."""
    rows = rows.drop_columns([name for name in rows.column_names if name == DELETION.name])
    return rows.append_column(DELETION.name, pa.array([True] * len(rows)))


def _of_deletions(table: StreamInfo, time: Instant | None) -> StreamInfo:
    """The table with columns as deletions have them. Raises InvalidData for a time that a table does not have."""
    if time is not None and not table.time_column:
        raise InvalidData(
            f"table {table.name!r} has no TIMESTAMP BY, so a deletion has the time of its arrival; leave time out",
            facts={"table": table.name},
        )
    columns = [column for column in pushed_columns(table) if column not in (DELETION, PATCH)]
    if time is not None:
        columns = [replace(c, nullable=True) if c.name == table.time_column else c for c in columns]
    return replace(table, columns=tuple(columns))


def _rows(table: StreamInfo, keys: Any) -> Any:
    """The keys as rows, by the names of columns. Raises InvalidData for a key of another number of columns."""
    names = table.primary_key
    listable = isinstance(keys, Iterable) or hasattr(keys, "__arrow_c_stream__")
    if isinstance(keys, str | bytes) or not listable:
        raise TypeError(f"keys is {keys!r}: give a list of keys, such as [{keys!r}]")
    if isinstance(keys, Mapping) or hasattr(keys, "columns"):
        return keys
    if is_series(keys) or isinstance(keys, pa.Array | pa.ChunkedArray):
        return {_only(table): keys}
    listed = list(keys)
    if listed and isinstance(listed[0], Mapping):
        return listed
    if len(names) == 1:
        listed = [key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in listed]
        return {names[0]: listed}
    for row, key in enumerate(listed):
        if not isinstance(key, Sequence) or isinstance(key, str | bytes) or len(key) != len(names):
            raise InvalidData(
                f"row {row}: {key!r} is not a key of table {table.name!r}; give a tuple of {', '.join(names)}",
                facts={"row": str(row)},
            )
    return {name: [key[place] for key in listed] for place, name in enumerate(names)}


def _only(table: StreamInfo) -> str:
    if len(table.primary_key) > 1:
        names = ", ".join(table.primary_key)
        raise InvalidData(f"a key of table {table.name!r} is ({names}); give tuples, or a table with these columns")
    return table.primary_key[0]
