"""Twins of `psoup.kernels.postgres.messages`."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterator

import numpy as np

from psoup.kernels.plain import Array
from psoup.kernels.postgres.messages import (
    ADDED,
    BIT,
    FIRST,
    INT,
    KIND,
    SHORT,
    TEXT,
    TEXT32,
    TEXT64,
    VALID,
    VALID_FIRST,
    VALUES,
)

_FORMS = {SHORT: "h", INT: "i"}


def _bit(address: int, number: int) -> int:
    return ctypes.string_at(address + number // 8, 1)[0] >> number % 8 & 1


def _cell(column: Array, row: int) -> bytes | None:
    """A value of a column; None for NULL."""
    kind, values = int(column[KIND]), int(column[VALUES])
    if column[VALID] and not _bit(int(column[VALID]), int(column[VALID_FIRST]) + row):
        return None
    if kind == BIT:
        return bytes([_bit(values, int(column[FIRST]) + row)])
    if kind in (TEXT32, TEXT64):
        form = "=2i" if kind == TEXT32 else "=2q"
        size = struct.calcsize(form)
        first, stop = struct.unpack(form, ctypes.string_at(values + size // 2 * row, size))
        return ctypes.string_at(int(column[TEXT]) + first, stop - first)
    form = _FORMS.get(kind, "q")
    size = struct.calcsize(f"={form}")
    value = struct.unpack(f"={form}", ctypes.string_at(values + size * row, size))[0]
    return struct.pack(f"!{form}", value + int(column[ADDED]))


def _rows(columns: Array, rows: int) -> Iterator[list[bytes | None]]:
    for row in range(rows):
        yield [_cell(column, row) for column in columns]


def _put(messages: list[bytes], out: Array) -> int:
    written = b"".join(messages)
    out[: len(written)] = np.frombuffer(written, np.uint8)
    return len(written)


def write_rows(columns: Array, rows: int, tag: int, out: Array) -> int:
    """See the kernel."""
    messages = list[bytes]()
    for row in _rows(columns, rows):
        body = b"".join(b"\xff" * 4 if cell is None else struct.pack("!i", len(cell)) + cell for cell in row)
        messages.append(struct.pack("!BiH", tag, len(body) + 6, len(row)) + body)
    return _put(messages, out)


def write_lines(columns: Array, rows: int, delimiter: int, null: Array, out: Array) -> int:
    """See the kernel."""
    messages = list[bytes]()
    for row in _rows(columns, rows):
        line = bytes([delimiter]).join(null.tobytes() if cell is None else cell for cell in row) + b"\n"
        messages.append(struct.pack("!Bi", 100, len(line) + 4) + line)
    return _put(messages, out)
