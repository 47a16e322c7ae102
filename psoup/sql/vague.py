"""Vague clauses, which new streams may not have, because they often mean something else than their author thinks.

    RETENTION 5            seconds, after which tuples expire; the author may think of days or rows
    VARCHAR2(3)            a text of any length
    DECIMAL                three digits after the point, here and in DuckDB; none in PostgreSQL and Spark

Streams in an old log may have them. They keep the meaning that they had then.
"""

from __future__ import annotations

from sqlglot import exp

from psoup.sql.source import StatementText

_DURATIONS = {"lateness": "LATENESS", "idle": "IDLE AFTER", "ahead": "AHEAD"}
_AMOUNTS = {"retention": "RETENTION", "archive": "ARCHIVE"}


def refuse_vague(source: StatementText, node: exp.Expr) -> None:
    """Raise SqlError for a vague clause in a `CreateStreamNode` or `AlterStreamNode`."""
    for key, word in (_DURATIONS | _AMOUNTS).items():
        clause = node.args.get(key)
        if clause is not None and not clause.args.get("unit") and str(clause.this).strip("0."):
            ways = ("DAYS", "SECONDS", "ROWS") if key in _AMOUNTS else ("MINUTES", "SECONDS")
            *others, last = (f"{word} {clause.this} {unit}" for unit in ways)
            hint = f"write {', '.join(others)} or {last}"
            raise source.error(f"{word} {clause.this} has no unit", clause, hint=hint)
    for column in node.expressions:
        kind = column.args["kind"]
        if kind.expressions and kind.this in exp.DataType.TEXT_TYPES:
            hint = "write TEXT, which takes texts of any length"
            raise source.error(f"the length of {source.written(kind)} would not be kept to", kind, hint=hint)
        if kind.this is exp.DataType.Type.DECIMAL and not kind.expressions:
            hint = "write DECIMAL(18, 2) or the like; without digits it would be DECIMAL(18, 3)"
            raise source.error(f"{source.written(kind)} has no digits", kind, hint=hint)
