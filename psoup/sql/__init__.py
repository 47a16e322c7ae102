"""SQL text becomes bound queries. Only this package uses sqlglot. `statement` has the entry points."""

from psoup.sql.ddl import MAX_ATTRIBUTES, Alteration, Dropping, alter_statement, create_statement
from psoup.sql.statement import (
    alter_stream,
    create_stream,
    drop_stream,
    first_word,
    prepare,
    standing_query,
    window_clause,
)
from psoup.sql.templates.prepared_statement import PreparedStatement

__all__ = [
    "MAX_ATTRIBUTES",
    "Alteration",
    "Dropping",
    "PreparedStatement",
    "alter_statement",
    "alter_stream",
    "create_statement",
    "create_stream",
    "drop_stream",
    "first_word",
    "prepare",
    "standing_query",
    "window_clause",
]
