"""The declared sizes of an Arrow IPC message, read before anything is decoded: rows, decoded bytes.

    header: rows, and where each buffer lies          body: buffers; compressed ones begin with the length that they
                                                            decode to

A few bytes can declare many. Arrow allocates the declared length and refuses a buffer of any other length. So a false
length costs only the declared bytes, and a caller that has checked them knows what decoding takes.
"""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa

from psoup.execution.rows.arrow_header import Flat

FAILURES = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, struct.error, OverflowError, IndexError)
"""Errors that reading garbage can raise."""
LENGTH = struct.Struct("<q")
_RECORD_BATCH = 3
_DICTIONARY_BATCH = 2
_FEW_BUFFERS = 64
Places = np.ndarray[tuple[int, int], np.dtype[np.int64]]


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

    Without compression, the bytes are at least the body's. Buffers that share a place in the body are counted
    separately, because each is copied with its column.
    """
    place = batch.place(0)
    rows = LENGTH.unpack_from(batch.raw, place)[0] if place is not None else 0
    content = memoryview(b"" if body is None else body)
    vector = batch.vector(2)
    start, count = vector if vector is not None else (0, 0)
    if batch.place(3) is None and count <= _FEW_BUFFERS:  # the usual case, in which NumPy would take ten times as long
        lengths = struct.unpack_from(f"<{2 * count}q", batch.raw, start)[1::2]
        return rows, max(len(content), sum([length for length in lengths if length > 0]))
    places = np.frombuffer(batch.raw, np.int64, 2 * count, start).reshape(count, 2)
    if batch.place(3) is None:
        return rows, max(len(content), sum(places[:, 1].clip(0).tolist()))
    return rows, _decompressed(places[places[:, 1] >= LENGTH.size], content)


def _decompressed(places: Places, content: memoryview) -> int:
    """The declared decompressed bytes of compressed buffers.

    `places`: int64[n, 2], the offset and the length of each.
    """
    if not len(places):
        return 0
    offsets, lengths = places[:, 0], places[:, 1]
    if int(offsets.min()) < 0 or int(offsets.max()) > len(content) - LENGTH.size:
        raise ValueError("a buffer lies outside of its message")
    raw = np.frombuffer(content, np.uint8)
    declared = raw[offsets[:, None] + np.arange(LENGTH.size)].view(np.int64)[:, 0]
    return sum(np.where(declared == -1, lengths, np.maximum(declared, 0)).tolist())
