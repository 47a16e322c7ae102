"""Types of PostgreSQL for columns in Arrow: their OIDs, sizes and modifiers.

    BIGINT         int64                       bigint                     20
    DECIMAL(6,2)   decimal128(6, 2)            numeric(6,2)               1700, modifier 6 << 16 | 2, and 4
    TIMESTAMP      timestamp("us", tz="UTC")   timestamp with time zone   1184

A type of Arrow that PostgreSQL lacks becomes text.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from psoup.model import DataType, Kind
from psoup_service.pg.contract import Column

BOOL, BYTEA, CHAR, NAME = 16, 17, 18, 19
INT8, INT2, INT4, TEXT_OID, OID = 20, 21, 23, 25, 26
INT2VECTOR, OIDVECTOR, XID, CID = 22, 30, 28, 29
JSON, FLOAT4, FLOAT8, UNKNOWN = 114, 700, 701, 705
BPCHAR, VARCHAR, DATE, TIME = 1042, 1043, 1082, 1083
TIMESTAMP, TIMESTAMPTZ, NUMERIC = 1114, 1184, 1700


@dataclass(frozen=True, slots=True)
class PgType:
    """A type. `name`: as PostgreSQL's documentation writes it. `size`: bytes of a value, -1 if they vary.

    `array`: the OID of the type of its arrays.
    """

    oid: int
    name: str
    size: int
    array: int


_ALL = (
    PgType(BOOL, "boolean", 1, 1000),
    PgType(BYTEA, "bytea", -1, 1001),
    PgType(CHAR, '"char"', 1, 1002),
    PgType(NAME, "name", 64, 1003),
    PgType(INT8, "bigint", 8, 1016),
    PgType(INT2, "smallint", 2, 1005),
    PgType(INT4, "integer", 4, 1007),
    PgType(TEXT_OID, "text", -1, 1009),
    PgType(OID, "oid", 4, 1028),
    PgType(JSON, "json", -1, 199),
    PgType(FLOAT4, "real", 4, 1021),
    PgType(FLOAT8, "double precision", 8, 1022),
    PgType(UNKNOWN, "unknown", -2, 0),
    PgType(BPCHAR, "character", -1, 1014),
    PgType(VARCHAR, "character varying", -1, 1015),
    PgType(DATE, "date", 4, 1182),
    PgType(TIME, "time without time zone", 8, 1183),
    PgType(TIMESTAMP, "timestamp without time zone", 8, 1115),
    PgType(TIMESTAMPTZ, "timestamp with time zone", 8, 1185),
    PgType(NUMERIC, "numeric", -1, 1231),
)
TYPES = {kind.oid: kind for kind in _ALL}
"""The types by OID. Types of arrays are in `ELEMENTS`."""

ELEMENTS = {kind.array: kind.oid for kind in _ALL if kind.array}
"""The OID of the elements, by the OID of a type of arrays."""

_BY_KIND = {
    Kind.BOOLEAN: BOOL,
    Kind.BIGINT: INT8,
    Kind.DOUBLE: FLOAT8,
    Kind.DECIMAL: NUMERIC,
    Kind.TEXT: TEXT_OID,
    Kind.TIMESTAMP: TIMESTAMPTZ,
    Kind.DATE: DATE,
    Kind.WIDE: NUMERIC,
}

_BY_ARROW = {
    pa.bool_(): BOOL,
    pa.int8(): INT2,
    pa.int16(): INT2,
    pa.int32(): INT4,
    pa.int64(): INT8,
    pa.uint8(): INT2,
    pa.uint16(): INT4,
    pa.uint32(): INT8,
    pa.uint64(): NUMERIC,
    pa.float32(): FLOAT4,
    pa.float64(): FLOAT8,
    pa.binary(): BYTEA,
    pa.large_binary(): BYTEA,
    pa.date32(): DATE,
    pa.time64("us"): TIME,
}


def type_of(data_type: DataType) -> tuple[int, int]:
    """The OID and the modifier for a type of PSoup."""
    if data_type.kind in (Kind.DECIMAL, Kind.WIDE):
        return NUMERIC, _modifier(data_type.precision, data_type.scale)
    return _BY_KIND[data_type.kind], -1


def column_of(field: pa.Field) -> Column:
    """The column for a field in Arrow. Types that PostgreSQL lacks become text."""
    return Column(field.name, *_type_of(field.type))


def _type_of(kind: pa.DataType) -> tuple[int, int]:
    if pa.types.is_dictionary(kind):
        return _type_of(kind.value_type)
    if pa.types.is_timestamp(kind):
        return (TIMESTAMP if kind.tz is None else TIMESTAMPTZ), -1
    if pa.types.is_decimal(kind):
        return NUMERIC, _modifier(kind.precision, kind.scale)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = TYPES.get(_type_of(kind.value_type)[0])
        return (element.array if element is not None else TYPES[TEXT_OID].array), -1
    return _BY_ARROW.get(kind, TEXT_OID), -1


def _modifier(precision: int, scale: int) -> int:
    return (precision << 16 | scale) + 4


def size_of(oid: int) -> int:
    """The bytes of a value of a type; -1 if they vary."""
    kind = TYPES.get(oid)
    return -1 if kind is None else kind.size


def type_name(oid: int) -> str:
    """The name of a type, for messages."""
    if oid in TYPES:
        return TYPES[oid].name
    return f"{TYPES[ELEMENTS[oid]].name}[]" if oid in ELEMENTS else f"the type with OID {oid}"
