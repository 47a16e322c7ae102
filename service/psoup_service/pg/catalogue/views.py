"""The relations of the catalogue that are views: settings, databases, roles and `information_schema`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from psoup_service.pg.catalogue.relations import Relation, relations
from psoup_service.pg.catalogue.types import storage_of


@dataclass(frozen=True, slots=True)
class View:
    """A view in the store. `given`: the columns that its SELECT gives, in order; further ones are NULL or false."""

    relation: Relation
    given: tuple[str, ...]
    select: str


@cache
def views() -> dict[tuple[str, str], View]:
    """The views by schema and name."""
    text = (files(__package__) / "postgres" / "views.sql").read_text(encoding="utf-8")
    result = dict[tuple[str, str], View]()
    for part in text.split("\nVIEW ")[1:]:
        head, select = part.split("\n", 1)
        name, columns = head.split(": ")
        schema, relation = name.split(".")
        table = relations()[schema, relation]
        result[schema, relation] = View(table, tuple(columns.split(", ")), select.strip().rstrip(";"))
    return result


def definition_of(view: View) -> str:
    """The statement that creates a view in the store, with all columns that PostgreSQL declares."""
    schema = "cat" if view.relation.schema == "pg_catalog" else "info"
    columns = [_column(name, kind, name in view.given) for name, kind in view.relation.columns.items()]
    given = ", ".join(f'"{name}"' for name in view.given)
    body = f"SELECT {', '.join(columns)} FROM ({view.select}) AS q({given})"
    return f'CREATE VIEW {schema}."{view.relation.name}" AS {body}'


def _column(name: str, kind: str, given: bool) -> str:
    value = f'"{name}"' if given else "false" if kind == "bool" else "NULL"
    return f'CAST({value} AS {storage_of(kind)}) AS "{name}"'
