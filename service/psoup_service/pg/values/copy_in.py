"""Data of a COPY FROM STDIN as rows, in pieces: the data may be cut anywhere.

    piece ──feed──> lines ──> values ──> RecordBatch, or None if the piece ends no line
                      └────────┴──> InvalidInput: COPY trades, line 3, column price: "abc"

Rows are read when a megabyte has come, or at the end. Then `feed` takes some milliseconds, so call it on a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from psoup.errors import InvalidInput, OutOfRange, PSoupError
from psoup.model import Attribute
from psoup.values.kinds import arrow_type
from psoup_service.pg.values import copy_binary, copy_fast, types
from psoup_service.pg.values.copy_fast import texts_of, whole_lines
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.copy_splits import BinarySplitter, CsvSplitter, Rows, TextSplitter
from psoup_service.pg.values.readers import read_binary, read_text, shortened
from psoup_service.pg.values.to_arrow import array_of, fitted
from psoup_service.pg.values.zones import UTC, Zone

_ENOUGH = 1 << 20
_LITTLE = 1 << 12
"""Below so many bytes, reading one value after the other is faster."""
MOST_ROW_BYTES = 16 << 20
"""The most bytes of one row."""


class CopyReader:
    """The reader of one COPY FROM STDIN. `attributes`: the columns in the order of the data. `name`: the stream."""

    def __init__(self, attributes: Sequence[Attribute], form: CopyForm, name: str = "", time_zone: Zone = UTC) -> None:
        self._attributes = attributes
        self.kinds = [arrow_type(attribute.type) for attribute in attributes]
        self._names = [attribute.name for attribute in attributes]
        self._types = [types.type_of(attribute.type)[0] for attribute in attributes]
        self._form = form
        self._name = name
        self._zone = time_zone
        self._pieces = list[bytes]()
        self._held = 0
        self._wanted = 1 if form.header else _ENOUGH  # the line of names is short
        splitters: dict[str, type[TextSplitter | CsvSplitter | BinarySplitter]] = {
            "text": TextSplitter,
            "csv": CsvSplitter,
            "binary": BinarySplitter,
        }
        self._splitter = splitters[form.name](form, len(attributes), self._place)

    def feed(self, piece: bytes) -> pa.RecordBatch | None:
        """Take the next piece. Returns rows if enough have come. Raises InvalidInput for a bad row."""
        self._pieces.append(piece)
        self._held += len(piece)
        return self._read(last=False) if self._held >= self._wanted else None

    def end(self) -> pa.RecordBatch | None:
        """End the data. Returns the last rows. Raises InvalidInput for a bad row, or if the data is cut."""
        return self._read(last=True)

    def _read(self, last: bool) -> pa.RecordBatch | None:
        data = b"".join(self._pieces)
        batch, rest = self._read_common(data, last)
        if batch is not None:
            self._hold(rest)
            return batch
        rows, rest = self._splitter.split(data, last)
        if len(rest) > MOST_ROW_BYTES:
            raise InvalidInput(
                f"{self._place(self._splitter.line + 1, None)}: a row has more than {MOST_ROW_BYTES >> 20} MiB",
                reason="COPY_FORMAT",
            )
        self._hold(rest)
        return self._batch(rows) if rows.lines else None

    def _hold(self, rest: bytes) -> None:
        self._pieces, self._held = [rest], len(rest)
        self._wanted = max(_ENOUGH, 2 * len(rest))

    def _read_common(self, data: bytes, last: bool) -> tuple[pa.RecordBatch | None, bytes]:
        """The rows of the lines, read by Arrow, and the bytes after them. None if Arrow cannot read them."""
        splitter = self._splitter
        if splitter.heads or splitter.ended or len(data) < _LITTLE:
            return None, b""
        if isinstance(splitter, BinarySplitter):
            return self._read_binary(splitter, data, last)
        size = len(data) if last else whole_lines(data, self._form)
        texts = texts_of(data[:size], self._form, len(self._attributes)) if size > 0 else None
        arrays = None if texts is None else copy_fast.columns_of(texts, self._types, self.kinds, self._zone)
        if arrays is None:
            return None, b""
        splitter.line += data.count(b"\n", 0, size)
        return pa.RecordBatch.from_arrays(arrays, self._names), data[size:]

    def _read_binary(self, splitter: BinarySplitter, data: bytes, last: bool) -> tuple[pa.RecordBatch | None, bytes]:
        first = 0 if splitter.begun else splitter.header(data)
        if first < 0:
            return None, b""
        starts, sizes, after = copy_binary.rows_of(data, first, len(self._attributes))
        arrays = copy_binary.columns_of(data, starts, sizes, self._types, self.kinds)
        if arrays is None or not starts.size:
            return None, b""
        splitter.begun, splitter.line = True, splitter.line + starts.shape[1]
        _, rest = splitter.split(data[after:], last)  # the end of the data, the beginning of a row, or a fault
        return pa.RecordBatch.from_arrays(arrays, self._names), rest

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        arrays = [
            array_of(
                [self._value(place, raw, line) for raw, line in zip(rows.cells[place], rows.lines, strict=True)],
                oid,
                kind,
            )
            for place, (kind, oid) in enumerate(zip(self.kinds, self._types, strict=True))
        ]
        return pa.RecordBatch.from_arrays(arrays, self._names)

    def _value(self, place: int, raw: bytes | None, line: int) -> Any:
        if raw is None:
            return None
        oid, kind = self._types[place], self.kinds[place]
        try:
            value = read_binary(oid, raw) if self._form.name == "binary" else read_text(oid, raw.decode(), self._zone)
            if oid == types.NUMERIC:
                return fitted(value, kind.precision, kind.scale)
            return value
        except PSoupError as problem:
            where = self._place(line, place)
            shown = "" if self._form.name == "binary" else f': "{shortened(raw.decode("utf-8", "replace"))}"'
            if isinstance(problem, OutOfRange):
                raise OutOfRange(f"{problem.message} ({where}{shown})", reason=problem.reason) from None
            raise InvalidInput(f"{problem.message} ({where}{shown})", reason=problem.reason) from None
        except UnicodeDecodeError:
            raise InvalidInput(f"the data is not UTF-8 ({self._place(line, place)})", reason="NOT_UTF8") from None

    def _place(self, line: int, column: int | None) -> str:
        where = f"COPY {self._name}, line {line}".replace("COPY ,", "COPY,")
        return where if column is None else f"{where}, column {self._attributes[column].name}"
