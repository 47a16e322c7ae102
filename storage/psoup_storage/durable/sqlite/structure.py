"""Whether a database is as it was written: what SQLite's own reading would pass over.

    write-ahead log   committed frames that SQLite leaves out because they are damaged     see `wal`, `synced`
    pages             PRAGMA integrity_check: every page, cell, index entry; rows that are lost or twice there
    schema            the very statements of this format: a bit of them is a rule less

What the rows say is not looked at: each has a checksum of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw

from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.wal import damaged_frame, lost_frame

_ORPHANS = "SELECT sequence FROM gone WHERE sequence NOT IN (SELECT sequence FROM log WHERE kind = 'queries')"
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name"


def damaged_log(connection: apsw.Connection, wal: Path) -> str | None:
    """What is wrong with the write-ahead log. To be asked before anything is written."""
    valid, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    frame = damaged_frame(wal, max(0, valid))
    frame = lost_frame(wal, max(0, valid)) if frame is None else frame
    if frame is None:
        return None
    place = "its header" if frame < 0 else f"frame {frame}"
    return f"{place} of the write-ahead log {wal.name} is damaged, and what was acknowledged last is behind it"


def damaged_pages(connection: apsw.Connection) -> list[str]:
    """What SQLite finds wrong, in its words; O(database)."""
    found = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(20)")]
    return [] if found == ["ok"] else found


def damaged_schema(connection: apsw.Connection, statements: Sequence[str]) -> str | None:
    """Which table is not as `statements` make it."""
    fresh = apsw.Connection(":memory:")
    register(fresh)
    for statement in statements:
        fresh.execute(statement)
    made = list(fresh.execute(_SCHEMA))
    fresh.close()
    found = list(connection.execute(_SCHEMA))
    odd = sorted({str(row[1]) for row in set(made) ^ set(found)})
    return f"the definition of {odd[0]} is not this format's" if odd else None


def orphans(connection: apsw.Connection) -> Iterator[str]:
    """Rows of `gone` whose block is missing, in words: a bit of a sequence would bring queries back."""
    for (sequence,) in connection.execute(_ORPHANS):
        yield f"it says which queries of block {sequence} are gone, and there is no such block"


def open_to_look(database: Path) -> apsw.Connection:
    """A connection that changes nothing on the disk, not even when it is closed."""
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    for name, value in (("locking_mode", "EXCLUSIVE"), ("query_only", True), ("trusted_schema", False)):
        connection.pragma(name, value)
    register(connection)
    connection.pragma("user_version")
    return connection
