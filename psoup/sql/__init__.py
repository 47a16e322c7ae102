"""SQL: the text of a statement becomes a bound query, or a refusal that names the place and the way out.

    text ──parser──> tree ──refusals──> select, ddl ──binder──> StandingQuery, StreamSpec, Template

Question: what does a statement mean, for the streams that exist now?

Files and rooms, in reading order:

    statement                               the entry points
    source, types, lifetime                 the text and places in it; names of types; lifetimes
    parser                                  text to a syntax tree
    refusals, instead, vague                features that are refused, and the hint for each
    select, select_list, from_list          SELECT, its list, FROM
    names, supplied_names                   names of columns and of supplied functions
    binder, special_forms, spans            expressions; functions with a syntax of their own; intervals of time
    aggregates, group_by                    aggregate functions; GROUP BY and HAVING
    join_conditions, where                  conditions of a join, by source; WHERE as factors
    windows, ddl                            BEGIN and END; CREATE, ALTER and DROP STREAM
    derivation, derive_options, derived_ticks    CREATE STREAM … AS, its options, and EVERY
    time_domains                            streams that have no NOW in common
    templates                               prepared statements, bound for many rows of values
    elsewhere                               statements and functions of other dialects, and advice about them

Never here: a row, a clock, an ID of a query. Only this room imports sqlglot.
Not for: the plan itself (`psoup.plan`), the text of a plan (`psoup.plan.canonical`).
"""

from psoup.sql.ddl import (
    MAX_ATTRIBUTES,
    Alteration,
    Dropping,
    alter_statement,
    columns_statement,
    create_statement,
    with_derivation,
)
from psoup.sql.derivation import bound_derivation, changes_are_known, stays
from psoup.sql.statement import (
    alter_stream,
    create_from_stream,
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
    "bound_derivation",
    "changes_are_known",
    "columns_statement",
    "create_from_stream",
    "create_statement",
    "create_stream",
    "drop_stream",
    "first_word",
    "prepare",
    "standing_query",
    "stays",
    "window_clause",
    "with_derivation",
]
