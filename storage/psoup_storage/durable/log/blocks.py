"""The content of a block of queries as one Arrow IPC stream, about as large as its texts and values.

    form "values"   0: string ["IBM", "SUN", …]   1: int64 [7, 12, …]      a column for each parameter of the template
         "rows"     row: ['["IBM",7]', …]                                  rows of mixed types, as JSON
         "texts"    text: ["SELECT …", …]                                  statements without a template
    after these     key: ["search-1", …]   label user: ["u3", NULL, …]     if the body says that there are any

Once some queries of the block are gone, the table `gone` has a bitmap of them, with a checksum. A reader of the log
binds the template or the texts again, by the method that the row names (`psoup.sql.templates.ladder`).
"""

from __future__ import annotations

import datetime
import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from psoup.events.events import RegisteredMany
from psoup.events.tags import TagColumns
from psoup.plan.standing_query import StandingQuery
from psoup.sql import PreparedStatement
from psoup.sql.templates.block import BoundBlock
from psoup.sql.templates.ladder import ParameterValues, Rows, bind_values, gathered
from psoup.sql.templates.values import Columns, columns_of_rows
from psoup.values.columns import Array
from psoup_storage.durable.log.messages import read_table

_CHECKSUM = struct.Struct("<I")

Bind = Callable[[tuple[int, ...], str], StandingQuery]
"""Binds a text to a query over the streams with these IDs."""
Prepare = Callable[[tuple[int, ...], str], PreparedStatement]
"""Prepares a template over the streams with these IDs."""


def encode_block(event: RegisteredMany) -> tuple[str, memoryview]:
    """The form of a block, and its bytes. O(bytes)."""
    tags = _columns_of(event.tags)
    if not event.template:
        return "texts", _ipc(("text",), (pa.array([query.text for query in event.queries], pa.string()),), tags)
    columns: Columns | None
    if isinstance(event.queries, BoundBlock):
        columns = event.queries.columns
    else:
        columns = columns_of_rows(event.rows, len(event.rows[0])) if event.rows else None
    if columns:
        return "values", _ipc([str(place) for place in range(len(columns))], columns, tags)
    lines = [json.dumps(row, separators=(",", ":"), default=_write_value) for row in event.rows]
    return "rows", _ipc(("row",), (pa.array(lines, pa.string()),), tags)


def decode_block(
    facts: dict[str, Any], content: bytes | memoryview, bind: Bind, prepare: Prepare
) -> tuple[Sequence[StandingQuery], Rows, TagColumns | None]:
    """The queries of a block, the rows of their values, and their tags, as `RegisteredMany` has them.

    `facts`: the body of the block's row. Raises the errors of binding, and pa.ArrowException.
    """
    columns, tags = columns_in(facts, content)
    return *bind_columns(facts, columns, bind, prepare), tags


def columns_in(facts: Mapping[str, Any], content: bytes | memoryview) -> tuple[Columns, TagColumns | None]:
    """The columns of the queries of a block, and their tags. Raises ValueError."""
    table = read_table(content).combine_chunks()
    return _split(tuple(column.chunk(0) for column in table.columns), facts)


def bind_columns(
    facts: Mapping[str, Any], columns: Columns, bind: Bind, prepare: Prepare, some: Array | None = None
) -> tuple[Sequence[StandingQuery], Rows]:
    """The queries of a block, or of `some` of its rows (int64[k]), and the rows of their values. Raises the errors of
    binding."""
    streams, template = facts["streams"], facts["template"]
    count = len(columns[0])
    if some is not None:
        columns = tuple(column.take(pa.array(some)) for column in columns)
    if not template:
        texts = columns[0].to_pylist()
        if "joins" in facts:
            return [bind(tuple(streams), text) for text in texts], []
        places = streams if len(streams) > 1 else streams * count
        places = places if some is None else [places[row] for row in some.tolist()]
        return [bind((stream,), text) for stream, text in zip(places, texts, strict=True)], []
    values = ParameterValues(columns)
    if facts["form"] == "rows":
        lines = map(json.loads, columns[0].to_pylist())
        values = ParameterValues(rows=[tuple(map(_read_value, line)) for line in lines])
    return gathered(bind_values(prepare(tuple(streams), template), values, way=facts["way"]))


def _columns_of(tags: TagColumns | None) -> dict[str, pa.Array]:
    """Keys and labels as columns of the block."""
    if tags is None:
        return {}
    keys = {} if tags.keys is None else {"key": tags.keys}
    return {**keys, **{f"label {name}": column for name, column in tags.labels}}


def _split(columns: Columns, facts: Mapping[str, Any]) -> tuple[Columns, TagColumns | None]:
    """The columns of the queries, and the tags from the columns after them."""
    if "labels" not in facts:
        return columns, None
    names, keyed = facts["labels"], int(facts["keyed"])
    values, tags = columns[: len(columns) - len(names) - keyed], columns[len(columns) - len(names) - keyed :]
    labels = tuple(zip(names, tags[keyed:], strict=True))
    return values, TagColumns(len(tags[0]), tags[0] if keyed else None, labels)


def write_gone(sequence: int, gone: Array) -> bytes:
    """A checksum and a bitmap of the gone queries of the block `sequence`. `gone`: bool[count]."""
    bits = np.packbits(gone).tobytes()
    return _CHECKSUM.pack(zlib.crc32(bits, sequence & 0xFFFFFFFF)) + bits


def read_gone(sequence: int, count: int, content: bytes) -> Array:
    """The positions of queries that are gone, int64[k] ascending; raises ValueError if `content` is damaged."""
    bits = content[_CHECKSUM.size :]
    if content[: _CHECKSUM.size] != _CHECKSUM.pack(zlib.crc32(bits, sequence & 0xFFFFFFFF)) or 8 * len(bits) < count:
        raise ValueError("what it says of queries that are gone is damaged")
    return np.flatnonzero(np.unpackbits(np.frombuffer(bits, np.uint8), count=count))


def _ipc(names: Sequence[str], columns: Columns, tags: Mapping[str, pa.Array]) -> memoryview:
    batch = pa.RecordBatch.from_arrays([*columns, *tags.values()], [*names, *tags])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return memoryview(sink.getvalue()).cast("B")


def _write_value(value: object) -> list[str]:
    """The JSON form of a parameter whose type JSON lacks: the kind, and a text."""
    match value:
        case datetime.datetime():
            return ["time", value.isoformat()]
        case datetime.date():
            return ["date", value.isoformat()]
        case Decimal():
            return ["decimal", str(value)]
        case _:
            raise TypeError(f"no parameter is a {type(value).__name__}")


def _read_value(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, text = value
    return _VALUES[kind](text)


_VALUES: dict[str, Callable[[str], Any]] = {
    "time": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
    "decimal": Decimal,
}
