"""Values of columns as PostgreSQL's clients read them.

RecordBatch ──columns──> texts or binary values ──> DataRow messages
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pyarrow as pa

from psoup_service.pg.contract import TEXT, Column

_OIDS: list[tuple[type[pa.DataType] | pa.DataType, int, int]] = [
    (pa.bool_(), 16, 1),
    (pa.int8(), 21, 2),
    (pa.int16(), 21, 2),
    (pa.int32(), 23, 4),
    (pa.int64(), 20, 8),
    (pa.float32(), 700, 4),
    (pa.float64(), 701, 8),
    (pa.string(), 25, -1),
    (pa.large_string(), 25, -1),
    (pa.date32(), 1082, 4),
]
_SIZES = {oid: size for _, oid, size in _OIDS} | {1184: 8, 1700: -1}
TEXT_OID = 25


def column_of(field: pa.Field) -> Column:
    """The column for an Arrow field."""
    for kind, oid, _ in _OIDS:
        if field.type == kind:
            return Column(field.name, oid)
    if pa.types.is_timestamp(field.type):
        return Column(field.name, 1184)
    if pa.types.is_decimal(field.type):
        return Column(field.name, 1700, (field.type.precision << 16 | field.type.scale) + 4)
    return Column(field.name, TEXT_OID)


def size_of(oid: int) -> int:
    """The bytes of a value of a type; -1 if they vary."""
    return _SIZES.get(oid, -1)


def data_rows(rows: pa.RecordBatch, formats: Sequence[int]) -> bytes:
    """The rows as DataRow messages."""
    assert all(form == TEXT for form in formats)
    columns = [[None if value is None else _text(value) for value in column.to_pylist()] for column in rows.columns]
    head = struct.pack("!h", len(columns))
    parts = list[bytes]()
    for row in zip(*columns, strict=True):
        body = head + b"".join(
            b"\xff\xff\xff\xff" if value is None else struct.pack("!i", len(value)) + value for value in row
        )
        parts.append(b"D" + struct.pack("!i", len(body) + 4) + body)
    return b"".join(parts)


def _text(value: object) -> bytes:
    if isinstance(value, bool):
        return b"t" if value else b"f"
    return str(value).encode()
