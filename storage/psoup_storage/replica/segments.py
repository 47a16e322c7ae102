"""Rows of the log as the payload of a segment: an Arrow IPC stream, compressed by zstd.

It has the columns of the table `log`, and `committed`: when the row reached the disk, in microseconds since 1970,
which never decreases. Spooled pushes have all their tuples here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from psoup_storage.durable.log.rows import LogRow

_SCHEMA = pa.schema(
    [
        pa.field("sequence", pa.int64(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),
        pa.field("stream", pa.int64(), nullable=False),
        pa.field("body", pa.large_string(), nullable=False),
        pa.field("refused", pa.large_binary()),
        pa.field("tuples", pa.large_binary()),
        pa.field("last_time", pa.int64()),
        pa.field("checksum", pa.int64(), nullable=False),
        pa.field("committed", pa.int64(), nullable=False),
    ]
)
_BINARY = {"refused", "tuples"}


class CommittedRow(NamedTuple):
    """A row of the log, and the time at which it reached the disk, in microseconds."""

    row: LogRow
    committed: int


def encode_rows(rows: Sequence[CommittedRow]) -> bytes:
    """The payload of a segment. O(bytes)."""
    columns = []
    for field in _SCHEMA:
        values: list[Any]
        if field.name == "committed":
            values = [each.committed for each in rows]
        else:
            values = [getattr(each.row, field.name) for each in rows]
        if field.name in _BINARY:
            values = [None if value is None else bytes(value) for value in values]
        columns.append(pa.array(values, field.type))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(pa.record_batch(columns, _SCHEMA))
    return bytes(sink.getvalue())


def decode_rows(payload: memoryview) -> list[CommittedRow]:
    """The rows of a payload whose checksum is right. Raises ValueError for another schema."""
    table = pa.ipc.open_stream(pa.py_buffer(payload)).read_all()
    if table.schema != _SCHEMA:
        raise ValueError(f"it has the columns {', '.join(table.schema.names)}")
    *fields, committed = [column.to_pylist() for column in table.columns]
    return [CommittedRow(LogRow(*values), time) for *values, time in zip(*fields, committed, strict=True)]


def row_bytes(row: LogRow) -> int:
    """The approximate bytes of a row, before it is compressed."""
    return len(row.body) + len(row.refused or b"") + len(row.tuples or b"")
