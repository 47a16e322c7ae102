"""Conversion of tables to Arrow IPC streams below the limit of messages, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from psoup_client.channel.connection import MAX_SEND_BYTES
from psoup_client.errors import InvalidData

BATCH_ROWS = 65_536
"""The default number of rows in a batch."""

BATCH_BYTES = 8 * 1024 * 1024
"""The size in bytes that `split` aims at. The limit of a batch is twice that."""

MESSAGE_ROWS = 1_048_576
"""The greatest number of rows that the service takes in one message."""

_ENVELOPE = 4_096  # bytes of a message besides the payload: names, numbers, field headers


@dataclass(frozen=True, slots=True)
class Payload:
    """A batch for one message: `data` is an Arrow IPC stream of `rows` rows, whose `times` are an Arrow column."""

    data: bytes
    rows: int
    times: Any = None


def split(table: pa.Table, batch_rows: int = BATCH_ROWS, time_column: str = "") -> Iterator[Payload]:
    """Split `table`, in order, into payloads of at most `batch_rows` rows. Each fits a message.

    `time_column`: the column with the rows' times; "" if they have none. Raises InvalidData if a single row does not
    fit.
    """
    start, at = 0, table.schema.get_field_index(time_column) if time_column else -1
    long = table.get_total_buffer_size() > BATCH_BYTES  # unlike nbytes, it reads no values
    while start < table.num_rows:
        rows = min(batch_rows, table.num_rows - start)
        piece = table.slice(start, rows)
        if long and rows > 1 and piece.nbytes > BATCH_BYTES:
            rows = max(1, rows * BATCH_BYTES // piece.nbytes)
            piece = table.slice(start, rows)
        data = _write(piece)
        while len(data) > MAX_SEND_BYTES - _ENVELOPE and rows > 1:
            rows //= 2
            piece = table.slice(start, rows)
            data = _write(piece)
        if len(data) > MAX_SEND_BYTES - _ENVELOPE:
            raise InvalidData(
                f"row {start} takes {len(data):,} bytes; a message holds at most {MAX_SEND_BYTES:,}",
                facts={"row": str(start)},
            )
        yield Payload(data, rows, None if at < 0 else piece.column(at))
        start += rows


def one_message(table: pa.Table, time_column: str) -> Payload | None:
    """Make a payload of all rows of `table`. Returns None if they do not fit into one message."""
    if table.num_rows > MESSAGE_ROWS or table.nbytes > MAX_SEND_BYTES:
        return None
    data = _write(table)
    if len(data) > MAX_SEND_BYTES - _ENVELOPE:
        return None
    return Payload(data, table.num_rows, table.column(time_column) if time_column else None)


def _write(table: pa.Table) -> bytes:
    """Write an Arrow IPC stream with one batch. Plain columns take a third of the time of a writer of PyArrow."""
    if table.num_columns and table.column(0).num_chunks > 1:
        table = table.combine_chunks()
    batches = table.to_batches()
    if len(batches) == 1 and not any(map(pa.types.is_dictionary, table.schema.types)):
        return b"".join((_head(table.schema), batches[0].serialize(), _END))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _head(schema: pa.Schema) -> bytes:
    """The message with the schema. The last one is cached, because a producer sends the same one in each batch."""
    global _last_head
    last, message = _last_head
    if not schema.equals(last, check_metadata=True):
        message = schema.serialize().to_pybytes()
        _last_head = schema, message
    return message


_last_head: tuple[pa.Schema, bytes] = pa.schema([]), pa.schema([]).serialize().to_pybytes()

_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The end of an Arrow IPC stream."""


def read(data: bytes) -> pa.Table:
    """Read the table in a complete Arrow IPC stream. The table shares the memory of `data`."""
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()
