"""Scopes: the sources of a SELECT with the types of their columns, and the scope of the SELECT around it."""

from __future__ import annotations

from dataclasses import dataclass, field

SYSTEM_COLUMNS = {"tableoid": "oid", "xmin": "xid", "xmax": "xid", "cmin": "cid", "cmax": "cid", "ctid": "tid"}
"""The columns that each table has beside its declared ones."""


@dataclass(slots=True)
class Source:
    """A source of FROM. `columns`: names and types, in order. `oid`: the relation's OID, 0 for a subselect.

    `read`: the columns that the statement reads of an unknown relation, else None.
    """

    columns: list[tuple[str, str]]
    oid: int = 0
    read: dict[str, str] | None = None

    def type_of(self, name: str) -> str | None:
        """The type of a column; None if the source has no such column."""
        return next((kind for column, kind in self.columns if column == name), None)


@dataclass(slots=True)
class Scope:
    """The names that an expression sees."""

    outer: Scope | None = None
    sources: dict[str, Source] = field(default_factory=dict)
    shared: list[str] = field(default_factory=list)
    """The columns of USING and NATURAL, which `*` shows once and first."""
    named: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """The columns of WITH's queries."""
    output: dict[str, str] = field(default_factory=dict)
    """The types of the SELECT list's names, which ORDER BY and GROUP BY may use."""

    def with_query(self, name: str) -> list[tuple[str, str]] | None:
        """The columns of a query of WITH, here or further out."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.named:
                return scope.named[name]
            scope = scope.outer
        return None

    def source(self, alias: str) -> Source | None:
        """The source of this alias, here or further out."""
        scope: Scope | None = self
        while scope is not None:
            if alias in scope.sources:
                return scope.sources[alias]
            scope = scope.outer
        return None

    def column(self, name: str) -> tuple[str, str, Source] | None:
        """The alias, type and source of a column without an alias before it, here or further out."""
        scope: Scope | None = self
        while scope is not None:
            for alias, source in scope.sources.items():
                kind = source.type_of(name)
                if kind is not None:
                    return alias, kind, source
            scope = scope.outer
        return None

    def unknown(self) -> Source | None:
        """The source that is an unknown relation, if there is one here."""
        return next((source for source in self.sources.values() if source.read is not None), None)
