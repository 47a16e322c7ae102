"""Errors of statements over the catalogue, with the place of the fault."""

from __future__ import annotations

from sqlglot import exp

from psoup.errors import NotSupported, SqlError


def _place(text: str, node: exp.Expression) -> tuple[int, int]:
    """The line and column of a node, from 1."""
    for part in node.walk():
        start = part.meta.get("start") if part._meta else None
        if start is not None:
            before = text[:start].split("\n")
            return len(before), len(before[-1]) + 1
    return 1, 1


def refused(text: str, node: exp.Expression, name: str = "") -> NotSupported:
    """The error for a construct that statements over the catalogue may not have."""
    line, column = _place(text, node)
    shown = name or node.sql(dialect="postgres")[:60]
    return NotSupported(
        f"{shown} is not supported in a statement over PostgreSQL's catalogue", line=line, column=column
    )


def unknown(text: str, node: exp.Expression, problem: str, reason: str) -> SqlError:
    """The error for a name that the statement's sources do not have."""
    line, column = _place(text, node)
    return SqlError(problem, line=line, column=column, reason=reason)
