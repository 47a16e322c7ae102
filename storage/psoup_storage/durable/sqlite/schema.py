"""Tables of the database, in this version's format, and the step from the format before. Other formats are refused.

meta   format, incarnation, created, guarded   one row each, with a checksum: see `seals`
log    the events, by sequence                 see `codec`, `log`, `truncation`
slices of events that are large                see `log`, `spool`
chunks the stored chunks                       see `chunks`
stored facts of a stream whose events the log has forgotten
"""

from __future__ import annotations

from pathlib import Path

from psoup.errors import InvalidInput
from psoup_storage.durable.sqlite.seals import seals, wider_seals

FORMAT = 19
"""The form of the directory that this version writes and reads. A start upgrades a directory of an older form that
`UPGRADES` has.
"""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE log (
    sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, stream INTEGER NOT NULL, body TEXT NOT NULL,
    refused BLOB, tuples BLOB, last_time INTEGER, checksum INTEGER NOT NULL
) STRICT;
"""

_CHUNKS = """
CREATE INDEX log_by_stream ON log (stream, last_time);
CREATE TABLE chunks (
    stream INTEGER NOT NULL, number INTEGER NOT NULL, first_id INTEGER NOT NULL, rows INTEGER NOT NULL,
    file TEXT NOT NULL, bytes INTEGER NOT NULL, crc INTEGER NOT NULL, last_time INTEGER NOT NULL,
    ties INTEGER NOT NULL, PRIMARY KEY (stream, number)
) STRICT, WITHOUT ROWID;
CREATE TABLE stored (
    stream INTEGER PRIMARY KEY, first_time INTEGER, dropped_time INTEGER,
    late INTEGER NOT NULL DEFAULT 0, ahead INTEGER NOT NULL DEFAULT 0
) STRICT;
"""
_ARCHIVE = "".join(
    f"ALTER TABLE chunks ADD COLUMN {column};"
    for column in ("first_time INTEGER", "memory INTEGER", "footer INTEGER", "footer_crc INTEGER", "zones TEXT")
)
_SLICES = """
CREATE TABLE slices (
    sequence INTEGER NOT NULL, number INTEGER NOT NULL, content BLOB NOT NULL, PRIMARY KEY (sequence, number)
) STRICT;
CREATE TABLE gone (sequence INTEGER PRIMARY KEY, queries BLOB NOT NULL) STRICT;
CREATE TRIGGER log_deleted AFTER DELETE ON log
BEGIN
    DELETE FROM slices WHERE sequence = OLD.sequence;
    DELETE FROM gone WHERE sequence = OLD.sequence;
END;
CREATE TRIGGER log_stored AFTER UPDATE OF tuples ON log WHEN NEW.tuples IS NULL
BEGIN DELETE FROM slices WHERE sequence = NEW.sequence; END;
"""
_QUERIES = """
CREATE INDEX log_queries ON log (body ->> 'query') WHERE kind IN ('query', 'unregister');
CREATE INDEX log_blocks ON log (body ->> 'first') WHERE kind = 'queries';
"""
_TOKENS = "CREATE INDEX log_tokens ON log (kind) WHERE kind IN ('token', 'revoke');"
_TENANTS = "CREATE INDEX log_tenants ON log (kind) WHERE kind IN ('tenant', 'vacate');"
_SPOOLED = """
ALTER TABLE log ADD COLUMN spool INTEGER;
CREATE INDEX log_spools ON log (spool) WHERE spool IS NOT NULL;
DROP TRIGGER log_deleted;
DROP TRIGGER log_stored;
CREATE TRIGGER log_deleted AFTER DELETE ON log
BEGIN
    DELETE FROM slices WHERE sequence = ifnull(OLD.spool, OLD.sequence);
    DELETE FROM gone WHERE sequence = OLD.sequence;
END;
CREATE TRIGGER log_stored AFTER UPDATE OF tuples ON log WHEN NEW.tuples IS NULL
BEGIN DELETE FROM slices WHERE sequence = ifnull(NEW.spool, NEW.sequence); END;
"""
_THINNED = """
ALTER TABLE chunks ADD COLUMN places INTEGER;
ALTER TABLE chunks ADD COLUMN places_left BLOB;
""" + wider_seals("chunks")
_WEBHOOKS = """
CREATE INDEX log_webhooks ON log (body ->> 'webhook') WHERE kind IN ('webhook', 'unhook');
"""
_AMOUNTS = "CREATE INDEX log_altered ON log (sequence) WHERE kind = 'altered';"
_FIRST = (
    _SCHEMA,
    _CHUNKS,
    _ARCHIVE,
    seals("chunks", "stored"),
    _SLICES + _QUERIES,
    seals("meta"),
    _TOKENS,
    _TENANTS,
    _SPOOLED,
    _THINNED,
    _WEBHOOKS,
    _AMOUNTS,
)
_DEFINITIONS = "CREATE INDEX log_definitions ON log (stream) WHERE kind IN ('stream', 'alter');"
UPGRADES = {18: _DEFINITIONS}
"""The statements that lead from an older format to the next one. Earlier versions do not read the facts of derived
streams, which rows of format 19 have."""
SCHEMA = (*_FIRST, *UPGRADES.values())
"""The statements that create a database of this format, in the order in which the tables came to be."""


def schema_of(version: int) -> tuple[str, ...]:
    """The statements that create a database of an older format that `UPGRADES` has, or of this format."""
    return (*_FIRST, *(step for number, step in UPGRADES.items() if number < version))


def is_readable(version: str) -> bool:
    """Whether this version reads directories of a format, because it is the present one or can be upgraded."""
    return version.isdecimal() and (int(version) == FORMAT or int(version) in UPGRADES)


def unknown_format(directory: Path, version: str) -> InvalidInput:
    """The error for a directory of another format. A greater format is of a newer version, a smaller one of an older
    version.
    """
    if version.isdecimal() and int(version) > FORMAT:
        advice = ": a newer version of PSoup wrote it; use that version, or a newer one, or another directory"
    else:
        advice = ", and no older one; use the version that wrote it, or push the data again into a new directory"
    formats = " and ".join(map(str, [*UPGRADES, FORMAT]))
    return InvalidInput(
        f"the data directory {directory} has format {version}, and this version of PSoup reads the formats"
        f" {formats}{advice}",
        reason="UNKNOWN_FORMAT",
        found=version,
        known=FORMAT,
    )
