"""The part of CREATE TABLE and ALTER TABLE that streams do not have: the primary key, HISTORY, DELETED FOR, EXPIRES BY.

    CREATE TABLE t (k TEXT, price DOUBLE, PRIMARY KEY (k)) HISTORY 7 DAYS DELETED FOR 30 DAYS FIRST VERSION FROM ARRIVAL
    columns of its tuples: _deleted, _first, k, price       `_deleted` and `_first` are hidden

The first version of a key holds from the beginning. With TIMESTAMP BY it holds from its own time, which its row states.
FIRST VERSION FROM says otherwise.

A key is one or several columns. It is never NULL. The schema calls all other columns nullable, because the entry of a
deletion has only its key. `TableSpec` has the columns with NOT NULL.

EXPIRES BY names a TIMESTAMP column. The clock deletes a row at the time in it (`psoup.published.expired_rows`). In
event time the clock does not know the time of a deletion. So EXPIRES BY excludes TIMESTAMP BY.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from psoup.model import (
    DEFAULT_DELETED_FOR,
    DEFAULT_HISTORY,
    TABLE_COLUMNS,
    Attribute,
    Kind,
    Schema,
    StreamSpec,
    TableSpec,
)
from psoup.plan.canonical import describe_duration
from psoup.sql.identifiers import name_text
from psoup.sql.names import listed
from psoup.sql.source import StatementText, nearest
from psoup.sql.windows import duration

_NO_KEYS = (Kind.DOUBLE,)
"""The kinds that cannot be keys: two computations of one number may differ in the last bit."""


def table_schema(
    source: StatementText, node: exp.Expr, attributes: tuple[Attribute, ...], *, timed: bool
) -> tuple[Schema, TableSpec]:
    """The schema of a table's tuples, and its definition. Raises SqlError.

    `attributes`: the declared columns, or the columns of the stream in FROM STREAM. `timed`: whether the table has
    TIMESTAMP BY.
    """
    reserved = {attribute.name for attribute in TABLE_COLUMNS}
    declared = [column.this for column in node.expressions] or [node.args.get("origin")] * len(attributes)
    for column, attribute in zip(declared, attributes, strict=True):
        if attribute.name.lower() in reserved:
            raise source.error(f"{attribute.name!r} is reserved: every table has it already", column)
    names = [attribute.name.lower() for attribute in attributes]
    key = [_place(source, column, names) for column in _key(source, node)]
    first = len(TABLE_COLUMNS)
    for place in key:
        kind = attributes[place].type.kind
        if kind in _NO_KEYS:
            raise source.error(
                f"{attributes[place].name!r} is {attributes[place].type}, which cannot be a key",
                declared[place],
                hint="make it BIGINT, DECIMAL or TEXT",
                reason="TYPE_MISMATCH",
            )
    stored = [replace(attribute, nullable=place not in key) for place, attribute in enumerate(attributes)]
    required = [
        place + first for place, attribute in enumerate(attributes) if not attribute.nullable and place not in key
    ]
    history, deleted, word = (node.args.get(option) for option in ("history", "deleted", "first"))
    table = TableSpec(
        tuple(place + first for place in key),
        tuple(required),
        DEFAULT_HISTORY if history is None else duration(source, history, "HISTORY"),
        DEFAULT_DELETED_FOR if deleted is None else duration(source, deleted, "DELETED FOR"),
        _expires(source, node, attributes, timed),
        timed if word is None else word.name.upper() == "ARRIVAL",
    )
    return Schema((*TABLE_COLUMNS, *stored)), table


def _key(source: StatementText, node: exp.Expr) -> list[exp.Expr]:
    """The identifiers of the primary key. Raises SqlError if there is none, or two."""
    of_columns = [column.this for column in node.expressions if column.args.get("is_key")]
    listed = node.args.get("key")
    if listed and of_columns:
        raise source.error("PRIMARY KEY is given twice", of_columns[0], hint="name all columns of the key at the end")
    if len(of_columns) > 1:
        names = ", ".join(column.name for column in of_columns)
        raise source.error("PRIMARY KEY is given twice", of_columns[1], hint=f"write PRIMARY KEY ({names}) at the end")
    if not listed and not of_columns:
        first = node.expressions[0].this.name
        hint = f"say which columns tell rows apart: PRIMARY KEY ({first})"
        raise source.error("a table needs a PRIMARY KEY", node.this, hint=hint, reason="NO_PRIMARY_KEY")
    return list(listed or of_columns)


def _expires(source: StatementText, node: exp.Expr, attributes: Sequence[Attribute], timed: bool) -> int | None:
    """The position of the column of EXPIRES BY. None without it. Raises SqlError for a column that it cannot be."""
    column = node.args.get("expires")
    if column is None:
        return None
    place = _place(source, column, [attribute.name.lower() for attribute in attributes], "EXPIRES BY")
    if timed:
        raise source.error(f"EXPIRES BY and TIMESTAMP BY exclude each other: {EVENT_TIME}", column, hint=NO_EVENT_TIME)
    if attributes[place].type.kind is not Kind.TIMESTAMP:
        problem = f"EXPIRES BY needs a TIMESTAMP, and {attributes[place].name!r} is {attributes[place].type}"
        raise source.error(problem, column, reason="TYPE_MISMATCH")
    return place + len(TABLE_COLUMNS)


EVENT_TIME = "the clock deletes expired rows, and does not know a time in event time for that"
NO_EVENT_TIME = "push deletions with their times, or create the table without TIMESTAMP BY"


def _place(source: StatementText, column: exp.Expr, names: Sequence[str], clause: str = "PRIMARY KEY") -> int:
    folded = column.name.lower()
    if folded not in names:
        hint = nearest(column.name, names) or f"its columns are {listed(names)}"
        problem = f"{clause}: there is no column {column.name!r}"
        raise source.error(problem, column, hint=hint, reason="UNKNOWN_COLUMN")
    return names.index(folded)


def table_options(spec: StreamSpec, table: TableSpec) -> tuple[str, list[str]]:
    """The text of PRIMARY KEY, and the options of a table that differ from the default ones."""
    key = ", ".join(map(name_text, spec.primary_key))
    options = list[str]()
    if table.history != DEFAULT_HISTORY:
        options.append(f"HISTORY {describe_duration(table.history)}")
    if table.deleted_for != DEFAULT_DELETED_FOR:
        options.append(f"DELETED FOR {describe_duration(table.deleted_for)}")
    if table.expires is not None:
        options.append(f"EXPIRES BY {name_text(spec.expires_by)}")
    if table.first_from_arrival != spec.event_time:
        options.append(f"FIRST VERSION FROM {'ARRIVAL' if table.first_from_arrival else 'START'}")
    return f"PRIMARY KEY ({key})", options
