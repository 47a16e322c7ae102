"""Arrow IPC off the wire: a push's bytes as a table, or InvalidBatch. Nothing that a client sends gets further.

    bytes ── envelope: messages, declared sizes ──> pa.ipc ──> types, view and dictionary sizes ──> pa.Table
      │      (before anything is decompressed)                 (before anything is expanded)
      └───── one plain batch, of a schema seen before ──────────────────────────────> pa.RecordBatch

A few bytes can stand for many: compressed buffers, a dictionary or a view that names one long text a million times, a
column of type null with a billion rows. So every size is computed before it is allocated. Whether offsets and UTF-8
are sound is checked by the admission, when it reads the columns; here only where sizes are computed from them.
"""

from __future__ import annotations

import hashlib
import struct
from contextlib import suppress

import numpy as np
import pyarrow as pa

from psoup.answer import Flat
from psoup.errors import InvalidBatch
from psoup_service.limits import Limits

_ALIGNED = pa.ipc.IpcReadOptions(use_threads=False, ensure_alignment=pa.ipc.Alignment.DataTypeSpecific)
_FAILURES = (pa.ArrowException, OSError, ValueError, TypeError, KeyError, struct.error, OverflowError, IndexError)
_RECORD_BATCH, _DICTIONARY_BATCH = 3, 2
_PREFIX = struct.Struct("<ii")
_MARK = -1
_END = _PREFIX.pack(_MARK, 0)
"""What begins a message, before the length of its header; without a header it is the end of a stream."""

_REMEMBERED, _REMEMBERED_BYTES = 256, 16 * 1024
"""Schemas that are remembered, and the most bytes of one."""


def digest(payload: bytes) -> bytes:
    """16 bytes that identify a payload; the same rows encoded otherwise have another. O(bytes)."""
    return hashlib.blake2b(payload, digest_size=16).digest()


def decode_push(payload: bytes, limits: Limits) -> pa.Table | pa.RecordBatch:
    """As `decode`; a stream of one batch of plain columns is given as that, in a fifth of the time if it is small."""
    with suppress(*_FAILURES, EOFError):  # what is wrong is found, and said, by the general way
        batch = _plain(payload, limits)
        if batch is not None:
            return batch
    return decode(payload, limits)


def decode(payload: bytes, limits: Limits) -> pa.Table:
    """The table in an Arrow IPC stream, sharing memory with `payload` where it is not compressed.

    Raises InvalidBatch for anything else: what is wrong, and what to send instead. O(messages) when not compressed.
    """
    if not payload:
        raise InvalidBatch("arrow_ipc is empty; send an Arrow IPC stream (a schema message, then record batches)")
    try:
        _check_envelope(payload, limits)
        source = pa.BufferReader(pa.py_buffer(payload))
        with pa.ipc.open_stream(source, options=_ALIGNED) as reader:
            _check_schema(reader.schema, limits)
            table = reader.read_all()
            _check_end(len(payload) - source.tell())
        _check_expansion(table, limits)
    except InvalidBatch:
        raise
    except MemoryError as problem:
        raise InvalidBatch("the batch asks for more memory than there is; send smaller batches") from problem
    except _FAILURES as problem:
        said = str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__
        raise InvalidBatch(
            f"arrow_ipc is no Arrow IPC stream: {said}; send a schema message, then record batches",
            reason="NOT_ARROW",
        ) from problem
    return table


def _plain(payload: bytes, limits: Limits) -> pa.RecordBatch | None:
    """The batch of a stream that has just one, if nothing in it grows: no compression, no dictionary, no view.

    None, or a failure, for any other stream. O(columns).
    """
    mark, size = _PREFIX.unpack_from(payload)
    start = _PREFIX.size + size
    head = payload[:start]
    schema = _schemas.get(head)
    if schema is None:
        schema = _plain_schema(head, limits)
        if schema is None:
            return None
        if len(_schemas) >= _REMEMBERED:
            _schemas.clear()
        if start <= _REMEMBERED_BYTES:
            _schemas[head] = schema
    mark, size = _PREFIX.unpack_from(payload, start)
    message = pa.ipc.read_message(pa.py_buffer(payload).slice(start))
    body = message.body
    if mark != _MARK or payload[start + _PREFIX.size + size + body.size :] not in (b"", _END):
        return None
    raw = memoryview(message.metadata)
    batch = _header(raw)
    if batch is None or message.type != "record batch" or batch.place(3) is not None or body.address % 8:
        return None
    rows, held = _declared(batch, body)
    buffers = batch.vector(2)
    if not 0 <= rows <= limits.batch_rows or held > limits.batch_decoded_bytes or buffers is None:
        return None
    if any(place % 8 for place in struct.unpack_from(f"<{2 * buffers[1]}q", raw, buffers[0])[::2]):
        return None
    return pa.ipc.read_record_batch(message, schema)


