"""Data of a COPY FROM STDIN as rows, in pieces: the data may be cut anywhere.

    piece ──feed──> lines ──> values ──> RecordBatch, or None if the piece ends no line
                      └────────┴──> InvalidInput: COPY trades, line 3, column price: "abc"

Rows are read when a megabyte has come, or at the end. So `feed` takes some milliseconds at times: use a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from psoup.errors import InvalidInput, OutOfRange, PSoupError
from psoup.model import Attribute
from psoup.values.kinds import arrow_type
from psoup_service.pg.values import types
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.copy_splits import BinarySplitter, CsvSplitter, Rows, TextSplitter
from psoup_service.pg.values.reading import read_binary, read_text, shortened
from psoup_service.pg.values.to_arrow import array_of, fitted
from psoup_service.pg.values.zones import UTC, Zone

_ENOUGH = 1 << 20
MOST_ROW_BYTES = 16 << 20
"""The most bytes of one row."""


class CopyReader:
    """The reader of one COPY FROM STDIN. `attributes`: the columns in the order of the data. `name`: the stream."""

    def __init__(self, attributes: Sequence[Attribute], form: CopyForm, name: str = "", time_zone: Zone = UTC) -> None:
        self._attributes = attributes
        self._types = [types.type_of(attribute.type)[0] for attribute in attributes]
        self._form = form
        self._name = name
        self._zone = time_zone
        self._pieces = list[bytes]()
        self._held = 0
        self._wanted = _ENOUGH
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
        rows, rest = self._splitter.split(data, last)
        if len(rest) > MOST_ROW_BYTES:
            raise InvalidInput(
                f"{self._place(self._splitter.line, None)}: a row has more than {MOST_ROW_BYTES >> 20} MiB",
                reason="COPY_FORMAT",
            )
        self._pieces, self._held = [rest], len(rest)
        self._wanted = max(_ENOUGH, 2 * len(rest))
        return self._batch(rows) if rows.lines else None

    def _batch(self, rows: Rows) -> pa.RecordBatch:
        arrays = [
            array_of(
                [self._value(place, raw, line) for raw, line in zip(rows.cells[place], rows.lines, strict=True)],
                oid,
                arrow_type(attribute.type),
            )
            for place, (attribute, oid) in enumerate(zip(self._attributes, self._types, strict=True))
        ]
        return pa.RecordBatch.from_arrays(arrays, [attribute.name for attribute in self._attributes])

    def _value(self, place: int, raw: bytes | None, line: int) -> Any:
        if raw is None:
            return None
        oid, kind = self._types[place], arrow_type(self._attributes[place].type)
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
