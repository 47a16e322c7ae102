"""The relations of `pg_catalog` and `information_schema` with their columns, as PostgreSQL 15 declares them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from psoup_service.pg.catalogue.types import lines

SCHEMAS = ("pg_catalog", "information_schema")
"""The schemas of the catalogue."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation. `kind`: "r" for a table, "v" for a view. `columns`: the type of each column, in order."""

    schema: str
    name: str
    oid: int
    kind: str
    columns: dict[str, str]


@cache
def relations() -> dict[tuple[str, str], Relation]:
    """The relations by schema and name."""
    tables = dict[tuple[str, str], Relation]()
    for full, oid, kind, text in lines("relations.tsv"):
        schema, name = full.split(".")
        columns = dict(column.split(":") for column in text.split(" "))
        tables[schema, name] = Relation(schema, name, int(oid), kind, columns)
    return tables


def relation_of(schema: str, name: str) -> Relation | None:
    """The relation of this name; None for an unknown one. Without a schema, the relation is one of `pg_catalog`."""
    return relations().get((schema or "pg_catalog", name))
