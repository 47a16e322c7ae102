"""The declared sizes of an Arrow IPC stream, read before anything is decoded: messages, rows, decoded bytes.

    [prefix | header | body] [prefix | header | body] … [end]
       │         └─ rows, where each buffer lies; compressed ones begin with the length that they decode to
       └─ length of the header

`outline` reads only the lengths, on any thread, and gives up on long or unusual streams. `check` reads everything, as
Arrow does, on the decoding thread.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import pyarrow as pa

from psoup.errors import InvalidBatch
from psoup.execution.rows.arrow_header import Flat
from psoup.execution.rows.declared_sizes import FAILURES, LENGTH, batch_of, declared_sizes
from psoup_service.wire.limits import Limits

PREFIX = struct.Struct("<ii")
MARK = -1

_FEW_MESSAGES = 8
"""The most messages that `outline` reads. Each takes about 10 us."""

SHORT_HEADER = 16 * 1024
"""The most bytes of a header that `outline` reads: enough for the buffers of a thousand columns."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The declared schema, rows and decompressed bytes of a stream.

    The bytes count each dictionary and each value behind a view once.
    """

    schema: pa.Schema
    rows: int
    size: int


def outline(payload: bytes | memoryview, schema: pa.Schema, start: int) -> Outline | None:
    """The outline of a stream whose messages after the schema begin at `start`; None if `check` has to read it.

    Reads lengths only: O(columns). The result may be wrong for streams that Arrow cannot read either.
    """
    rows = size = 0
    view = memoryview(payload)
    try:
        for _ in range(_FEW_MESSAGES):
            if start == len(payload):
                return Outline(schema, rows, size)
            mark, length = PREFIX.unpack_from(payload, start)
            if mark != MARK or not 0 <= length <= SHORT_HEADER:
                return None
            if not length:
                return Outline(schema, rows, size)
            header = view[start + PREFIX.size : start + PREFIX.size + length]
            place = Flat.root(header).place(3)
            body_bytes = LENGTH.unpack_from(header, place)[0] if place is not None else 0
            body = start + PREFIX.size + length
            if not 0 <= body_bytes <= len(payload) - body:
                return None
            batch, plain = batch_of(header)
            if batch is None:
                return None
            count, declared = declared_sizes(batch, view[body : body + body_bytes])
            if count < 0:
                return None
            rows += count if plain else 0
            size += declared
            start = body + body_bytes
    except FAILURES:
        pass
    return None


def check(payload: bytes | memoryview, limits: Limits) -> tuple[int, int]:
    """Return (rows, decompressed bytes) as the messages declare them. Raises InvalidBatch above a limit."""
    rows = size = count = 0
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(payload)):
        count += 1
        if count > limits.batch_messages:
            raise InvalidBatch(
                f"arrow_ipc has more than {limits.batch_messages:,} messages; that is the most in one push, put more"
                " rows into a record batch",
                reason="BATCH_TOO_LARGE",
                limit=limits.batch_messages,
            )
        batch, plain = batch_of(memoryview(message.metadata))
        if batch is None:
            continue
        more, declared = declared_sizes(batch, message.body)
        rows += more if plain else 0
        size += declared
        check_sizes(rows, size, limits)
        if more < 0:
            raise too_large("rows", more, limits.batch_rows)
    return rows, size


def check_sizes(rows: int, size: int, limits: Limits) -> None:
    """Raise InvalidBatch if a push has too many rows or decompressed bytes."""
    if rows > limits.batch_rows:
        raise too_large("rows", rows, limits.batch_rows)
    if size > limits.batch_decoded_bytes:
        raise too_large("bytes once decompressed", size, limits.batch_decoded_bytes)


def too_large(noun: str, size: int, limit: int) -> InvalidBatch:
    """The error for a batch that is too large for one push."""
    return InvalidBatch(
        f"the batch has {size:,} {noun}; {limit:,} is the most in one push, send it in parts",
        reason="BATCH_TOO_LARGE",
        found=size,
        limit=limit,
    )
