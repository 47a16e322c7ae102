"""Arrow IPC messages of the log, read with care: the log may be of a copy that someone else can write to.

Messages that are compressed are refused, because few bytes would stand for many and PSoup writes none. Offsets are
checked, because Arrow reads what they point to, wherever that is.
"""

from __future__ import annotations

import pyarrow as pa

from psoup.execution.rows.declared_sizes import FAILURES, batch_of


def read_batch(content: bytes | memoryview, schema: pa.Schema) -> pa.RecordBatch:
    """A record batch without its schema. O(bytes of texts). Raises ValueError for other bytes."""
    try:
        _refuse_compressed(content)
        batch = pa.ipc.read_record_batch(pa.py_buffer(content), schema)
        batch.validate(full=True)
    except FAILURES as problem:
        raise _wrong(problem) from problem
    return batch


def read_table(content: bytes | memoryview) -> pa.Table:
    """A stream of record batches. O(bytes of texts). Raises ValueError for other bytes."""
    try:
        _refuse_compressed(content)
        table = pa.ipc.open_stream(pa.py_buffer(content)).read_all()
        table.validate(full=True)
    except FAILURES as problem:
        raise _wrong(problem) from problem
    return table


def _refuse_compressed(content: bytes | memoryview) -> None:
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(content)):
        batch, _ = batch_of(memoryview(message.metadata))
        if batch is not None and batch.place(3) is not None:
            raise ValueError("it is compressed, as PSoup writes none")


def _wrong(problem: Exception) -> ValueError:
    return ValueError((str(problem).splitlines() or [type(problem).__name__])[0])
