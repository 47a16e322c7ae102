"""The types that casts name, and texts of arrays."""

from __future__ import annotations

from sqlglot import exp

from psoup_service.pg.catalogue.types import by_name
from psoup_service.pg.values.array_texts import read_array

_D = exp.DataType.Type
_NAMES = {
    _D.TEXT: "text",
    _D.VARCHAR: "varchar",
    _D.NVARCHAR: "varchar",
    _D.CHAR: "bpchar",
    _D.BPCHAR: "bpchar",
    _D.NAME: "name",
    _D.INT: "int4",
    _D.BIGINT: "int8",
    _D.SMALLINT: "int2",
    _D.FLOAT: "float4",
    _D.DOUBLE: "float8",
    _D.DECIMAL: "numeric",
    _D.BOOLEAN: "bool",
    _D.TIMESTAMPTZ: "timestamptz",
    _D.TIMESTAMP: "timestamp",
    _D.DATE: "date",
    _D.TIME: "time",
    _D.INTERVAL: "interval",
    _D.UUID: "uuid",
    _D.JSON: "json",
    _D.JSONB: "jsonb",
    _D.VARBINARY: "bytea",
    _D.INET: "inet",
}
_DOMAINS = {
    "sql_identifier": "name",
    "character_data": "varchar",
    "yes_or_no": "varchar",
    "cardinal_number": "int4",
    "time_stamp": "timestamptz",
}


def type_name(kind: exp.Expression) -> str:
    """The short name of the type in a cast; "" for a type that PostgreSQL does not have."""
    if isinstance(kind, exp.ObjectIdentifier):
        return str(kind.this).lower()
    if kind.this == _D.ARRAY and kind.expressions:
        element = type_name(kind.expressions[0])
        return element if element.startswith("_") else f"_{element}" if element else ""
    if kind.this == _D.INTERVAL or isinstance(kind.this, exp.Interval):
        return "interval"
    if kind.this == _D.USERDEFINED:
        named = kind.args.get("kind")
        name = (named if isinstance(named, str) else named.name if named is not None else "").lower()
        name = _DOMAINS.get(name, name)
        return name if name in by_name() else ""
    return _NAMES.get(kind.this, "")


def elements_of(text: str) -> list[str | None] | None:
    """The elements of a text like `{1,2,"a b",NULL}`; None for a text that is not an array of one dimension."""
    try:
        items = read_array(text, str, lambda: ValueError(text))
    except ValueError:
        return None
    return None if any(isinstance(item, list) for item in items) else items
