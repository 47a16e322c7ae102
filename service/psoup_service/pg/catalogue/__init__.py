"""PostgreSQL's catalogue: `pg_catalog` and `information_schema` answer any SELECT.

    text ─> tree of sqlglot ─> `translation` (allowed? types of columns) ─> text for DuckDB ─> `store` ─> rows
                                                                   streams, queries ─> `content` ──┘

DuckDB runs in memory, without files and network, with locked settings. It gets only text that `translation` wrote.
"""
