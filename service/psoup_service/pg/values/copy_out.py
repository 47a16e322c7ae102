"""Rows of an answer as the messages of a COPY TO STDOUT, one row in each message.

    text     1\\tIBM\\t\\N\\n              csv    1,IBM,\\n
    binary   a header before the first row; each row as in DataRow; -1 at the end

ADBC's reader relies on one row in a message, and on the header in the message of the first row.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from psoup.kernels.postgres.messages import FIELDS, write_lines
from psoup.kernels.postgres.quotes import escaped_texts, quoted_texts
from psoup_service.pg.contract import BINARY, TEXT, Column
from psoup_service.pg.values.cells import Array, Cells, cells_of, frozen, has_kernel, rewritten
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.rows import FEW_ROWS, encoded, tagged_rows
from psoup_service.pg.values.zones import UTC, Zone

SIGNATURE = b"PGCOPY\n\xff\r\n\0"
HEADER = SIGNATURE + bytes(8)
END = b"\xff\xff"
_INT32 = struct.Struct("!i")
_ESCAPES = {
    ord("\\"): "\\\\",
    ord("\b"): "\\b",
    ord("\f"): "\\f",
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    ord("\v"): "\\v",
}
_DELIMITERS, _QUOTES, _NULLS = "\t,;|", "\"'", ("\\N", "", "NULL")
_LINE_HEAD = 6
"""The bytes of a line beside its values: the head of its message, and the line break."""


class CopyRows:
    """The writer of one COPY TO STDOUT."""

    def __init__(self, columns: Sequence[Column], form: CopyForm, time_zone: Zone = UTC) -> None:
        self._columns = columns
        self._form = form
        self._zone = time_zone
        self._begun = False
        self._packs = form.delimiter in _DELIMITERS and form.quote in _QUOTES and form.null in _NULLS
        """Whether the texts of numbers, times and truth values never need quotes or escapes with these options."""
        self._marks = _marks(form)

    def head(self) -> bytes:
        """The messages before the first row: the names of the columns, if the form asks for them."""
        if not self._form.header:
            return b""
        names = [column.name.encode("utf-8", "replace") for column in self._columns]
        return _data(self._line(names))

    def rows(self, rows: pa.RecordBatch) -> bytes:
        """The messages of some rows. Raises OutOfRange for a time that the binary format cannot hold."""
        if not rows.num_rows:
            return b""
        begun, self._begun = self._begun, True
        if self._form.name == "binary":
            messages = tagged_rows(rows, self._columns, [BINARY] * len(self._columns), self._zone, b"d")
            return messages if begun else _with_header(messages)
        if self._packs and rows.num_rows >= FEW_ROWS:
            return self._lines(rows)
        cells = [
            encoded(column, about.oid, TEXT, self._zone)
            for column, about in zip(rows.columns, self._columns, strict=True)
        ]
        return b"".join(_data(self._line(row)) for row in (zip(*cells, strict=True) if cells else [()] * rows.num_rows))

    def end(self) -> bytes:
        """The messages after the last row."""
        if self._form.name == "binary":
            return _data(END if self._begun else HEADER + END)
        return b""

    def _lines(self, rows: pa.RecordBatch) -> bytes:
        """The messages of many rows, by kernels."""
        form, count = self._form, rows.num_rows
        null = np.frombuffer(form.null.encode(), np.uint8)
        packed = list[Cells]()
        for column, about in zip(rows.columns, self._columns, strict=True):
            if has_kernel(column, about.oid):
                packed.append(cells_of(column, about.oid, TEXT, self._zone))
            elif form.name == "csv":
                marks, escape, quote = self._marks, ord(form.escape), ord(form.quote)
                alone = len(self._columns) == 1
                cells = rewritten(column, about.oid, self._zone, quoted_texts, marks, escape, quote, null, alone)
                packed.append(cells)
            else:
                packed.append(rewritten(column, about.oid, self._zone, escaped_texts, self._marks))
        table = np.array([cells.row for cells in packed], np.int64).reshape(len(packed), FIELDS)
        room = _LINE_HEAD + len(packed) * (1 + len(null))
        out = np.empty(count * room + sum(cells.size for cells in packed), np.uint8)
        return out[: write_lines(table, count, ord(form.delimiter), null, out)].tobytes()

    def _line(self, row: Sequence[bytes | None]) -> bytes:
        null, alone = self._form.null.encode(), len(row) == 1
        write = self._quoted if self._form.name == "csv" else self._escaped
        cells = [null if value is None else write(value, alone) for value in row]
        return self._form.delimiter.encode().join(cells) + b"\n"

    def _escaped(self, value: bytes, alone: bool) -> bytes:
        text = value.decode().translate(_ESCAPES)
        if self._form.delimiter != "\t":
            text = text.replace(self._form.delimiter, "\\" + self._form.delimiter)
        return text.encode()

    def _quoted(self, value: bytes, alone: bool) -> bytes:
        form, text = self._form, value.decode()
        plain = text != form.null and not any(letter in text for letter in (form.delimiter, form.quote, "\n", "\r"))
        if plain and not (alone and text == "\\."):
            return value
        if form.escape != form.quote:
            text = text.replace(form.escape, form.escape * 2)
        text = text.replace(form.quote, form.escape + form.quote)
        return f"{form.quote}{text}{form.quote}".encode()


def _data(raw: bytes) -> bytes:
    return b"d" + _INT32.pack(len(raw) + 4) + raw


def _with_header(messages: bytes) -> bytes:
    """The messages with the header of the binary format in front of the first row, in its message."""
    size = _INT32.unpack_from(messages, 1)[0] - 4
    return _data(HEADER + messages[5 : 5 + size]) + messages[5 + size :]


def _marks(form: CopyForm) -> Array:
    """For each byte, 1 if a text with it needs quotes; in the text format, the letter after its backslash."""
    marks = np.zeros(256, np.uint8)
    if form.name == "csv":
        marks[[ord(letter) for letter in (form.delimiter, form.quote, "\n", "\r")]] = 1
    else:
        for byte, text in _ESCAPES.items():
            marks[byte] = ord(text[1])
        if form.delimiter not in "\t":
            marks[ord(form.delimiter)] = ord(form.delimiter)
    return frozen(marks)
