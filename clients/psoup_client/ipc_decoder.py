"""A decoder of Arrow IPC that comes in pieces: bytes in, record batches out. It never waits.

take(schema)  []     take(batch, batch)  [b0, b1]     take(half of a batch)  []     take(the rest)  [b2]     end()
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from psoup_client.errors import ServerFault

_INCOMPLETE = (pa.ArrowInvalid, OSError)
"""The exceptions of PyArrow for a message whose end is missing."""
_END = b"\xff\xff\xff\xff\0\0\0\0"
"""The end of an Arrow IPC stream, which may be left out."""


class IpcDecoder:
    """Reads a stream of Arrow IPC piece by piece. `schema`: None until its message has come."""

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None
        self._rest = b""

    def take(self, data: bytes) -> list[pa.RecordBatch]:
        """Read the next bytes. Returns the batches that are complete. They share the memory of `data`."""
        return [*self._batches(self._rest + data if self._rest else data)]

    def _batches(self, data: bytes) -> Iterator[pa.RecordBatch]:
        source, read = pa.BufferReader(pa.py_buffer(data)), 0
        while read < len(data):
            try:
                message = pa.ipc.read_message(source)
            except EOFError:  # the mark of the end
                break
            except _INCOMPLETE:
                break
            read = source.tell()
            if self.schema is None:
                self.schema = pa.ipc.read_schema(message)
            else:
                yield pa.ipc.read_record_batch(message, self.schema)
        self._rest = data[read:]

    def end(self) -> None:
        """Say that no more bytes come. Raises ServerFault if a message is incomplete, or the schema is missing."""
        if self.schema is None or self._rest not in (b"", _END):
            raise ServerFault("the service ended an answer in the middle of a message")
