"""The tables and views of copies: the columns of rows, and the columns and order of a view.

rows_3   _id INTEGER PRIMARY KEY, c1 (the time), c2 … columns of the answer, … keys of ORDER BY
         c0, c1 … the tuple IDs of a join, together the PRIMARY KEY, … columns of the answer, … keys of ORDER BY
         _id: the place in the answer, c0 … columns of the answer, if rows have no tuple IDs
view     the columns of the answer by their names, each different, as people read them, in the order of the answer
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate

import numpy as np
import pyarrow as pa

from psoup_client.copies.held_rows import hidden_columns
from psoup_client.copies.places import Positions
from psoup_proto.column_names import unique_names
from psoup_proto.v1 import sync_pb2
from psoup_recharge.values import declared, ordering, shown


def create_table(number: int, form: sync_pb2.CopyForm) -> str:
    """Write the statement that creates the table of a copy's rows."""
    columns = [f"c{place} {declared(field.type)}" for place, field in enumerate(schema_of(form))]
    if form.id_columns > 1:
        return (
            f"CREATE TABLE rows_{number} ({', '.join(columns)}, PRIMARY KEY ({', '.join(ids_of(form))})) WITHOUT ROWID"
        )
    return f"CREATE TABLE rows_{number} (_id INTEGER PRIMARY KEY, {', '.join(columns[0 if form.whole else 1 :])})"


def create_view(name: str, number: int, form: sync_pb2.CopyForm) -> str:
    """Write the statement that creates the view of a copy."""
    visible, places = shown_columns(form)
    triples = zip(places, visible, unique_names(visible.names), strict=True)
    outputs = [f"{shown(f'c{place}', field.type)} AS {quoted(name)}" for place, field, name in triples]
    rows = f"rows_{number}{still_there(form, '(SELECT now FROM clock_now)')}"
    order = order_of(form, f"rows_{number}")
    return f'CREATE VIEW "{name}" AS SELECT {", ".join(outputs)} FROM {rows} ORDER BY {order}'


def still_there(form: sync_pb2.CopyForm, now: str) -> str:
    """Write the condition that hides rows which have left a sliding window.

    Returns an empty text if the rows have no time to tell that. `now`: SQL for NOW in microseconds; NULL if it is
    unknown.
    """
    if not (form.ages and form.by_clock and form.HasField("width")):
        return ""
    time = f"c{hidden_columns(form) - 1}"
    return f" WHERE {time} >= coalesce({now} - {form.width}, {time})"


def schema_of(form: sync_pb2.CopyForm) -> pa.Schema:
    """The schema of the rows in a reply: hidden columns, columns of the answer, keys of ORDER BY."""
    return pa.ipc.read_schema(pa.py_buffer(form.schema_ipc))


def shown_columns(form: sync_pb2.CopyForm) -> tuple[pa.Schema, list[int]]:
    """The schema of the answer's columns, and the positions of these columns in a row of a reply."""
    schema = schema_of(form)
    places = list(range(hidden_columns(form), len(schema) - len(form.sort_keys)))
    return pa.schema([schema.field(place) for place in places]), places


def order_of(form: sync_pb2.CopyForm, rows: str) -> str:
    """Write the terms of ORDER BY that give the order of the answer.

    `rows`: the table's name. The terms are qualified by it, because a view may have a column that is also called c3.
    """
    schema, terms = schema_of(form), list[str]()
    first = len(schema) - len(form.sort_keys)
    for place, key in enumerate(form.sort_keys, first):
        kind = schema.field(place).type
        terms += ordering(f"{rows}.c{place}", kind, descending=key.descending, nulls_first=key.nulls_first)
    return ", ".join([*terms, *[f"{rows}.{name}" for name in ids_of(form)]])


def ids_of(form: sync_pb2.CopyForm) -> list[str]:
    """The columns of the primary key."""
    return [f"c{place}" for place in range(form.id_columns)] if form.id_columns > 1 else ["_id"]


def leaving(form: sync_pb2.CopyForm, keep: Sequence[int]) -> Iterator[tuple[str, list[int]]]:
    """Write the conditions that select the rows to delete, with their values.

    `keep`: the intervals of tuple IDs that stay. Their ends are given as differences.
    """
    ends = list(accumulate(keep))
    if form.id_columns > 1:
        outside = [f"c{place} < ? OR c{place} >= ?" for place in range(len(ends) // 2)]
        yield " OR ".join(outside) or "true", ends
        return
    ends = [-(2**63), *ends, 2**63 - 1]
    for low, high in zip(ends[::2], ends[1::2], strict=True):
        yield "_id >= ? AND _id < ?", [low, high]


def intervals(differences: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Decode intervals whose ends are given as differences."""
    ends = list(accumulate(differences))
    yield from zip(ends[::2], ends[1::2], strict=True)


def moves(before: Positions, after: Positions) -> Iterator[tuple[int, int, int]]:
    """Find the moves of rows whose place changes: the distance, the first row and the last.

    Neighbours with the same distance are one move. O(rows), in NumPy.
    """
    by = after - before
    starts = np.flatnonzero(np.diff(by, prepend=0))
    ends = [*(starts[1:] - 1), -1][: len(starts)]
    ranges = zip(by[starts].tolist(), before[starts].tolist(), before[ends].tolist(), strict=True)
    return (move for move in ranges if move[0])


def quoted(name: str) -> str:
    """Quote a name for SQL."""
    return '"' + name.replace('"', '""') + '"'
