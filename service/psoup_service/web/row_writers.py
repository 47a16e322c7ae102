"""Rows of an answer as JSON, NDJSON, CSV or Arrow, a piece at a time. Threads call the writers.

Each writer gets pieces of an Arrow IPC stream. JSON and NDJSON have the values of PushRows. CSV has times as texts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson
import pyarrow as pa
from google.protobuf import json_format

from psoup.plan.column_names import unique_names
from psoup_proto.v1 import types_pb2
from psoup_service.web.row_paths import ARROW, CSV, JSON, NDJSON
from psoup_service.wire.json_answers import plain_rows, plain_values

_FEED = b"\n"


class RowWriter(Protocol):
    """Writes the rows of one answer."""

    def rows(self, raw: bytes) -> bytes:
        """The bytes for a piece of the answer. `raw`: its Arrow IPC; the first piece has the schema."""
        ...

    def end(self, completeness: types_pb2.Completeness) -> bytes:
        """The bytes after the last row."""
        ...


class _Batches:
    """Reads the pieces of an Arrow IPC stream."""

    def __init__(self) -> None:
        self.schema: pa.Schema | None = None

    def read(self, raw: bytes) -> list[pa.RecordBatch]:
        """The batches of a piece. Sets `schema` at the first one."""
        source = pa.py_buffer(raw)
        if self.schema is None:
            self.schema = pa.ipc.read_schema(source)
            return []
        return [pa.ipc.read_record_batch(part, self.schema) for part in pa.ipc.MessageReader.open_stream(source)]


class JsonWriter:
    """Writes an answer as one object of JSON."""

    def __init__(self) -> None:
        self._batches = _Batches()
        self._count = 0

    def rows(self, raw: bytes) -> bytes:
        """See `RowWriter`."""
        first = self._batches.schema is None
        batches = self._batches.read(raw)
        if first:
            return b'{"columns":%b,"rows":[' % orjson.dumps(_columns(self._batches.schema))
        parts = list[bytes]()
        for batch in batches:
            if batch.num_rows:
                parts += [b"," if self._count else b"", orjson.dumps(plain_rows(batch))[1:-1]]
                self._count += batch.num_rows
        return b"".join(parts)

    def end(self, completeness: types_pb2.Completeness) -> bytes:
        """See `RowWriter`."""
        return b'],"rowCount":%d,"completeness":%b}\n' % (self._count, completeness_json(completeness))


class NdjsonWriter:
    """Writes an object on each line."""

    def __init__(self) -> None:
        self._batches = _Batches()

    def rows(self, raw: bytes) -> bytes:
        """See `RowWriter`."""
        rows = [row for batch in self._batches.read(raw) for row in plain_rows(batch)]
        return b"".join([orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE) for row in rows])

    def end(self, completeness: types_pb2.Completeness) -> bytes:
        """See `RowWriter`."""
        return b""


class CsvWriter:
    """Writes lines of fields, the first with the names of the columns. Times are texts in ISO 8601."""

    def __init__(self) -> None:
        self._batches = _Batches()

    def rows(self, raw: bytes) -> bytes:
        """See `RowWriter`."""
        import pyarrow.csv  # imported at the first CSV: some milliseconds

        first = self._batches.schema is None
        batches = self._batches.read(raw)
        schema = self._batches.schema
        assert schema is not None, "the first piece has it"
        fields = [pa.field(f.name, pa.string() if pa.types.is_temporal(f.type) else f.type) for f in schema]
        texts, target = pa.schema(fields), io.BytesIO()
        options = pyarrow.csv.WriteOptions(include_header=first, quoting_style="needed")
        with pyarrow.csv.CSVWriter(target, texts, write_options=options) as writer:
            for batch in batches:
                writer.write_batch(pa.RecordBatch.from_arrays([_timeless(c) for c in batch.columns], schema=texts))
        return target.getvalue()

    def end(self, completeness: types_pb2.Completeness) -> bytes:
        """See `RowWriter`."""
        return b""


class ArrowWriter:
    """Writes the Arrow IPC stream as it is."""

    def rows(self, raw: bytes) -> bytes:
        """See `RowWriter`."""
        return raw

    def end(self, completeness: types_pb2.Completeness) -> bytes:
        """See `RowWriter`."""
        return b""


WRITERS: Mapping[str, Callable[[], RowWriter]] = {
    JSON: JsonWriter,
    NDJSON: NdjsonWriter,
    CSV: CsvWriter,
    ARROW: ArrowWriter,
}
"""The writer of each media type."""


def completeness_json(completeness: types_pb2.Completeness) -> bytes:
    """The completeness of an answer as JSON in ASCII, because it is also the value of a header."""
    facts = json_format.MessageToDict(completeness)
    return json.dumps({"final": completeness.final, **facts}, separators=(",", ":")).encode()


def _timeless(column: pa.Array) -> pa.Array:
    return pa.array(plain_values(column), pa.string()) if pa.types.is_temporal(column.type) else column


def _columns(schema: pa.Schema | None) -> list[dict[str, str]]:
    assert schema is not None, "the first piece has it"
    return [
        {"name": name, "type": _sql(field.type)} for name, field in zip(unique_names(schema.names), schema, strict=True)
    ]


def _sql(kind: Any) -> str:
    t = pa.types
    if t.is_decimal(kind):
        return f"DECIMAL({kind.precision},{kind.scale})"
    names: list[tuple[Callable[[Any], bool], str]] = [
        (t.is_boolean, "BOOLEAN"),
        (t.is_integer, "BIGINT"),
        (t.is_floating, "DOUBLE"),
        (t.is_timestamp, "TIMESTAMP"),
        (t.is_date, "DATE"),
    ]
    return next((name for fits, name in names if fits(kind)), "TEXT")
