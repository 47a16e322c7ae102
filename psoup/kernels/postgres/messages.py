"""Values of columns into messages, one for each row.

    columns   [BIGINT 7 8] [TEXT "a" NULL]
    rows      D len 2 | 8 0000000000000007 | 1 a        D len 2 | 8 0000000000000008 | -1
    lines     d len 7 \\t a \\n                           d len 8 \\t \\N \\n

A column is a row of `columns`, int64[FIELDS]: see the constants. The caller keeps its memory alive.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.postgres.memory import (
    copy_bytes,
    read_byte,
    read_int,
    read_long,
    read_short,
    write_byte,
    write_int,
    write_long,
    write_short,
)

KIND, VALUES, FIRST, VALID, VALID_FIRST, TEXT, ADDED = range(7)
"""The fields of a column. KIND: its form. VALUES: the address of its values. FIRST: the number of the first bit of a
BIT column. VALID: the address of its validity bitmap, 0 without NULL. VALID_FIRST: the number of the first validity
bit. TEXT: the address of the bytes of a text. ADDED: a number that is added to each value."""
FIELDS = 7

BIT, SHORT, INT, LONG, TEXT32, TEXT64 = range(6)
"""The forms of values. A BIT becomes a byte. The 2, 4 and 8 bytes of numbers are reversed. A text has offsets of 4 or 8
bytes."""

_HEAD = 7


@njit(cache=True, nogil=True, inline="always")
def _is_valid(columns, c, row):
    bitmap = columns[c, VALID]
    if bitmap == 0:
        return True
    at = columns[c, VALID_FIRST] + row
    return (read_byte(bitmap + (at >> 3)) >> (at & 7)) & 1 != 0


@njit(cache=True, nogil=True, inline="always")
def _span(columns, c, row):
    """The first byte of a text, and the byte behind it."""
    if columns[c, KIND] == TEXT32:
        at = columns[c, VALUES] + 4 * row
        return read_int(at), read_int(at + 4)
    at = columns[c, VALUES] + 8 * row
    return read_long(at), read_long(at + 8)


@njit(cache=True, nogil=True)
def write_rows(columns, rows, tag, out):
    """Write each row: the tag, the length, the number of columns, then the length and the bytes of each value.

    columns: int64[c, FIELDS], read. tag: the first byte. out: uint8[bytes], written; large enough for all rows if no
    value were NULL. Returns the bytes that were written. O(rows * c), and the bytes of text.
    """
    place = np.int64(out.ctypes.data)
    begin = place
    count = columns.shape[0]
    for row in range(rows):
        start = place
        write_byte(place, tag)
        write_short(place + 5, count)
        place += _HEAD
        for c in range(count):
            if not _is_valid(columns, c, row):
                write_int(place, -1)
                place += 4
                continue
            kind, values = columns[c, KIND], columns[c, VALUES]
            if kind == LONG:
                write_int(place, 8)
                write_long(place + 4, read_long(values + 8 * row) + columns[c, ADDED])
                place += 12
            elif kind >= TEXT32:
                first, stop = _span(columns, c, row)
                write_int(place, stop - first)
                copy_bytes(place + 4, columns[c, TEXT] + first, stop - first)
                place += 4 + stop - first
            elif kind == INT:
                write_int(place, 4)
                write_int(place + 4, read_int(values + 4 * row) + columns[c, ADDED])
                place += 8
            elif kind == SHORT:
                write_int(place, 2)
                write_short(place + 4, read_short(values + 2 * row))
                place += 6
            else:
                at = columns[c, FIRST] + row
                write_int(place, 1)
                write_byte(place + 4, (read_byte(values + (at >> 3)) >> (at & 7)) & 1)
                place += 5
        write_int(start + 1, place - start - 1)
    return place - begin


@njit(cache=True, nogil=True)
def write_lines(columns, rows, delimiter, null, out):
    """Write each row as a line of a COPY: the tag "d", the length, texts with the delimiter between, and a line break.

    columns: int64[c, FIELDS], texts; null: uint8[b], the text of NULL; read. delimiter: a byte. out: uint8[bytes],
    written; large enough. Returns the bytes that were written. O(bytes).
    """
    place = np.int64(out.ctypes.data)
    begin = place
    absent, size = np.int64(null.ctypes.data), null.shape[0]
    for row in range(rows):
        start = place
        write_byte(place, 100)
        place += 5
        for c in range(columns.shape[0]):
            if c:
                write_byte(place, delimiter)
                place += 1
            if _is_valid(columns, c, row):
                first, stop = _span(columns, c, row)
                copy_bytes(place, columns[c, TEXT] + first, stop - first)
                place += stop - first
            else:
                copy_bytes(place, absent, size)
                place += size
        write_byte(place, 10)
        place += 1
        write_int(start + 1, place - start - 1)
    return place - begin
