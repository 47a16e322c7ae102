"""Checksums of the rows that describe the stored data, because a flipped bit there would silently give a wrong answer.

    INSERT, UPDATE ──trigger──> checksum = row_crc(every other column)
    start          a row whose checksum is wrong is damaged

SQLite calls `row_crc` by itself, so code that writes rows needs no extra step. A tool without this function can read
these tables, but not write them. Rows of the log have their own checksums, made with the event (`codec`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

import apsw

_CHUNK = "first_id rows file bytes crc last_time ties first_time memory footer footer_crc zones"
_SEALED = {
    "chunks": (("stream", "number"), tuple(_CHUNK.split())),
    "stored": (("stream",), ("first_time", "dropped_time", "late", "ahead")),
    "meta": (("name",), ("value",)),
}
"""Each table, with its key and its other columns."""
_LATER = {"chunks": ("places", "places_left")}
"""Columns that tables got in a later format."""


def register(connection: apsw.Connection) -> None:
    """Define `row_crc` on a connection, before anything is written or checked."""
    connection.create_scalar_function("row_crc", _crc, -1, deterministic=True, flags=apsw.SQLITE_INNOCUOUS)


def _crc(*values: Any) -> int:
    return zlib.crc32(json.dumps(values, default=repr).encode())  # a BLOB has no form in JSON


def _statements(table: str, later: tuple[str, ...] = ()) -> Iterator[str]:
    key, columns = _SEALED[table]
    columns += later
    this = " AND ".join(f"{column} = NEW.{column}" for column in key)
    new = ", ".join(f"NEW.{column}" for column in key + columns)
    yield f"UPDATE {table} SET checksum = row_crc({', '.join(key + columns)});"
    for name, event in (("inserted", "INSERT"), ("updated", f"UPDATE OF {', '.join(columns)}")):
        yield f"CREATE TRIGGER {table}_{name} AFTER {event} ON {table}"
        yield f"BEGIN UPDATE {table} SET checksum = row_crc({new}) WHERE {this}; END;"


def seals(*tables: str) -> str:
    """The statements that give tables checksums, and their present rows as well."""
    return "\n".join(
        statement
        for table in tables
        for statement in (f"ALTER TABLE {table} ADD COLUMN checksum INTEGER;", *_statements(table))
    )


def wider_seals(table: str) -> str:
    """The statements that let the checksums of a table contain its later columns, which it has."""
    dropped = [f"DROP TRIGGER {table}_{name};" for name in ("inserted", "updated")]
    return "\n".join([*dropped, *_statements(table, _LATER[table])])


def is_sealed(connection: apsw.Connection, name: str) -> bool:
    """Whether the checksum of a row of `meta` is right. Also True for older formats without this checksum. O(1)."""
    try:
        row = connection.execute("SELECT checksum IS row_crc(name, value) FROM meta WHERE name = ?", (name,)).get
    except apsw.SQLError:
        return True
    return bool(row)


def broken_seals(connection: apsw.Connection) -> Iterator[str]:
    """Damaged rows, in words; also in a directory of a format before this one. O(rows)."""
    for table, (key, columns) in _SEALED.items():
        present = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        columns += tuple(column for column in _LATER.get(table, ()) if column in present)
        wrong = f"SELECT {', '.join(key)} FROM {table} WHERE checksum IS NOT row_crc({', '.join(key + columns)})"
        for values in connection.execute(wrong):
            place = ", ".join(f"{column} {value}" for column, value in zip(key, values, strict=True))
            yield f"the row of {table} with {place} has changed since it was written"
