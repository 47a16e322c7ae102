"""The database of a data directory: how SQLite is opened, what is in it, and when it is trusted.

    meta   format, incarnation, created, guarded one row each, with a checksum: see `seals`
    log    the events, by sequence               see `codec`, `log`, `forgetting`
    slices of events that are large              see `log`
    chunks the stored chunks                     see `chunks`
    stored facts of a stream whose events the log has forgotten

One connection, in WAL mode with synchronous=FULL: a commit returns after its frames are on the disk. The checkpoint,
which moves them into the database's own file, is made here and not by SQLite, which would swallow its errors: behind a
commit, or when the host has time for it (`settle`).
After an error of the disk nothing is written any more (SQLite goes on after a failed fsync; the disk's state is unknown
then). A full disk is the exception: nothing of the write is kept, and it may be tried again. Any other error in a
transaction (a value that is too large, memory that ran out) undoes that transaction only.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from psoup.errors import Internal, InvalidInput, PSoupError
from psoup_storage.contract import new_incarnation
from psoup_storage.durable.directory import DataDirectory
from psoup_storage.durable.sqlite.seals import broken_seals, register, seals
from psoup_storage.durable.sqlite.shrinking import shrink
from psoup_storage.durable.sqlite.structure import damaged_log, damaged_pages, damaged_schema, orphans
from psoup_storage.durable.sqlite.wal import Synced
from psoup_storage.durable.sqlite.whole_copy import MARK, Act, copy_pages
from psoup_storage.formats.files import disk_full

FORMAT = 13
"""The form of the directory that this version writes and reads."""

CHECKPOINT_BYTES = 16 * 1024 * 1024
"""Frames in the write-ahead log after which they are moved to the database."""

_POSTPONED = 4
"""At so many times `CHECKPOINT_BYTES` a commit moves them although the host was to choose the time (`postpones`)."""

PAGE_BYTES = 16 * 1024
"""The page size of a new database. A batch of a thousand tuples takes a few pages; each costs a checksum, and a step
when it goes."""

_DISK = (
    OSError,
    apsw.IOError,
    apsw.CorruptError,
    apsw.NotADBError,
    apsw.CantOpenError,
    apsw.ReadOnlyError,
    apsw.PermissionsError,
    apsw.BusyError,
    apsw.LockedError,
    apsw.ProtocolError,
)
"""Errors after which the content of the disk is unknown."""

_APPLICATION = 0x50536F75  # "PSou"
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
_UPGRADES = {
    1: _CHUNKS,
    2: _ARCHIVE,
    3: seals("chunks", "stored"),
    4: _SLICES + _QUERIES,
    5: seals("meta"),
    6: "",
    7: "",
    8: "",
    9: "",
    10: "",
    11: _TOKENS,
    12: _TENANTS,
}
"""The statements that lead from each older format to the next. The seventh has pushes that say which producers were
forgotten, the eighth queries with keys and labels, the ninth queries that replace others and many that left at once,
the tenth joins, and pushes that count the rows of their producers, the eleventh folds beside chunks, the twelfth access
tokens, the thirteenth tenants."""
SCHEMA = (_SCHEMA, *_UPGRADES.values())
"""The statements that create a database of this format."""


class Database:
    """An open, checked database. Transactions may come from any thread; they take turns. Reading is for the start.

    Raises InvalidInput, reason UNKNOWN_FORMAT, for a directory of another version; Internal, reason DATA_DAMAGED or
    STORAGE_FAILED, for a database that cannot be read.
    """

    def __init__(self, directory: DataDirectory, vfs: str | None = None) -> None:
        self._directory = directory
        self._lock = threading.RLock()
        self._frames = 0
        self._page_bytes = PAGE_BYTES
        self._tried = 0
        """Frames that the last checkpoint, without room for them, could not move."""
        self.postpones = False
        """Whether the host calls `settle` when it is `due`."""
        self._synced = Synced(self._wal)
        self.failure = ""
        """Why nothing is written any more; empty while all is well."""
        if not directory.database.exists():
            directory.make_file(directory.database)
        try:
            self._connection = apsw.Connection(str(directory.database), vfs=vfs)
        except apsw.Error as problem:
            raise self._cannot("opened", problem) from problem
        try:
            self._prepare()
        except BaseException as problem:
            self._abandon()
            if isinstance(problem, apsw.Error | UnicodeDecodeError):
                raise self._cannot("opened", problem) from problem
            raise

    @property
    def bytes(self) -> int:
        """Bytes of the database's files."""
        return sum(file.stat().st_size for file in (self._directory.database, self._wal) if file.exists())

    @property
    def _wal(self) -> Path:
        base = self._directory.database
        return base.with_name(base.name + "-wal")

    def query(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a SELECT, one after the other; nothing may be written while they are read."""
        try:
            yield from self._connection.execute(statement, values)
        except (apsw.Error, UnicodeDecodeError) as problem:
            raise self._cannot("read", problem) from problem

    @contextmanager
    def transaction(self) -> Iterator[apsw.Connection]:
        """A transaction: all writes of the block or none, on the disk when the block is left.

        Raises Internal if the commit fails, and from then on if the disk failed; ResourceExhausted, reason DISK_FULL,
        without room: nothing is kept then, and a later transaction may find room. Any other exception of the block
        comes out as Internal, reason NOT_WRITTEN; nothing has changed then.
        """
        with self._lock:
            self.refuse_if_failed()
            inside = False
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                inside = True
                yield self._connection
                inside = False
                self._connection.execute("COMMIT")
                self._synced.reached(self._frames)
                if self._waiting >= CHECKPOINT_BYTES * (_POSTPONED if self.postpones else 1):
                    self._checkpoint()
            except apsw.FullError as problem:
                self._roll_back()
                if self._connection.in_transaction:
                    self.failure = f"a transaction that found no room cannot be undone: {problem}"
                    raise self._cannot("written", problem) from problem
                raise disk_full(self._directory.path, str(problem)) from problem
            except BaseException as problem:
                self._roll_back()
                harmless = inside and isinstance(problem, Exception) and not isinstance(problem, _DISK)
                if not harmless or self._connection.in_transaction:
                    self.failure = f"{type(problem).__name__}: {problem}"
                if isinstance(problem, PSoupError):
                    raise
                raise self._cannot("written", problem) from problem

    @property
    def due(self) -> bool:
        """Whether the write-ahead log should be moved to the database."""
        return self._waiting >= CHECKPOINT_BYTES and not self.failure

    def settle(self) -> None:
        """Move the write-ahead log to the database. If the disk fails, raises Internal, now and from then on."""
        with self._lock:
            self.refuse_if_failed()
            try:
                self._checkpoint()
            except BaseException as problem:
                self.failure = f"{type(problem).__name__}: {problem}"
                raise self._cannot("written", problem) from problem

    def refuse_if_failed(self) -> None:
        """Raise Internal if something has failed before, or the database is closed."""
        if self.failure:
            raise Internal(f"the store in {self._directory.path} takes no events: {self.failure}", reason="FAILED")

    def meta(self, name: str) -> str:
        """A value of the table `meta`."""
        value = self._connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).get
        if value is None:
            raise self._damaged(f"{name!r} is missing in its table of contents")
        return str(value)

    def copy(self, target: Path, last: Act) -> None:
        """Copy the database to the file `target`, between transactions. `last` runs with the last page: at that moment
        the copy equals the database, and nothing changes. Raises apsw.Error, and Internal if the database has failed.
        """
        copy_pages(self._connection, target, self._turn, last)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._lock:
            self.refuse_if_failed()
            yield

    def close(self) -> None:
        """Close the database; if it never failed, everything is moved into one file before. Idempotent."""
        with self._lock:
            if self.failure:
                self._abandon()
            else:
                self.failure = "it is closed"
                try:
                    shrink(self._connection)
                    self._connection.close()
                    self._synced.close(whole=True)
                except apsw.Error:  # of the checkpoint: the write-ahead log has what was acknowledged
                    self._abandon()

    # Inside ---------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        connection = self._connection
        settings = {"page_size": PAGE_BYTES, "locking_mode": "EXCLUSIVE", "journal_mode": "WAL", "synchronous": "FULL"}
        # Exclusive: one process, so no shared memory; the lock file has kept others out before this.
        for name, value in settings.items():
            connection.pragma(name, value)
        connection.pragma("cell_size_check", True)
        connection.pragma("trusted_schema", False)
        connection.pragma("mmap_size", 0)
        connection.wal_autocheckpoint(0)
        register(connection)
        connection.set_wal_hook(self._committed)
        schema_version = connection.pragma("schema_version")
        if (damage := damaged_log(connection, self._wal)) is not None:
            raise self._damaged(damage)
        if schema_version == 0:  # a new file
            self._create()
        self._page_bytes = int(connection.pragma("page_size"))
        if connection.pragma("application_id") != _APPLICATION:
            raise self._damaged("this is not a PSoup database")
        for damage in damaged_pages(connection):
            raise self._damaged(damage)
        version = self._upgrade(self.meta("format"))
        if version != str(FORMAT):
            raise InvalidInput(
                f"the data directory {self._directory.path} has format {version}, and this version of PSoup knows"
                f" {FORMAT}; use the version that wrote it, or a newer one, or another --data-dir",
                reason="UNKNOWN_FORMAT",
                found=version,
                known=FORMAT,
            )
        if (damage := damaged_schema(connection, SCHEMA)) is not None:
            raise self._damaged(damage)
        for damage in (*broken_seals(connection), *orphans(connection)):
            raise self._damaged(damage)
        if connection.execute("SELECT 1 FROM meta WHERE name = ?", (MARK,)).get is not None:
            with self.transaction():
                connection.execute("DELETE FROM meta WHERE name = ?", (MARK,))
                connection.execute("UPDATE meta SET value = ? WHERE name = 'incarnation'", (new_incarnation(),))
        shrink(connection)
        self._synced.reset()

    def _create(self) -> None:
        facts = {"format": str(FORMAT), "incarnation": new_incarnation(), "created": str(time.time_ns() // 1_000)}
        with self.transaction() as connection:
            connection.pragma("application_id", _APPLICATION)
            for statements in SCHEMA:
                connection.execute(statements)
            connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", facts.items())

    def _upgrade(self, version: str) -> str:
        """Bring an older directory to this format, step by step, each in a transaction; returns its format then."""
        while version.isdecimal() and int(version) in _UPGRADES:
            with self.transaction() as connection:
                connection.execute(_UPGRADES[int(version)])
                version = str(int(version) + 1)
                connection.execute("UPDATE meta SET value = ? WHERE name = 'format'", (version,))
        return version

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        self._frames = pages
        return apsw.SQLITE_OK

    @property
    def _waiting(self) -> int:
        """Bytes of the write-ahead log that no checkpoint has moved or tried to move."""
        return (self._frames - self._tried) * self._page_bytes

    def _checkpoint(self) -> None:
        """Move the write-ahead log to the database. Without room it grows on, and a later checkpoint tries again."""
        self._tried = self._frames
        with suppress(apsw.FullError):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._frames = self._tried = 0
            self._synced.reset()

    def _roll_back(self) -> None:
        """Undo an open transaction, so that reads see only what was kept; writes nothing to the disk."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:  # the failure that led here is the one to report
            pass

    def _abandon(self) -> None:
        """Close without another write: what the log on disk holds is for the next start to judge."""
        try:
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._connection.close(True)
            self._synced.close(whole=False)
        except apsw.Error:  # it is being given up because something else has failed already
            pass

    def _cannot(self, action: str, problem: BaseException) -> Internal:
        if isinstance(problem, apsw.CorruptError | apsw.NotADBError | UnicodeDecodeError):
            return self._damaged(str(problem))
        return Internal(
            f"the store in {self._directory.path} cannot be {action}: {type(problem).__name__}: {problem}",
            reason="STORAGE_FAILED" if self.failure or action != "written" else "NOT_WRITTEN",
            data_dir=str(self._directory.path),
        )

    def _damaged(self, why: str) -> Internal:
        return Internal(
            f"the database {self._directory.database} is damaged: {why}; "
            "psoup doctor says what is lost, psoup restore brings a backup back",
            reason="DATA_DAMAGED",
            data_dir=str(self._directory.path),
        )
