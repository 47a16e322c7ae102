"""The file's tables, the number of its format, and the steps that upgrade a file of an older format.

    store       what the file is
    queries     the queries that are kept, with the token of each
    history     what came for each copy, a line for each recharge
    recharges   what each recharge took, and what it left out
    clock       NOW of the service at the last reply, and the clocks here: see `clock`

The first change of each copy creates its table of rows and its view: see `tables`.
"""

from __future__ import annotations

import secrets

from psoup_recharge.clock import CLOCK
from psoup_recharge.sqlite import File, StoreError

_FORMAT = 2
_APPLICATION = 0x50536F70
"""`PSop`: the application ID in the header of the file."""

_FIRST = """
CREATE TABLE store (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE queries (
    number INTEGER PRIMARY KEY, name TEXT UNIQUE COLLATE NOCASE NOT NULL, sql TEXT NOT NULL, query_id TEXT NOT NULL,
    key TEXT NOT NULL, priority REAL NOT NULL, fresh REAL NOT NULL, token BLOB NOT NULL DEFAULT x'',
    form BLOB, complete INTEGER NOT NULL DEFAULT 0, now TEXT, synced REAL, error TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE history (
    at TEXT NOT NULL, name TEXT NOT NULL, bytes INTEGER NOT NULL, came INTEGER NOT NULL, gone INTEGER NOT NULL,
    reset TEXT NOT NULL, error TEXT NOT NULL
) STRICT;
"""
_SECOND = f"""
ALTER TABLE queries ADD COLUMN share REAL NOT NULL DEFAULT 0;
ALTER TABLE queries ADD COLUMN "order" TEXT NOT NULL DEFAULT 'newest';
ALTER TABLE queries ADD COLUMN "window" TEXT NOT NULL DEFAULT '';
CREATE TABLE recharges (
    at TEXT NOT NULL, seconds REAL NOT NULL, sent INTEGER NOT NULL, received INTEGER NOT NULL, came INTEGER NOT NULL,
    gone INTEGER NOT NULL, left_out TEXT NOT NULL, why TEXT NOT NULL
) STRICT;
{CLOCK}
"""
_STEPS = (_FIRST, _SECOND)
"""The statements that lead from each format to the next one. A new file runs all of them."""


def prepare(file: File) -> None:
    """Create the tables of a new file, or upgrade an older file. Raises StoreError for a file of another kind."""
    if _found(file) == _FORMAT:
        return
    with file.changing():
        version = _found(file)  # another process may have been faster
        for step in _STEPS[version:]:
            file.run(step)
        if not version:
            file.run(f"PRAGMA application_id = {_APPLICATION}")
            file.run("INSERT INTO store VALUES ('id', ?)", secrets.token_hex(8))
        file.run(f"PRAGMA user_version = {_FORMAT}")


def _found(file: File) -> int:
    """Return the number of the file's format; 0 for an empty file."""
    ((version,),) = file.run("PRAGMA user_version")
    ((application,),) = file.run("PRAGMA application_id")
    ((tables,),) = file.run("SELECT count(*) FROM sqlite_schema")
    if not tables and not version:
        return 0
    if application != _APPLICATION:
        raise StoreError(f"{file.path} is a SQLite file of something else; choose another place for the store")
    if not 0 < version <= _FORMAT:
        raise StoreError(f"{file.path} has format {version}, and this program reads 1 to {_FORMAT}; upgrade psoup")
    return int(version)
