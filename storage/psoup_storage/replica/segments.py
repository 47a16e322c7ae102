"""Rows of the log as the payload of a segment: an Arrow IPC stream, compressed by zstd.

It has the columns of the table `log`, and `committed`: when the row reached the disk, in microseconds since 1970,
which never decreases. Spooled pushes have all their tuples here.

A few bytes can declare many. So the declared rows and bytes are checked before anything is decompressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from psoup.errors import ResourceExhausted
from psoup.execution.rows.declared_sizes import FAILURES, batch_of, declared_sizes
from psoup_storage.durable.log.rows import KINDS, LogRow, checksum_of
from psoup_storage.replica.objects import NumberedObject, damaged

MOST_BYTES = 512 * 1024 * 1024
"""The most bytes of the rows of a segment. A push has at most half as many (`batch_decoded_bytes`)."""
MOST_ROWS = 262_144
"""The most rows of a segment: sixteen times as many as the queue puts into one."""

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
_REQUIRED = [field.name for field in _SCHEMA if not field.nullable]


class CommittedRow(NamedTuple):
    """A row of the log, and the time at which it reached the disk, in microseconds."""

    row: LogRow
    committed: int


def encode_rows(rows: Sequence[CommittedRow]) -> bytes:
    """The payload of a segment. O(bytes). Raises ResourceExhausted for one that no reader would take."""
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
    batch = pa.record_batch(columns, _SCHEMA)
    if batch.nbytes > MOST_BYTES or batch.num_rows > MOST_ROWS:
        raise ResourceExhausted(
            f"the events from {rows[0].row.sequence:,} on have {batch.nbytes:,} bytes, and a segment has at most"
            f" {MOST_BYTES:,}"
        )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, _SCHEMA, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())


def decode_rows(payload: memoryview) -> list[CommittedRow]:
    """The rows of a payload. O(bytes). Raises ValueError for another schema, and for more than the limits."""
    try:
        _check_declared(payload)
        reader = pa.ipc.open_stream(pa.py_buffer(payload))
        if reader.schema != _SCHEMA:
            raise ValueError(f"it has the columns {', '.join(reader.schema.names)[:200]}")
        rows = list[CommittedRow]()
        for batch in reader:
            batch.validate(full=True)  # offsets may lead outside of the buffers
            if any(batch.column(name).null_count for name in _REQUIRED):
                raise ValueError("a fact of a row is missing")
            *fields, committed = [column.to_pylist() for column in batch.columns]
            rows += [CommittedRow(LogRow(*values), time) for *values, time in zip(*fields, committed, strict=True)]
        return rows
    except FAILURES as problem:
        raise ValueError((str(problem).splitlines() or [type(problem).__name__])[0]) from problem


def _check_declared(payload: memoryview) -> None:
    rows = size = 0
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(payload)):
        batch, plain = batch_of(memoryview(message.metadata))
        if batch is None:
            continue
        more, declared = declared_sizes(batch, message.body)
        rows, size = rows + more, size + declared
        if not plain or more < 0 or rows > MOST_ROWS:
            raise ValueError(f"it declares {rows:,} rows, and {MOST_ROWS:,} are the most")
        if size > MOST_BYTES:
            raise ValueError(f"its rows have {size:,} bytes once decompressed, and {MOST_BYTES:,} are the most")


def rows_of(part: NumberedObject, place: str) -> list[CommittedRow]:
    """The rows of a segment. `place`: the copy. Raises Internal, reason COPY_DAMAGED, if its header differs."""
    try:
        rows = decode_rows(part.payload)
    except ValueError as problem:
        raise damaged(place, part.number, str(problem)) from problem
    before = int(part.facts["after"])
    for row, _ in rows:
        if row.sequence <= before or row.kind not in KINDS or row.checksum != checksum_of(row):
            raise damaged(place, part.number, f"its event {row.sequence:,} is out of order, or has changed")
        before = row.sequence
    if not rows or (rows[0].row.sequence, before) != (part.facts["first"], part.facts["last"]):
        raise damaged(place, part.number, "its events are not those that its header names")
    return rows


def row_bytes(row: LogRow) -> int:
    """The approximate bytes of a row, before it is compressed."""
    return len(row.body) + len(row.refused or b"") + len(row.tuples or b"")
