"""The declared sizes of an Arrow IPC stream, read before anything is decoded: messages, rows, decoded bytes.

    [prefix | header | body] [prefix | header | body] … [end]
       │         └─ rows, where each buffer lies; compressed ones begin with the length that they decode to
       └─ length of the header

`outline` reads only the lengths, on any thread, and gives up on long or unusual streams. `check` reads everything, as
Arrow does, on the decoding thread. Arrow allocates the declared length and refuses a buffer of any other length. So a
false length costs only the declared bytes.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from psoup.errors import InvalidBatch
from psoup.execution.rows.arrow_header import Flat
from psoup_service.wire.limits import Limits

FAILURES = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, struct.error, OverflowError, IndexError)
"""Errors that reading garbage can raise."""

PREFIX = struct.Struct("<ii")
MARK = -1
_RECORD_BATCH = 3
_DICTIONARY_BATCH = 2
_LENGTH = struct.Struct("<q")
Places = np.ndarray[tuple[int, int], np.dtype[np.int64]]

_FEW_MESSAGES = 8
"""The most messages that `outline` reads. Each takes about 10 us."""

SHORT_HEADER = 16 * 1024
"""The most bytes of a header that `outline` reads: enough for the buffers of a thousand columns."""

_FEW_BUFFERS = 64


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
            body_bytes = _LENGTH.unpack_from(header, place)[0] if place is not None else 0
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


def batch_of(header: memoryview) -> tuple[Flat | None, bool]:
    """Return (batch, True) for a record batch, (batch, False) for a dictionary.

    The batch is None for other messages.
    """
    message = Flat.root(header)
    place = message.place(1)
    kind = header[place] if place is not None else 0
    if kind == _RECORD_BATCH:
        return message.table(2), True
    dictionary = message.table(2) if kind == _DICTIONARY_BATCH else None
    return (dictionary.table(1) if dictionary is not None else None), False


def declared_sizes(batch: Flat, body: pa.Buffer | memoryview | None) -> tuple[int, int]:
    """Return (rows, bytes of the decompressed buffers) as the message declares them.

    Without compression, the bytes are at least those of the body. Buffers that share a place in the body are counted
    separately, because each is copied with its column.
    """
    place = batch.place(0)
    rows = _LENGTH.unpack_from(batch.raw, place)[0] if place is not None else 0
    content = memoryview(b"" if body is None else body)
    vector = batch.vector(2)
    start, count = vector if vector is not None else (0, 0)
    if batch.place(3) is None and count <= _FEW_BUFFERS:  # the usual case, in which NumPy would take ten times as long
        lengths = struct.unpack_from(f"<{2 * count}q", batch.raw, start)[1::2]
        return rows, max(len(content), sum([length for length in lengths if length > 0]))
    places = np.frombuffer(batch.raw, np.int64, 2 * count, start).reshape(count, 2)
    if batch.place(3) is None:
        return rows, max(len(content), sum(places[:, 1].clip(0).tolist()))
    return rows, _decompressed(places[places[:, 1] >= _LENGTH.size], content)


def _decompressed(places: Places, content: memoryview) -> int:
    """The declared decompressed bytes of compressed buffers.

    `places`: int64[n, 2], the offset and the length of each.
    """
    if not len(places):
        return 0
    offsets, lengths = places[:, 0], places[:, 1]
    if int(offsets.min()) < 0 or int(offsets.max()) > len(content) - _LENGTH.size:
        raise ValueError("a buffer lies outside of its message")
    raw = np.frombuffer(content, np.uint8)
    declared = raw[offsets[:, None] + np.arange(_LENGTH.size)].view(np.int64)[:, 0]
    return sum(np.where(declared == -1, lengths, np.maximum(declared, 0)).tolist())
