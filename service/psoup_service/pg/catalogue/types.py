"""PostgreSQL's types: names, OIDs, and the types of DuckDB that store their values.

    "int2"  ─> OID 21, SMALLINT        "_name" ─> OID 1003, VARCHAR[]        "regclass" ─> OID 2205, UINTEGER

Types have PostgreSQL's short names. The name of an array type begins with "_".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

UNKNOWN = "unknown"
"""The type of NULL and of a text constant whose type is not known yet."""

NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")
"""The types of numbers, in order. A sum or product has the type of the operand that comes later in it."""

REGISTERED = frozenset({"regclass", "regproc", "regtype", "regnamespace", "regrole"})
"""The types of OIDs that clients see as names, such as regclass."""

_STORAGE = {
    "bool": "BOOLEAN",
    "int2": "SMALLINT",
    "int4": "INTEGER",
    "int8": "BIGINT",
    "float4": "FLOAT",
    "float8": "DOUBLE",
    "numeric": "DECIMAL(38, 6)",
    "timestamptz": "TIMESTAMPTZ",
    "timestamp": "TIMESTAMP",
    "date": "DATE",
    "time": "TIME",
    "interval": "INTERVAL",
    "bytea": "BLOB",
    "oid": "UINTEGER",
    "xid": "UINTEGER",
    "cid": "UINTEGER",
    "int2vector": "SMALLINT[]",
    "oidvector": "UINTEGER[]",
} | dict.fromkeys(REGISTERED, "UINTEGER")

_SHOWN = {
    "int2": "smallint",
    "int4": "integer",
    "int8": "bigint",
    "float4": "real",
    "float8": "double precision",
    "bool": "boolean",
    "timestamptz": "timestamp with time zone",
    "timestamp": "timestamp without time zone",
    "timetz": "time with time zone",
    "time": "time without time zone",
    "varchar": "character varying",
    "bpchar": "character",
    "char": '"char"',
    "varbit": "bit varying",
}


@dataclass(frozen=True, slots=True)
class PgType:
    """A type. `row`: its line in pg_type, without name, schema and owner."""

    oid: int
    name: str
    element: int
    array: int
    row: tuple[str, ...]

    @property
    def shown(self) -> str:
        """The name of the type in SQL: "integer" for int4."""
        if self.name.startswith("_") and self.element:
            return by_oid()[self.element].shown + "[]"
        return _SHOWN.get(self.name, self.name)


def lines(resource: str) -> list[list[str]]:
    """The lines of a table that PostgreSQL 15 wrote, by columns."""
    text = (files(__package__) / "postgres" / resource).read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines()]


@cache
def by_name() -> dict[str, PgType]:
    """The types by their short names."""
    return {row[1]: PgType(int(row[0]), row[1], int(row[8]), int(row[9]), tuple(row)) for row in lines("types.tsv")}


@cache
def by_oid() -> dict[int, PgType]:
    """The types by their OIDs."""
    return {kind.oid: kind for kind in by_name().values()}


def oid_of(name: str) -> int:
    """The OID of a type; the OID of text for an unknown name."""
    kind = by_name().get("text" if name == UNKNOWN else name)
    return 25 if kind is None else kind.oid


def element_of(name: str) -> str:
    """The type of an array's elements; the type itself if it is not an array."""
    if name in {"int2vector", "oidvector"}:
        return name.removesuffix("vector")
    return name[1:] if name.startswith("_") else name


def array_of(name: str) -> str:
    """The type of an array with elements of a type."""
    return name if name.startswith("_") else "_" + ("text" if name == UNKNOWN else name)


def is_array(name: str) -> bool:
    """Whether values of a type have elements."""
    return name.startswith("_") or name.endswith("vector")


def storage_of(name: str) -> str:
    """The type of DuckDB that stores values of a type."""
    if name.startswith("_"):
        return storage_of(name[1:]) + "[]"
    return _STORAGE.get(name, "VARCHAR")
