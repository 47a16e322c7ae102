"""Splits data of a COPY FROM STDIN into rows, and rows into the bytes of their values.

1\\tIBM\\t\\\\N\\n2\\tA\\\\tB\\t3   ──text──>   [b"1", b"2"…] [b"IBM", …] [None, …]     and the rest of a cut row
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

from psoup.errors import InvalidInput
from psoup_service.pg.values.copy_form import CopyForm
from psoup_service.pg.values.copy_out import SIGNATURE

Place = Callable[[int, int | None], str]

_ESCAPE = re.compile(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
_LETTERS = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}
_END_OF_DATA = b"\\."
_FIXED = len(SIGNATURE) + 8


@dataclass(slots=True)
class Rows:
    """Rows: the bytes of each value, column by column; None is NULL. `lines`: the line on which each row ends."""

    cells: list[list[bytes | None]]
    lines: list[int]


class _Splitter:
    """The state that the splitters of all formats have.

    `line`: the lines that have been read. `ended`: whether the data had its mark of the end. `heads`: whether a
    line with the names of the columns comes next.
    """

    def __init__(self, form: CopyForm, columns: int, place: Place) -> None:
        self.line = 0
        self._form = form
        self._columns = columns
        self._place = place
        self.ended = False
        self.heads = form.header

    def _none(self) -> Rows:
        return Rows([[] for _ in range(self._columns)], [])

    def _add(self, rows: Rows, values: list[bytes | None]) -> None:
        if self.heads:
            self.heads = False
            return
        if len(values) != self._columns:
            raise self._misfit(len(values))
        for column, value in zip(rows.cells, values, strict=True):
            column.append(value)
        rows.lines.append(self.line)

    def _misfit(self, count: int) -> InvalidInput:
        """The error for a row with another number of values than columns."""
        problem = "missing data for column" if count < self._columns else "extra data after last expected column"
        return InvalidInput(
            f"{problem} ({self._place(self.line, None)}: {count} values for {self._columns} columns)",
            reason="COPY_FORMAT",
        )


class TextSplitter(_Splitter):
    """The splitter of the text format."""

    def split(self, data: bytes, last: bool) -> tuple[Rows, bytes]:
        """The rows that are whole, and the bytes behind them."""
        rows, at = self._none(), 0
        while not self.ended:
            end = data.find(b"\n", at)
            while end > at and _odd(data, at, end):  # a line break behind a backslash is data
                end = data.find(b"\n", end + 1)
            if end < 0 and (not last or at >= len(data)):
                break
            line, at = (data[at:], len(data)) if end < 0 else (data[at:end], end + 1)
            self.line += 1
            line = line.removesuffix(b"\r")
            if line == _END_OF_DATA:
                self.ended = True
                break
            self._add(rows, self._values(line))
        return rows, b"" if self.ended else data[at:]

    def _values(self, line: bytes) -> list[bytes | None]:
        delimiter, null = self._form.delimiter.encode(), self._form.null.encode()
        if line.count(delimiter) > self._columns + line.count(b"\\"):
            raise self._misfit(line.count(delimiter) + 1)
        parts, cell = list[bytes](), list[bytes]()
        for part in line.split(delimiter):  # a delimiter behind a backslash is data
            cell.append(part)
            if not _odd(part, 0, len(part)):
                parts.append(delimiter.join(cell))
                cell = []
        if cell:
            parts.append(delimiter.join(cell))
        return [None if part == null else _ESCAPE.sub(_unescaped, part) if b"\\" in part else part for part in parts]


def _odd(data: bytes, start: int, end: int) -> bool:
    """Whether an odd number of backslashes stands in front of a place."""
    count = 0
    while end - count > start and data[end - count - 1] == 0x5C:
        count += 1
    return count % 2 == 1


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    if code[:1] == b"x" and len(code) > 1:
        return bytes([int(code[1:], 16)])
    if code.isdigit() and code[:1] < b"8":
        return bytes([int(code, 8) & 0xFF])
    return _LETTERS.get(code, code)


class CsvSplitter(_Splitter):
    """The splitter of CSV."""

    def split(self, data: bytes, last: bool) -> tuple[Rows, bytes]:
        """The rows that are whole, and the bytes behind them."""
        rows, at, end = self._none(), 0, len(data)
        while not self.ended and at < end:
            values, after, lines = self._row(data, at, last)
            if after < 0:
                break
            self.line += lines
            if values == [_END_OF_DATA] and data[at : at + 2] == _END_OF_DATA:
                self.ended = True
                break
            at = after
            self._add(rows, values)
        return rows, b"" if self.ended else data[at:]

    def _row(self, data: bytes, at: int, last: bool) -> tuple[list[bytes | None], int, int]:
        """The values of a row, the place behind it (-1: it is cut), and its lines."""
        quote, escape, delimiter = (ord(mark) for mark in (self._form.quote, self._form.escape, self._form.delimiter))
        null = self._form.null.encode()
        values, cell, quoted, within, lines = list[bytes | None](), bytearray(), False, False, 1
        end = len(data)
        while at < end:
            letter = data[at]
            at += 1
            if within:
                if letter == escape and at < end and data[at] in (quote, escape):
                    cell.append(data[at])
                    at += 1
                elif letter == escape and at == end and not last:
                    return [], -1, 0
                elif letter == quote:
                    within = False
                else:
                    lines += letter == 0x0A
                    cell.append(letter)
            elif letter == quote:
                within = quoted = True
            elif letter in (delimiter, 0x0A):
                if letter == 0x0A and not quoted and cell.endswith(b"\r"):
                    cell.pop()
                values.append(None if not quoted and cell == null else bytes(cell))
                if len(values) > self._columns:
                    self.line += lines
                    raise self._misfit(len(values))
                cell, quoted = bytearray(), False
                if letter == 0x0A:
                    return values, at, lines
            elif not (letter == 0x0D and quoted and at < end and data[at] == 0x0A):
                cell.append(letter)
        if not last:
            return [], -1, 0
        if within:
            raise InvalidInput(
                f"unterminated CSV quoted field ({self._place(self.line + lines, None)})", reason="COPY_FORMAT"
            )
        values.append(None if not quoted and cell == null else bytes(cell))
        return values, at, lines


class BinarySplitter(_Splitter):
    """The splitter of the binary format. `begun`: whether the header has come."""

    def __init__(self, form: CopyForm, columns: int, place: Place) -> None:
        super().__init__(form, columns, place)
        self.begun = False

    def split(self, data: bytes, last: bool) -> tuple[Rows, bytes]:
        """The rows that are whole, and the bytes behind them."""
        rows, at = self._none(), 0
        if not self.begun:
            at = self.header(data)
            if at < 0:
                if last:
                    raise self._cut()
                return rows, data
            self.begun = True
        while not self.ended and at + 2 <= len(data):
            count = struct.unpack_from("!h", data, at)[0]
            if count == -1:
                self.ended = True
                break
            values, after = self._row(data, at + 2, count)
            if after < 0:
                break
            self.line, at = self.line + 1, after
            self._add(rows, values)
        if last and not self.ended and at < len(data):  # ADBC leaves out the mark of the end
            raise self._cut()
        return rows, b"" if self.ended else data[at:]

    def header(self, data: bytes) -> int:
        """The place behind the header; -1 if it is cut. Raises InvalidInput for another one."""
        if data[: len(SIGNATURE)] != SIGNATURE[: len(data)]:
            raise InvalidInput("COPY file signature not recognized", reason="COPY_FORMAT")
        if len(data) < _FIXED:
            return -1
        flags, more = struct.unpack_from("!Ii", data, len(SIGNATURE))
        if flags & 0xFFFF_0000 or not 0 <= more <= 1 << 16:
            raise InvalidInput("invalid COPY file header", reason="COPY_FORMAT")
        return _FIXED + more if len(data) >= _FIXED + more else -1

    def _row(self, data: bytes, at: int, count: int) -> tuple[list[bytes | None], int]:
        """The values of a row, and the place behind it; -1 if it is cut."""
        if count != self._columns:
            raise InvalidInput(
                f"row field count is {count}, expected {self._columns} ({self._place(self.line + 1, None)})",
                reason="COPY_FORMAT",
            )
        values = list[bytes | None]()
        for _ in range(count):
            if at + 4 > len(data):
                return [], -1
            size = struct.unpack_from("!i", data, at)[0]
            at += 4
            if size < -1:
                raise InvalidInput(f"invalid field size ({self._place(self.line + 1, None)})", reason="COPY_FORMAT")
            if at + size > len(data):
                return [], -1
            values.append(None if size < 0 else data[at : at + size])
            at += max(size, 0)
        return values, at

    def _cut(self) -> InvalidInput:
        return InvalidInput(f"unexpected EOF in COPY data ({self._place(self.line + 1, None)})", reason="COPY_FORMAT")
