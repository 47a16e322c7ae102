"""Rows of an answer as DataRow messages.

"D", length, number of values, then each value: its length (-1: NULL) and its bytes in text or binary format
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from psoup.kernels.postgres.messages import FIELDS, write_rows
from psoup_service.pg.contract import BINARY, Column
from psoup_service.pg.values.binary import NULL_SIZE, binary_of
from psoup_service.pg.values.cells import cells_of
from psoup_service.pg.values.plain import plain_values
from psoup_service.pg.values.texts import text_of
from psoup_service.pg.values.zones import UTC, Zone

FEW_ROWS = 10
"""Below so many rows, writing one value after the other is faster than a kernel for each column."""

_INT32 = struct.Struct("!i")
_HEAD = 7
"""The bytes of a row before its first value."""


def data_rows(rows: pa.RecordBatch, columns: Sequence[Column], formats: Sequence[int], time_zone: Zone = UTC) -> bytes:
    """The rows as DataRow messages. `formats`: TEXT or BINARY for each column. `time_zone`: of texts of timestamps.

    Raises OutOfRange for a time that the binary format cannot hold. 50 to 300 ns a row: cut long batches into pieces.
    """
    return tagged_rows(rows, columns, formats, time_zone, b"D")


def tagged_rows(
    rows: pa.RecordBatch, columns: Sequence[Column], formats: Sequence[int], zone: Zone, kind: bytes
) -> bytes:
    """The rows as messages of a kind: DataRow (b"D"), or the data of a COPY in binary format (b"d")."""
    count = rows.num_rows
    if count < FEW_ROWS:
        cells = [
            encoded(column, about.oid, form, zone)
            for column, about, form in zip(rows.columns, columns, formats, strict=True)
        ]
        return joined(cells, count, kind)
    packed = [
        cells_of(column, about.oid, form, zone)
        for column, about, form in zip(rows.columns, columns, formats, strict=True)
    ]
    table = np.array([cells.row for cells in packed], np.int64).reshape(len(packed), FIELDS)
    out = np.empty(count * (_HEAD + 4 * len(packed)) + sum(cells.size for cells in packed), np.uint8)
    return out[: write_rows(table, count, kind[0], out)].tobytes()


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
