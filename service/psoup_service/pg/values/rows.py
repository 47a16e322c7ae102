"""Rows of an answer as DataRow messages.

"D", length, number of values, then each value: its length (-1: NULL) and its bytes in text or binary format
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa

from psoup_service.pg.contract import BINARY, Column
from psoup_service.pg.values.binary import NULL_SIZE, binary_of
from psoup_service.pg.values.plain import plain_values
from psoup_service.pg.values.texts import text_of
from psoup_service.pg.values.zones import UTC, Zone

_INT32 = struct.Struct("!i")


def data_rows(rows: pa.RecordBatch, columns: Sequence[Column], formats: Sequence[int], time_zone: Zone = UTC) -> bytes:
    """The rows as DataRow messages. `formats`: TEXT or BINARY for each column. `time_zone`: of texts of timestamps.

    Raises OutOfRange for a time that the binary format cannot hold. A piece holds all rows: see `rows_of_piece`.
    """
    cells = [
        encoded(column, about.oid, form, time_zone)
        for column, about, form in zip(rows.columns, columns, formats, strict=True)
    ]
    return joined(cells, rows.num_rows, b"D")


def encoded(column: pa.Array, oid: int, form: int, zone: Zone) -> list[bytes | None]:
    """The values of a column in a format."""
    write = binary_of(oid) if form == BINARY else text_of(oid)
    return [None if value is None else write(value) for value in plain_values(column, oid, zone)]


def joined(cells: Sequence[list[bytes | None]], rows: int, kind: bytes) -> bytes:
    """Messages of the values in each row: DataRow (kind "D"), or a row of a COPY in binary format (kind "d")."""
    head = struct.pack("!h", len(cells))
    parts = list[bytes]()
    for row in zip(*cells, strict=True) if cells else [()] * rows:
        body = head + b"".join(NULL_SIZE if value is None else _INT32.pack(len(value)) + value for value in row)
        parts.append(kind + _INT32.pack(len(body) + 4) + body)
    return b"".join(parts)
