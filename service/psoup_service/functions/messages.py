"""Messages between the service and the process of the functions, over a pair of sockets.

kind, length ─ content        CALL     Arrow IPC: a column for each argument; which function is in its metadata
                              VALUES   Arrow IPC: the values, and where the function raised
                              BROKEN   JSON: what the function did that it must not do
                              RAISED   JSON: why it could not be evaluated over these rows
                              HELLO    JSON: the functions that the modules declare, or why they are refused
"""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.expressions.supplied_functions import Answer
from psoup.values.columns import Array

HELLO, CALL, VALUES, BROKEN, RAISED = range(5)
_HEAD = struct.Struct("<BQ")
_MOST_BYTES = 2**31
"""The most bytes of a message. The texts of a call need the most."""
_FUNCTION = b"function"


class Gone(Exception):
    """The error of a closed connection, or of bytes that are not a message."""


def send(end: socket.socket, kind: int, content: bytes | memoryview, until: float | None = None) -> None:
    """Send a message; `until`: a time of `time.monotonic`. Raises Gone, TimeoutError."""
    _limit(end, until)
    try:
        end.sendall(_HEAD.pack(kind, len(content)))
        end.sendall(content)
    except TimeoutError:
        raise
    except OSError:
        raise Gone from None


def receive(end: socket.socket, until: float | None = None) -> tuple[int, bytes]:
    """Receive the next message: its kind, and its content as immutable bytes. Raises Gone, TimeoutError."""
    kind, size = _HEAD.unpack(_read(end, _HEAD.size, until))
    if size > _MOST_BYTES:
        raise Gone
    return kind, _read(end, size, until)


def _read(end: socket.socket, size: int, until: float | None) -> bytes:
    content, at = bytearray(size), 0
    while at < size:
        _limit(end, until)
        try:
            came = end.recv_into(memoryview(content)[at:])
        except TimeoutError:
            raise
        except OSError:
            raise Gone from None
        if not came:
            raise Gone
        at += came
    return bytes(content)


def _limit(end: socket.socket, until: float | None) -> None:
    if until is None:
        end.settimeout(None)
        return
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError
    end.settimeout(left)


def write_call(name: str, arrays: Sequence[pa.Array]) -> memoryview:
    """Encode a call of the function whose signature has the text `name`."""
    fields = [pa.field(str(place), array.type) for place, array in enumerate(arrays)]
    return _ipc(arrays, pa.schema(fields, {_FUNCTION: name.encode()}))


def read_call(content: bytes) -> tuple[str, list[pa.Array]]:
    """Decode a call: the text of the function's signature, and the arguments."""
    batch = _batch(content)
    return batch.schema.metadata[_FUNCTION].decode(), list(batch.columns)


def write_values(answer: Answer) -> memoryview:
    """Encode the values of a call, and the rows in which the function raised."""
    values, raised = answer
    arrays = [values] if raised is None else [values, pa.array(raised)]
    return _ipc(arrays, pa.schema([pa.field(str(place), array.type) for place, array in enumerate(arrays)]))


def read_values(content: bytes) -> Answer:
    """Decode the values, and the rows in which the function raised. Raises Gone for any other content."""
    try:
        values, *rest = _batch(content).columns
        raised: Array | None = np.array(rest[0].to_numpy(zero_copy_only=False), np.bool_) if rest else None
    except (pa.ArrowException, ValueError, StopIteration):
        raise Gone from None
    return values, raised


def text(**facts: Any) -> bytes:
    """Encode facts as the JSON content of a message."""
    return json.dumps(facts).encode("utf-8", "backslashreplace")


def facts(content: bytes) -> dict[str, Any]:
    """The facts in a message's JSON content. Raises Gone for content of any other form."""
    try:
        read = json.loads(content)
    except ValueError:
        raise Gone from None
    if not isinstance(read, dict):
        raise Gone
    return read


def _ipc(arrays: Sequence[pa.Array], schema: pa.Schema) -> memoryview:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays(list(arrays), schema=schema))
    return memoryview(sink.getvalue()).cast("B")


def _batch(content: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
        return reader.read_next_batch()