def _plain_schema(head: bytes, limits: Limits) -> pa.Schema | None:
    """The schema in a message, if all values of its columns are as long as their buffers say; fails for bad names."""
    message = pa.ipc.read_message(pa.py_buffer(head))
    found = Flat.root(memoryview(message.metadata)).table(2)
    if message.type != "schema" or found is None or found.place(0) is not None:  # 0: in the order of another machine
        return None
    schema = pa.ipc.read_schema(message)
    _check_schema(schema, limits)
    for _, kind in zip(schema.names, schema.types, strict=True):
        if pa.types.is_dictionary(kind) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
            return None
    return schema


_schemas: dict[bytes, pa.Schema] = {}
"""By their messages. Callers send the same ones again and again."""


def _check_end(left: int) -> None:
    """A second stream behind the first would be acknowledged and lost."""
    if left:
        raise InvalidBatch(
            f"arrow_ipc goes on for {left:,} bytes after the end of the Arrow IPC stream; send one stream in a push",
            reason="NOT_ARROW",
        )


def _check_envelope(payload: bytes, limits: Limits) -> None:
    """Rows and decoded bytes as the messages declare them; reads no buffer but the lengths in compressed ones."""
    rows = size = 0
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(payload)):
        table = _header(memoryview(message.metadata))
        if table is None:
            continue
        count, compressed = _declared(table, message.body)
        rows += count if message.type == "record batch" else 0
        size += compressed
        if rows > limits.batch_rows or count < 0:
            raise _too_large("rows", rows, limits.batch_rows)
        if size > limits.batch_decoded_bytes:
            raise _too_large("bytes once decompressed", size, limits.batch_decoded_bytes)


def _too_large(what: str, found: int, limit: int) -> InvalidBatch:
    return InvalidBatch(
        f"the batch has {found:,} {what}; {limit:,} is the most in one push, send it in parts",
        reason="BATCH_TOO_LARGE",
        found=found,
        limit=limit,
    )


def _header(metadata: memoryview) -> Flat | None:
    """The RecordBatch of a message, or of a dictionary message; None for a schema."""
    message = Flat.root(metadata)
    place = message.place(1)
    kind = metadata[place] if place is not None else 0
    if kind == _RECORD_BATCH:
        return message.table(2)
    dictionary = message.table(2) if kind == _DICTIONARY_BATCH else None
    return dictionary.table(1) if dictionary is not None else None


def _declared(batch: Flat, body: pa.Buffer | None) -> tuple[int, int]:
    """(rows, bytes of the decompressed buffers), as declared; without compression the bytes are those of the body."""
    place = batch.place(0)
    rows = struct.unpack_from("<q", batch.raw, place)[0] if place is not None else 0
    held = body.size if body is not None else 0
    if batch.place(3) is None:
        return rows, held
    vector = batch.vector(2)
    if vector is None or body is None:
        return rows, held
    start, count = vector
    places = np.frombuffer(batch.raw, np.int64, 2 * count, start).reshape(count, 2)
    content = memoryview(body)
    total = 0
    for offset, length in places.tolist():
        if length >= 8:
            declared = struct.unpack_from("<q", content, offset)[0]
            total += length if declared == -1 else max(declared, 0)
    return rows, total


def _check_schema(schema: pa.Schema, limits: Limits) -> None:
    if len(schema) > limits.batch_columns:
        raise _too_large("columns", len(schema), limits.batch_columns)
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if isinstance(kind, pa.ExtensionType) or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
            raise InvalidBatch(
                f"column {field.name!r} is {field.type}, which no stream can hold; send plain columns",
                column=field.name,
            )


def _check_expansion(table: pa.Table, limits: Limits) -> None:
    """Bytes of dictionary and view columns once they are laid out."""
    size = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        dictionary, view = pa.types.is_dictionary(field.type), pa.types.is_string_view(field.type)
        if not (dictionary or view):
            continue
        column.validate(full=True)
        for chunk in column.chunks:
            size += _dictionary_bytes(chunk) if dictionary else int(_lengths(chunk).sum())
    if size > limits.batch_decoded_bytes:
        raise _too_large("bytes once decoded", size, limits.batch_decoded_bytes)


def _dictionary_bytes(chunk: pa.DictionaryArray) -> int:
    """Bytes of a dictionary column with every value written out."""
    if not len(chunk.dictionary):
        return 0
    indices = chunk.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return int(_lengths(chunk.dictionary)[indices].sum())


def _lengths(array: pa.Array) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """int64[n]: the bytes of each value."""
    kind = array.type
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        views = np.frombuffer(array.buffers()[1], np.int32).reshape(-1, 4)
        return views[array.offset : array.offset + len(array), 0].astype(np.int64)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
        width = np.int64 if pa.types.is_large_string(kind) else np.int32
        offsets = np.frombuffer(array.buffers()[1], width)[array.offset : array.offset + len(array) + 1]
        return np.diff(offsets).astype(np.int64)
    return np.full(len(array), 16, np.int64)
