"""Checks of a database for damage that SQLite itself would not report.

    write-ahead log   committed frames that SQLite leaves out because they are damaged     see `wal`
    pages             PRAGMA integrity_check: every page, cell, index entry; rows that are lost or doubled
    schema            its statements equal the statements of this format; a flipped bit could remove a rule
    events            an empty log, although there are chunks: a start would remove them as orphans of a crash

This module does not check the content of rows, because each row has its own checksum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import apsw

from psoup_storage.durable.directory import LOOK_AT_A_COPY, in_use, stored_in
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.wal import damaged_frame, lost_frame

_ORPHANS = """
SELECT sequence FROM gone WHERE sequence NOT IN
    (SELECT sequence FROM log WHERE kind IN ('queries', 'departure') OR kind = 'drop' AND body ->> 'ids' IS NOT NULL)
"""
_SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_stat%' ORDER BY name"


def damaged_log(connection: apsw.Connection, wal: Path) -> str | None:
    """The damage of the write-ahead log, in words; else None. Call it before the first write."""
    valid, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    frame = damaged_frame(wal, max(0, valid))
    frame = lost_frame(wal, max(0, valid)) if frame is None else frame
    if frame is None:
        return None
    place = "its header" if frame < 0 else f"frame {frame}"
    return f"{place} of the write-ahead log {wal.name} is damaged or gone, and the last acknowledged events were there"


def damaged_pages(connection: apsw.Connection) -> list[str]:
    """The damage that SQLite finds, in its words. O(database)."""
    texts = [str(text) for (text,) in connection.execute("PRAGMA integrity_check(20)")]
    return [] if texts == ["ok"] else texts


def damaged_schema(connection: apsw.Connection, statements: Sequence[str]) -> str | None:
    """The damage, in words, if a definition of the database differs from `statements`; else None."""
    fresh = apsw.Connection(":memory:")
    register(fresh)
    for statement in statements:
        fresh.execute(statement)
    expected = list(fresh.execute(_SCHEMA))
    fresh.close()
    actual = list(connection.execute(_SCHEMA))
    odd = sorted({str(row[1]) for row in set(expected) ^ set(actual)})
    return f"the definition of {odd[0]} is not this format's" if odd else None


def orphans(connection: apsw.Connection) -> Iterator[str]:
    """Rows of `gone` without their block or departure, in words. With a flipped bit, gone queries would come back."""
    for (sequence,) in connection.execute(_ORPHANS):
        yield f"it lists the gone queries of block {sequence} are gone, and there is no such block"


def emptied(connection: apsw.Connection, directory: Path) -> Iterator[str]:
    """The damage, in words, if the log has no events although there are stored chunks."""
    entries = stored_in(directory)
    if entries and not connection.execute("SELECT EXISTS (SELECT 1 FROM log)").get:
        yield f"it knows no event, and {entries} is there"


def open_to_look(database: Path) -> apsw.Connection:
    """A connection that changes nothing on the disk, not even when it is closed. Raises apsw.Error if it cannot be
    opened.

    Raises InvalidInput, reason DATA_DIR_IN_USE, if another process has the database open; it cannot be examined then.
    """
    if database.exists() and not database.stat().st_size:  # SQLite would remove the write-ahead log
        raise apsw.NotADBError("it is empty")
    connection = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    try:
        for name, value in (("locking_mode", "EXCLUSIVE"), ("query_only", True), ("trusted_schema", False)):
            connection.pragma(name, value)
        register(connection)
        connection.pragma("user_version")
    except apsw.BusyError as problem:
        connection.close()
        raise in_use(database.parent, LOOK_AT_A_COPY) from problem
    return connection


def refuse_if_open(database: Path) -> None:
    """Raise InvalidInput, reason DATA_DIR_IN_USE, if another process has the database open. Nothing is changed."""
    with suppress(apsw.Error):  # damage, which the next start or the doctor reports
        open_to_look(database).close()
    wal = database.with_name(f"{database.name}-wal")
    if wal.exists() and not wal.stat().st_size:
        wal.unlink()  # SQLite makes one to look into it
