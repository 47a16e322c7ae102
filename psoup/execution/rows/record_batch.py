"""Rows as Arrow IPC record batches, gathered from the chunks straight into the bytes of the message.

    [length, header][validity a0][values a0][values a1] …        one array; `read` makes a batch of it without a copy

The headers of two batches of one SELECT list differ only in numbers: of rows, and of the sizes and places of buffers.
So pyarrow writes a sample header once. Each message copies the header and fills in its own numbers. This takes a
quarter of the time of a batch made column by column. This module serves SELECT lists of columns only.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import pyarrow as pa

from psoup.data.chunk import ChunkView
from psoup.execution.rows.arrow_header import Flat
from psoup.expressions.tree import ID_INDEX, AttributeRef
from psoup.invariants import corrupt, ensure
from psoup.kernels.rows.batch_body import (
    BITS,
    DECIMAL,
    NARROW,
    NUMBER,
    TEXT,
    WIDE,
    gather,
    has_nulls,
    lay_out,
    text_bytes,
)
from psoup.model import DataType
from psoup.plan.nodes import Output
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array, scratch_array
from psoup.values.kinds import TYPES, arrow_type

_VALUE_BYTES = {WIDE: 8, NARROW: 4, BITS: 1, DECIMAL: 16, TEXT: 32, NUMBER: 8}
"""Bytes of a value, by the kind of its column. The bytes of a text are an estimate."""


Part = tuple[ChunkView, Array]
"""A chunk, and the offsets of the message's rows in it: int64, ascending, at least one."""


@dataclass(frozen=True, slots=True)
class Form:
    """The facts that all messages of one SELECT list share: types of columns, and the sample header.

    `kinds`, `columns`: int64, for each column its kind for the kernels and its place in the schema.
    """

    schema: pa.Schema
    schema_message: bytes
    kinds: Array
    columns: Array
    texts: tuple[int, ...]
    """The places in SELECT of columns that are texts."""
    row_bytes: int
    """The approximate bytes of a row."""
    exact: bool
    """Whether no value leaves padding. Padding must be cleared, as it leaves the process."""
    header: Array
    """The header of a batch of one row, int64[n]. The following fields are the indexes of numbers in it."""
    rows_at: int
    body_at: int
    nodes_at: int
    buffers_at: int
    buffers: int


def tabled(chunks: Sequence[ChunkView]) -> tuple[Array, int]:
    """The column addresses of at least one chunk: `sources` and `stride` of the kernel `gather`. O(chunks * columns).

    The caller must keep the chunks alive.
    """
    sources = [data.addresses() for data in chunks]
    if len(chunks) == 1:  # nearly always, and needs no copy
        return sources[0], len(sources[0])
    table, stride = np.concatenate(sources), len(sources[0])
    if len(table) != stride * len(chunks):
        raise corrupt(
            "message", "chunks of one stream have other columns than its schema", widths=set(map(len, sources))
        )
    return table, stride


def addressed(parts: Sequence[Part]) -> tuple[Array, int, Array, Array]:
    """The arguments `sources`, `stride`, `rows` and `stops` of the kernel `gather`, for at least one part.

    The caller must keep the chunks alive. O(rows) for several chunks.
    """
    sources, stride = tabled([data for data, _ in parts])
    if len(parts) == 1:
        return sources, stride, parts[0][1], np.array([len(parts[0][1])], np.int64)
    stops = np.array(list(accumulate([len(offsets) for _, offsets in parts])), np.int64)
    return sources, stride, np.concatenate([offsets for _, offsets in parts]), stops


class Message:
    """Some rows as an Arrow message of `size` bytes, which are written when the caller asks for them."""

    def __init__(self, form: Form, parts: Sequence[Part]) -> None:
        self._parts = parts
        self._sources, self._stride, self._offsets, self._stops = addressed(parts)
        columns = len(form.kinds)
        nullable: Array = np.empty(columns, np.uint8)
        has_nulls(form.columns, self._sources, self._stride, len(parts), nullable)
        texts: Array = np.zeros(columns, np.int64)
        for i in form.texts:
            texts[i] = text_bytes(form.columns[i], self._sources, self._stride, self._offsets, self._stops)
        self._measure(form, len(self._offsets), nullable, texts)

    def _measure(self, form: Form, rows: int, nullable: Array, texts: Array) -> None:
        """Lay out the message of `rows` rows, and compute `size`.

        For each column, `nullable` (uint8) says whether it may have NULL, `texts` (int64) has the bytes of its texts.
        """
        self._form = form
        self.rows = rows
        self._places: Array = np.empty((len(nullable), 3), np.int64)
        self._header = form.header.copy()
        buffers = self._header[form.buffers_at : form.buffers_at + 2 * form.buffers].reshape(-1, 2)
        body = lay_out(form.kinds, nullable, texts, self.rows, self._places, buffers)
        self._header[form.rows_at], self._header[form.body_at] = self.rows, body
        self._exact = form.exact and not nullable.any()
        self.size = self._header.nbytes + body

    @property
    def can_be_cut(self) -> bool:
        """Whether the message has no NULL and no padding, as `Cuts` requires."""
        return self._exact

    def gathered(self) -> Array:
        """The message, uint8[size]. O(rows * columns + bytes of texts)."""
        out = scratch_array(self.size, np.uint8)
        if not self._exact:
            out[:] = 0
        self._write(out)
        return out

    def _write(self, out: Array) -> None:
        """Write the message to `out`, uint8[size]. The caller has cleared `out` if the message may have padding."""
        form, start = self._form, self._header.nbytes
        nodes = self._header[form.nodes_at : form.nodes_at + 2 * len(form.kinds)]
        nulls: Array = np.zeros(len(form.kinds), np.int64)  # `nodes[1::2]` of one column is of another type to kernels
        self._gather(out[start:], nulls)
        nodes[::2], nodes[1::2] = self.rows, nulls
        out[:start] = self._header.view(np.uint8)

    def _gather(self, out: Array, nulls: Array) -> None:
        """Write the columns to `out`, and the number of NULLs of each column to `nulls`."""
        form = self._form
        ask = (form.kinds, form.columns, self._sources, self._stride, self._offsets, self._stops, self._places)
        gather(*ask, out, nulls)

    def halves(self) -> tuple[Message, Message]:
        """Split the message into its first and second half. It must have at least two rows."""
        middle, first, second = self.rows // 2, list[Part](), list[Part]()
        for data, offsets in self._parts:
            if middle > 0:
                first.append((data, offsets[:middle]))
            if middle < len(offsets):
                second.append((data, offsets[max(middle, 0) :]))
            middle -= len(offsets)
        return Message(self._form, first), Message(self._form, second)


