"""Arrow IPC from the wire: a push's bytes become a table, or InvalidBatch. Only this input of a client reaches Arrow.

    bytes ── outline: schema, rows, declared bytes ──> the sender has to wait, or is refused (`payload_decoder`)
      │
      ├───── envelope: messages, declared sizes ──> pa.ipc ──> types, view and dictionary sizes ──> pa.Table
      │      (before anything is decompressed)                 (before anything is expanded)
      └───── one plain batch, of a schema seen before ──────────────────────────────> pa.RecordBatch

A few bytes can stand for many. Examples are compressed buffers, and a null column with a billion rows. A dictionary
or view can repeat one long text a million times. So every size is computed before it is allocated. Admission checks
offsets and UTF-8 when it reads the columns. Here they are checked only if sizes are computed from them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from psoup.errors import InvalidBatch
from psoup.execution.rows.arrow_header import Flat
from psoup.execution.rows.declared_sizes import FAILURES, batch_of, declared_sizes
from psoup.values.digests import digest_of
from psoup_service.wire.envelope import MARK, PREFIX, SHORT_HEADER, Outline, check, check_sizes, outline, too_large
from psoup_service.wire.limits import Limits

Payload: TypeAlias = bytes | memoryview
"""The bytes of an Arrow IPC stream, or a view of these bytes in the request message."""

_ALIGNED = pa.ipc.IpcReadOptions(use_threads=False, ensure_alignment=pa.ipc.Alignment.DataTypeSpecific)
PAYLOAD, PARAMETERS = "arrow_ipc", "parameters"
"""The fields of requests that have an Arrow IPC stream."""
_INSTEAD = {
    PAYLOAD: "send a schema message, then record batches",
    PARAMETERS: "send a schema message, then a record batch with a column for each parameter; or the values in JSON, as"
    " parameters_json (over HTTP as parameters)",
}
_END = PREFIX.pack(MARK, 0)
"""The prefix of a message without a header, which ends a stream."""

_SCALES = range(-20, 39)
"""Allowed scales of decimals. Arrow rescales by a table of powers of ten up to 38, without a check of its bounds.
Another scale could crash the process. A stream has scales of 0 to 18, at most 38 away from each allowed scale.
"""

_REMEMBERED = 256
"""The most schema messages that are cached."""

_REMEMBERED_BYTES = 16 * 1024
"""The most bytes of a cached schema message."""


def digest(payload: Payload) -> bytes:
    """The digest that identifies a payload. The same rows in another encoding have another digest. O(bytes)."""
    return digest_of([payload])


def decode_push(payload: Payload, limits: Limits, field: str = PAYLOAD) -> pa.Table | pa.RecordBatch:
    """Decode a push, like `decode`. `field`: the field of the request, for errors.

    A small stream of one plain batch takes a fifth of the time, and is returned as a record batch.
    """
    with suppress(*FAILURES, EOFError):  # `decode` finds the fault and describes it
        plain = _plain(payload, limits)
        if plain is not None:
            return plain[0]
    return decode(payload, limits, field)


def decode(payload: Payload, limits: Limits, field: str = PAYLOAD) -> pa.Table:
    """The table in an Arrow IPC stream, sharing memory with `payload` where it is not compressed.

    Raises InvalidBatch for other bytes, with the fault and what to send instead. O(messages) when not compressed.
    """
    with _explained(field):
        _check_some(payload)
        check(payload, limits)
        source = pa.BufferReader(pa.py_buffer(payload))
        with pa.ipc.open_stream(source, options=_ALIGNED) as reader:
            _check_schema(reader.schema, limits)
            table = reader.read_all()
            _check_end(len(payload) - source.tell(), field)
        _check_expansion(table, limits)
    return table


def plain_batch(payload: Payload, limits: Limits) -> tuple[pa.RecordBatch, int] | None:
    """The batch of a stream with exactly one plain batch, and its buffers' bytes; None for any other stream.

    The batch shares the memory of the payload. Takes about 10 us for any length, so an event loop may call it.
    """
    if not _is_short(payload):
        return None
    with suppress(*FAILURES, EOFError):
        return _plain(payload, limits)
    return None


def outlined(payload: Payload, limits: Limits) -> Outline | None:
    """The outline of a stream if it is quickly read; None if `measured` has to read it. About 30 us.

    Raises InvalidBatch for columns that no stream can hold, and for sizes over the limits.
    """
    if not _is_short(payload):
        return None
    with suppress(*FAILURES, EOFError):
        head, start = _head(payload, limits)
        declared = outline(payload, head.schema, start)
        if declared is not None:
            check_sizes(declared.rows, declared.size, limits)
        return declared
    return None


def measured(payload: Payload, limits: Limits, field: str = PAYLOAD) -> Outline:
    """The outline of a stream of any length; raises InvalidBatch as `decode` does. O(messages, columns)."""
    with _explained(field):
        _check_some(payload)
        rows, size = check(payload, limits)
        with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
            _check_schema(reader.schema, limits)
            return Outline(reader.schema, rows, size)


def written_out(table: pa.Table | pa.RecordBatch) -> int:
    """The additional bytes that dictionary and view columns take once every value is written out.

    O(rows) of these columns.
    """
    if isinstance(table, pa.RecordBatch):  # plain
        return 0
    return _expansion(table)


@contextmanager
def _explained(field: str) -> Iterator[None]:
    """Turn the errors that reading garbage raises into InvalidBatch."""
    try:
        yield
    except InvalidBatch:
        raise
    except MemoryError as problem:
        raise InvalidBatch("the batch asks for more memory than there is; send smaller batches") from problem
    except FAILURES as problem:
        why = str(problem).splitlines()[0][:200] if str(problem) else type(problem).__name__
        raise InvalidBatch(
            f"{field} is not an Arrow IPC stream: {why}; {_INSTEAD[field]}", reason="NOT_ARROW", field=field
        ) from problem


def _check_some(payload: Payload) -> None:
    if not payload:
        raise InvalidBatch("arrow_ipc is empty; send an Arrow IPC stream (a schema message, then record batches)")


def _is_short(payload: Payload) -> bool:
    """Whether the schema message is short enough to be read on an event loop."""
    return len(payload) >= PREFIX.size and 0 <= PREFIX.unpack_from(payload)[1] <= _REMEMBERED_BYTES


def _plain(payload: Payload, limits: Limits) -> tuple[pa.RecordBatch, int] | None:
    """The batch of a stream that has just one, if decoding makes no value longer.

    So it has no compression, no dictionary and no view. The second value is the bytes of its buffers. They exceed the
    payload if buffers share places in it. Returns None, or raises one of FAILURES, for any other stream. O(columns).
    """
    head, start = _head(payload, limits)
    if not head.plain:
        return None
    mark, size = PREFIX.unpack_from(payload, start)
    if mark != MARK or not 0 < size <= SHORT_HEADER:
        return None
    source = pa.py_buffer(payload).slice(start)
    layout = _layout(bytes(payload[start + PREFIX.size : start + PREFIX.size + size]), source)
    if layout is None or not (0 <= layout.rows <= limits.batch_rows and layout.memory <= limits.batch_decoded_bytes):
        return None
    body = PREFIX.size + size
    end = start + body + layout.body
    if (source.address + body) % 8 or not end <= len(payload) <= end + len(_END) or payload[end:] not in (b"", _END):
        return None
    return pa.ipc.read_record_batch(source, head.schema), layout.memory


@dataclass(frozen=True, slots=True)
class _Layout:
    """The header of a plain record batch: its rows, the bytes of its buffers, and the bytes of its body."""

    rows: int
    memory: int
    body: int


def _layout(header: bytes, source: pa.Buffer) -> _Layout | None:
    """The layout of the message at the start of `source`, whose header is given. None if it is not plain, or damaged.

    Raises one of FAILURES for bytes that are not a message.
    """
    layout = _layouts.get(header)
    if layout is None:
        message = pa.ipc.read_message(source)
        raw = memoryview(message.metadata)
        batch = batch_of(raw)[0]
        if batch is None or message.type != "record batch" or batch.place(3) is not None:
            return None
        rows, memory = declared_sizes(batch, message.body)
        buffers = batch.vector(2)
        if buffers is None or any(at % 8 for at in struct.unpack_from(f"<{2 * buffers[1]}q", raw, buffers[0])[::2]):
            return None
        if len(_layouts) >= _REMEMBERED:
            _layouts.clear()
        layout = _layouts[header] = _Layout(rows, memory, message.body.size)
    return layout


_layouts: dict[bytes, _Layout] = {}
"""Cache of plain record batches by header: batches with as many rows in columns of fixed width have the same one."""


@dataclass(frozen=True, slots=True)
class _Head:
    """A parsed schema message.

    `plain`: no column is a dictionary or a view, and the byte order is that of this machine.
    """

    schema: pa.Schema
    plain: bool


def _head(payload: Payload, limits: Limits) -> tuple[_Head, int]:
    """The schema message and the offset of its end.

    Raises one of FAILURES for bytes that are not a schema message. Raises InvalidBatch for columns that no stream can
    hold.
    """
    _, size = PREFIX.unpack_from(payload)
    start = PREFIX.size + size
    raw = bytes(payload[:start])
    head = _heads.get(raw)
    if head is None:
        head = _read_head(raw, limits)
        if len(_heads) >= _REMEMBERED:
            _heads.clear()
        if start <= _REMEMBERED_BYTES:
            _heads[raw] = head
    return head, start


def _read_head(raw: bytes, limits: Limits) -> _Head:
    message = pa.ipc.read_message(pa.py_buffer(raw))
    table = Flat.root(memoryview(message.metadata)).table(2)
    if message.type != "schema" or table is None:
        raise ValueError(f"it begins with a {message.type}")
    schema = pa.ipc.read_schema(message)
    _check_schema(schema, limits)
    plain = table.place(0) is None  # else the values have the byte order of another machine
    for kind in schema.types:
        if pa.types.is_dictionary(kind) or pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
            plain = False
    return _Head(schema, plain)


_heads: dict[bytes, _Head] = {}
"""Cache of schema messages by their bytes, because clients send the same ones again and again."""


def _check_end(left: int, field: str) -> None:
    """Refuse bytes after the end of the stream: a second stream would be acknowledged and lost."""
    if left:
        raise InvalidBatch(
            f"{field} goes on for {left:,} bytes after the end of the Arrow IPC stream; send one stream",
            reason="NOT_ARROW",
            field=field,
        )


def _check_schema(schema: pa.Schema, limits: Limits) -> None:
    if len(schema) > limits.batch_columns:
        raise InvalidBatch(
            f"the batch has {len(schema):,} columns; {limits.batch_columns:,} is the most, of a stream as of the"
            " parameters of a statement",
            reason="BATCH_TOO_LARGE",
            found=len(schema),
            limit=limits.batch_columns,
        )
    for name, field in zip(schema.names, schema, strict=True):  # names that are not UTF-8 fail here
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if isinstance(kind, pa.ExtensionType) or pa.types.is_nested(kind) or pa.types.is_dictionary(kind):
            raise InvalidBatch(
                f"column {name!r} is {field.type}, which no stream can hold; send plain columns",
                column=name,
            )
        if pa.types.is_decimal(kind) and kind.scale not in _SCALES:
            raise InvalidBatch(
                f"column {name!r} is {field.type}, which no stream can hold; send decimals of scale {_SCALES.start} to"
                f" {_SCALES.stop - 1}",
                column=name,
            )


def _check_expansion(table: pa.Table, limits: Limits) -> None:
    """Refuse dictionary and view columns that take too many bytes once they are laid out."""
    size = _expansion(table)
    if size > limits.batch_decoded_bytes:
        raise too_large("bytes once decoded", size, limits.batch_decoded_bytes)


def _expansion(table: pa.Table) -> int:
    size = 0
    for field, column in zip(table.schema, table.columns, strict=True):
        dictionary, view = pa.types.is_dictionary(field.type), pa.types.is_string_view(field.type)
        if not (dictionary or view):
            continue
        column.validate(full=True)
        for chunk in column.chunks:
            size += _dictionary_bytes(chunk) if dictionary else int(_lengths(chunk).sum())
    return size


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
