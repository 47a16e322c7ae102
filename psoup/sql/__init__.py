"""SQL text to bound queries: the only user of sqlglot. See `statement` for the ways in."""

from psoup.sql.statement import create_stream, is_create, prepare, standing_query, window_clause
from psoup.sql.template import Template
from psoup.sql.windows import describe_duration, describe_window

__all__ = [
    "Template",
    "create_stream",
    "describe_duration",
    "describe_window",
    "is_create",
    "prepare",
    "standing_query",
    "window_clause",
]