class Cuts:
    """Cuts a large message without NULL and padding into messages of fewer rows, without copying the values."""

    def __init__(self, message: Message) -> None:
        """Gather the message. Its `can_be_cut` must be True."""
        self._form, places = message._form, message._places
        body = message.gathered().data[message._header.nbytes :]
        ends = [*places[1:, 1].tolist(), len(body)]
        self._columns = [
            (body[start:end], (end - start) // message.rows)
            for start, end in zip(places[:, 1].tolist(), ends, strict=True)
        ]
        self._headers = dict[int, bytes]()

    def rows(self, start: int, stop: int) -> list[bytes | memoryview]:
        """The message of the rows [start, stop), at least one, as parts to be concatenated. O(columns)."""
        header = self._headers.get(stop - start)
        if header is None:
            header = self._headers[stop - start] = plain_header(self._form, stop - start).tobytes()
        return [header, *[values[start * width : stop * width] for values, width in self._columns]]


def plain_header(form: Form, rows: int) -> Array:
    """The header of a message of `rows` rows without NULL and without texts, uint8[n]. O(columns)."""
    header, columns = form.header.copy(), len(form.kinds)
    places = np.empty((columns, 3), np.int64)
    buffers = header[form.buffers_at : form.buffers_at + 2 * form.buffers].reshape(-1, 2)
    body = lay_out(form.kinds, np.zeros(columns, np.uint8), np.zeros(columns, np.int64), rows, places, buffers)
    header[form.rows_at], header[form.body_at] = rows, body
    nodes = header[form.nodes_at : form.nodes_at + 2 * columns]
    nodes[::2], nodes[1::2] = rows, 0
    return header.view(np.uint8)


def read(message: Array, schema: pa.Schema) -> pa.RecordBatch:
    """Make a record batch of a message. The batch shares the memory of the message."""
    return pa.ipc.read_record_batch(pa.py_buffer(message), schema)


def row_bytes(select: Sequence[Output]) -> int:
    """The approximate bytes of a row of an answer."""
    form = form_of(select)
    return form.row_bytes if form else sum(_VALUE_BYTES[TYPES[output.type.kind].layout] for output in select)


@plan_fact
def form_of(select: Sequence[Output]) -> Form | None:
    """The form of a SELECT list. None if the list has anything but columns."""
    if not all(isinstance(output.expr, AttributeRef) for output in select):
        return None
    return _form(tuple([(o.name, o.expr.index, o.type) for o in select if isinstance(o.expr, AttributeRef)]))


@lru_cache(4_096)
def _form(columns: tuple[tuple[str, int, DataType], ...]) -> Form:
    """The form of columns, given by name, place and type. Cached, as different plans may have equal columns."""
    schema = pa.schema([(name, arrow_type(kind)) for name, _, kind in columns])
    sample = pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)
    raw = sample.serialize().to_pybytes()
    start = 8  # after the continuation marker and the length of the header
    size = start + int(struct.unpack_from("<i", raw, 4)[0])
    message = Flat.root(memoryview(raw)[start:size])
    batch = message.table(2)
    assert batch is not None
    rows, body, nodes, buffers = batch.place(0), message.place(3), batch.vector(1), batch.vector(2)
    assert rows is not None and body is not None and nodes is not None and buffers is not None
    kinds = [NUMBER if index == ID_INDEX else TYPES[kind.kind].layout for _, index, kind in columns]
    return Form(
        schema,
        schema.serialize().to_pybytes(),
        np.array(kinds, np.int64),
        np.array([index for _, index, _ in columns], np.int64),
        tuple(i for i, kind in enumerate(kinds) if kind == TEXT),
        sum(_VALUE_BYTES[kind] for kind in kinds),
        not {BITS, NARROW, TEXT}.intersection(kinds),
        np.frombuffer(raw[:size], np.int64),
        _word(start + rows),
        _word(start + body),
        _word(start + nodes[0]),
        _word(start + buffers[0]),
        buffers[1],
    )


def _word(place: int) -> int:
    """Convert a place in bytes to an index of int64. Arrow aligns headers and their numbers to 8 bytes."""
    ensure(place % 8 == 0, "message", "a number in a header of Arrow is not at a multiple of 8", place=place)
    return place // 8
