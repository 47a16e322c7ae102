"""The rows of one body, read in pieces. Threads call it, one call at a time.

bytes ──> lines, the rest waits for its end ──> columns ──> … ──> one table        after a bad row: the rest is only
                                                                                   checked, and no column is kept
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import xxhash

from psoup.errors import InvalidBatch, ResourceExhausted
from psoup.model import PATCH, TABLE_COLUMNS, Schema, StreamSpec
from psoup_proto.csv_rows.faults import CsvFault
from psoup_service.wire.limits import Limits
from psoup_service.wire.payload_decoder import MOST_WIDTH
from psoup_service.wire.text_rows.csv_lines import advised
from psoup_service.wire.text_rows.faults import Faults
from psoup_service.wire.text_rows.ndjson import read_lines

MOST_RECORD_BYTES = 4 * 1024 * 1024
"""The most bytes of a row."""
_TOO_LONG = f"the row has more than {MOST_RECORD_BYTES:,} bytes; end each row by a line feed"
MOST_TEXT_BYTES = 1024 * 1024 * 1024
"""The most bytes of a body, after decompression."""
_DIGEST_BYTES = 15
_FEED, _RETURN = b"\n\r"
_GZIP = b"\x1f\x8b"
_OTHER_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",  # before UTF-16: its mark begins with UTF-16's
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}

Array = Any
ReadLines = Callable[[bytes, int, Schema, Faults], tuple[pa.RecordBatch, Array]]


class LineReader(Protocol):
    """Reads whole records of one format."""

    def cut(self, data: bytes, line: int, *, last: bool) -> int:
        """The end of the last whole record, 0 without one. `line`: the line of the first byte."""
        ...

    def starts(self, data: bytes, line: int) -> Array:
        """The positions at which records begin, int64, also of one without its end. `line`: the line of the first byte.

        O(bytes).
        """
        ...

    def most_rows(self, data: bytes, line: int) -> int:
        """The most rows that whole records may have. `line`: the line of the first byte. O(bytes)."""
        ...

    def read(self, data: bytes, line: int, schema: Schema, faults: Faults) -> tuple[pa.RecordBatch, Array]:
        """The rows of whole records, and the line of each. `line`: the line of the first byte."""
        ...


class NdjsonLines:
    """The reader of NDJSON."""

    def cut(self, data: bytes, line: int, *, last: bool) -> int:
        """See `LineReader`."""
        return len(data) if last else data.rfind(b"\n") + 1

    def starts(self, data: bytes, line: int) -> Array:
        """See `LineReader`."""
        feeds = np.flatnonzero(np.frombuffer(data, np.uint8) == _FEED)
        return np.concatenate([np.zeros(1, np.int64), feeds + 1])

    def most_rows(self, data: bytes, line: int) -> int:
        """See `LineReader`."""
        return sum(1 for text in data.split(b"\n") if text.strip())

    def read(self, data: bytes, line: int, schema: Schema, faults: Faults) -> tuple[pa.RecordBatch, Array]:
        """See `LineReader`."""
        return read_lines(data, line, schema, faults)


class RowReader:
    """Reads the rows of a body for the stream `spec`. `rows`: the number of rows so far."""

    def __init__(self, spec: StreamSpec, lines: LineReader, limits: Limits, salt: bytes) -> None:
        """`salt`: the parts of the request that belong to its digest besides the body."""
        self._spec = spec
        self._lines = lines
        self._limits = limits
        self._digest = xxhash.xxh3_128(salt)
        self._waiting = list[bytes]()
        self._held = 0
        self._line = 1
        self._size = 0
        self._batches = list[pa.RecordBatch]()
        self._places = list[Array]()
        self._faults = Faults()
        self._values = 0
        self._width = MOST_WIDTH * len(spec.schema.attributes)
        self.rows = 0
        self.seconds = 0.0
        """The processor time of the last call of `feed`. Lines that Arrow does not read take ten times as long."""

    @property
    def nbytes(self) -> int:
        """The bytes of all columns of the stream for the rows so far, also of columns that the rows lack."""
        return max(self._values, self._width * self.rows)

    def feed(self, data: bytes, *, last: bool) -> None:
        """Read the next bytes. Raises BadRows, and ResourceExhausted for too many rows."""
        begun = time.thread_time()
        self._feed(data, last=last)
        self.seconds = time.thread_time() - begun

    def _feed(self, data: bytes, *, last: bool) -> None:
        self._digest.update(data)
        self._size += len(data)
        if self._size > MOST_TEXT_BYTES:
            raise _too_large(f"the body has more than {MOST_TEXT_BYTES:,} bytes", MOST_TEXT_BYTES)
        self._waiting.append(data)
        self._held += len(data)
        if not last and b"\n" not in data and self._held <= MOST_RECORD_BYTES:
            return
        pending = b"".join(self._waiting)
        if self._size == self._held:
            pending = self._without_mark(pending)
        try:
            end = self._lines.cut(pending, self._line, last=last)
            self._check_sizes(pending)
            if end:
                self._read(pending[:end])
        except CsvFault as problem:
            self._faults.end(problem.line, advised(problem.message))
        if end:
            self._line += pending.count(b"\n", 0, end)
        rest = pending[end:]
        self._waiting, self._held = [rest], len(rest)

    def table(self) -> tuple[pa.Table, bytes]:
        """The rows as a table of one chunk, and the digest of the body. Called once.

        Raises BadRows, and InvalidBatch for patches of different columns.
        """
        self._faults.check()
        self._check_patches()
        digest = self._digest.digest()[:_DIGEST_BYTES]
        tables = [pa.Table.from_batches([batch]) for batch in self._batches]
        self._batches.clear()  # else the rows are held twice
        if not tables:
            names = [pa.field(attribute.name, pa.null()) for attribute in self._spec.schema.shown]
            return pa.schema(names).empty_table(), digest
        return pa.concat_tables(tables, promote_options="default").combine_chunks(), digest

    def line_of(self, row: int) -> int:
        """The line of a row of the table; 0 for a number beyond its rows."""
        for places in self._places:
            if row < len(places):
                return int(places[row])
            row -= len(places)
        return 0

    def _read(self, data: bytes) -> None:
        if data.isspace():
            return
        self._check_width(data)
        batch, places = self._lines.read(data, self._line, self._spec.schema, self._faults)
        self._check_nulls(batch, places)
        self.rows += batch.num_rows
        if self.rows > self._limits.batch_rows:
            raise _too_large(f"the body has more than {self._limits.batch_rows:,} rows", self._limits.batch_rows)
        if self._faults:
            self._batches.clear()
            self._places.clear()
            return
        self._values += batch.nbytes
        self._check_bytes(self.nbytes)
        if batch.num_rows:
            self._batches.append(batch)
            self._places.append(places)

    def _check_sizes(self, data: bytes) -> None:
        """Raise BadRows if a row is too large. It may be complete, because it ends in the last piece of the body."""
        if len(data) <= MOST_RECORD_BYTES:
            return
        starts = self._lines.starts(data, self._line)
        ends = np.append(starts[1:], len(data))
        for row in np.flatnonzero(ends - starts > MOST_RECORD_BYTES).tolist():
            start, end = int(starts[row]), int(ends[row])
            if len(data[start:end].strip()) > MOST_RECORD_BYTES:  # without the blank lines after the row
                line = self._line + data.count(b"\n", 0, start)
                self._faults.end(
                    line, f"the row has more than {MOST_RECORD_BYTES:,} bytes; end each row by a line feed"
                )

    def _check_width(self, data: bytes) -> None:
        """Raise ResourceExhausted if the rows of whole records would be too large with a value in each column.

        A line of two bytes can be a row of a thousand NULLs. So the rows are counted before they are read.
        """
        raw = np.frombuffer(data, np.uint8)
        ends = int(np.count_nonzero((raw == _FEED) | (raw == _RETURN)))
        if self._width * (self.rows + ends + 1) > self._limits.batch_decoded_bytes:  # some ends may have no row
            self._check_bytes(self._width * (self.rows + self._lines.most_rows(data, self._line)))

    def _check_bytes(self, nbytes: int) -> None:
        limit = self._limits.batch_decoded_bytes
        if nbytes > limit:
            raise _too_large(f"the rows take more than {limit:,} bytes", limit)

    def _without_mark(self, data: bytes) -> bytes:
        other = next((name for mark, name in _OTHER_MARKS.items() if data.startswith(mark)), "")
        if other:
            self._faults.end(0, f"the body is {other}; send it in UTF-8 (iconv -f {other.lower()} -t utf-8)")
        if data.startswith(_GZIP):
            self._faults.end(0, "the body is gzip; send the header Content-Encoding: gzip")
        return data.removeprefix(codecs.BOM_UTF8)

    def _check_nulls(self, batch: pa.RecordBatch, places: Array) -> None:
        """Add the rows that lack a value which each row must have."""
        spec = self._spec
        by = (
            None
            if spec.table is not None or spec.time_attribute is None
            else spec.schema.attributes[spec.time_attribute]
        )
        for attribute in spec.schema.shown:
            if attribute.nullable and attribute is not by:
                continue
            at = batch.schema.get_field_index(attribute.name)
            column = None if at < 0 else batch.column(at)
            if column is not None and not column.null_count:
                continue
            rows = range(batch.num_rows) if column is None else np.flatnonzero(column.is_null().to_numpy(False))
            why = "it is the stream's TIMESTAMP BY" if attribute.nullable else f"{spec.name!r} needs a value of it"
            for row in rows:
                self._faults.add(
                    int(places[row]), f"column {attribute.name!r} is missing or NULL; {why}", attribute.name
                )

    def _check_patches(self) -> None:
        """Raise InvalidBatch if pieces with patches have different columns.

        A missing column may mean NULL, or no change.
        """
        schema = self._spec.schema
        if not schema.takes_patches or not any(PATCH in batch.schema.names for batch in self._batches):
            return
        hidden = {attribute.name for attribute in TABLE_COLUMNS} | {PATCH}
        columns = [set(batch.schema.names) - hidden for batch in self._batches]
        for names, places in zip(columns, self._places, strict=True):
            if names != columns[0]:
                name = sorted(names ^ columns[0])[0]
                raise InvalidBatch(
                    f"line {places[0]}: not all rows of a body with patches have column {name!r}; give each row the"
                    " same columns, or send patches with other columns in another request",
                    reason="PATCH_COLUMNS",
                )


def _too_large(excess: str, limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{excess}, the limit of one request; send it in parts, each with its own Idempotency-Key",
        reason="BODY_TOO_LARGE",
        limit=limit,
    )
