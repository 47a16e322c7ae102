"""The database of a data directory: opening, writing, and the errors after which it is not trusted.

    one file, psoup.db; its tables and their form: see `schema`

One connection writes, in WAL mode with synchronous=FULL: a commit returns after its frames are on the disk. The
checkpoint moves them into the database's own file. This module makes it, because SQLite would swallow its errors. It
runs after a commit. If the host chooses the time (`settle`), another thread runs it during commits (`checkpointer`).

After an error of the disk nothing is written any more, because the disk's state is unknown then (SQLite itself would go
on after a failed fsync). A full disk is different: SQLite undoes the write, and the caller may try it again. Any other
error in a transaction (a value that is too large, memory that ran out) undoes only that transaction.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import apsw

from psoup.errors import Internal, PSoupError
from psoup_storage.contract import new_incarnation
from psoup_storage.durable.directory import DataDirectory, in_use, used
from psoup_storage.durable.sqlite.checkpointer import VFS, Mover
from psoup_storage.durable.sqlite.schema import FORMAT, SCHEMA, is_readable, schema_of, unknown_format
from psoup_storage.durable.sqlite.seals import broken_seals, is_sealed, register
from psoup_storage.durable.sqlite.standby_mark import PROMOTION, STANDBY
from psoup_storage.durable.sqlite.structure import damaged_log, damaged_pages, damaged_schema, emptied, orphans
from psoup_storage.durable.sqlite.upgrade import upgrade
from psoup_storage.durable.sqlite.vacuum import shrink
from psoup_storage.durable.sqlite.wal import SyncedBytes
from psoup_storage.durable.sqlite.whole_copy import ADOPT, MARK, Act, copy_pages
from psoup_storage.formats.files import disk_full

CHECKPOINT_BYTES = 16 * 1024 * 1024
"""Bytes of frames in the write-ahead log from which on they are moved to the database."""

_STEPS = 4
"""The mover copies `CHECKPOINT_BYTES` in this many steps, because a commit may wait for the end of a step. With pushes
of 64 MB a second, p99 of small pushes was 13.5 to 15 ms for one step. It was 11.7 to 12.7 ms for four.
"""

_POSTPONED = 4
"""At this multiple of `CHECKPOINT_BYTES` a commit makes the checkpoint, even if the host chooses the time."""

_LONG = 3
"""At this multiple of `CHECKPOINT_BYTES`, `settle` moves the last frames between two commits. Then the write-ahead log
begins again at its start.
"""
_FEW = 8
"""`settle` does that if at most one `_FEW`-th of `CHECKPOINT_BYTES` is not moved yet."""

PAGE_BYTES = 16 * 1024
"""The page size of a new database. A batch of a thousand tuples takes a few pages. Each page costs a checksum, and a
step when SQLite frees it."""

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


class Database:
    """An open, checked database. Transactions may come from any thread; they take turns. Only a start reads.

    Raises InvalidInput for a directory of another version (reason UNKNOWN_FORMAT), or if another process has it open
    (DATA_DIR_IN_USE). Raises Internal, reason DATA_DAMAGED or STORAGE_FAILED, for an unreadable database.
    """

    def __init__(self, directory: DataDirectory, vfs: str | None = None) -> None:
        self._directory = directory
        self._lock = threading.RLock()
        self._frames = 0
        self._page_bytes = PAGE_BYTES
        self._tried = 0
        """Frames that the last checkpoint, without room for them, could not move."""
        self._moved = 0
        """Frames that the mover has copied since the write-ahead log began at its start."""
        self._mover: Mover | None = None
        """Copies frames on its own thread. None before `postpone`, and with a `vfs` of the tests."""
        self._postpones = False
        self._vfs = vfs
        self._synced = SyncedBytes(self._wal)
        self.failure = ""
        """The reason why nothing is written any more; empty before a failure."""
        if not directory.database.exists() or not directory.database.stat().st_size:
            log = self._wal.exists() and self._wal.stat().st_size  # which SQLite would remove
            self._refuse_used(self._wal.name if log else used(directory.path))
            directory.make_file(directory.database)
        try:
            self._connection = apsw.Connection(str(directory.database), vfs=vfs or VFS)
        except apsw.Error as problem:
            raise self._cannot("opened", problem) from problem
        try:
            self._prepare()
        except BaseException as problem:
            self._abandon()
            if isinstance(problem, apsw.BusyError):
                raise in_use(directory.path) from problem
            if isinstance(problem, apsw.Error | UnicodeDecodeError):
                raise self._cannot("opened", problem) from problem
            raise

    @property
    def bytes(self) -> int:
        """Bytes of the database's files."""
        return sum(file.stat().st_size for file in (self._directory.database, self._wal) if file.exists())

    @property
    def wal_bytes(self) -> int:
        """Bytes of the write-ahead log's file; 0 while there is none."""
        with suppress(FileNotFoundError):
            return self._wal.stat().st_size
        return 0

    @property
    def _wal(self) -> Path:
        return self._directory.database.with_name(f"{self._directory.database.name}-wal")

    def query(self, statement: str, values: Sequence[Any] = ()) -> Iterator[tuple[Any, ...]]:
        """The rows of a SELECT, one after the other. No write may happen while they are read."""
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
                if self._mover is not None and self._mover.done:
                    self._take_moved(self._mover)
                if self._waiting >= CHECKPOINT_BYTES * (_POSTPONED if self._postpones else 1):
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

    def postpone(self) -> None:
        """Let the caller `settle` when it is `due`, from now on: commits do not move the write-ahead log any more."""
        with self._lock:
            self._postpones = True
            if self._mover is None and self._vfs is None:
                try:
                    self._mover = Mover(self._directory.database)
                except (apsw.Error, OSError) as problem:
                    raise self._cannot("opened", problem) from problem

    @property
    def due(self) -> bool:
        """Whether the write-ahead log should be moved to the database. Any thread."""
        mover = self._mover
        if self.failure or (mover is not None and mover.under_way):
            return False
        step = CHECKPOINT_BYTES // (1 if mover is None else _STEPS)
        return self._rest >= step or (self._moved > 0 and self._waiting >= CHECKPOINT_BYTES * _LONG)

    def settle(self) -> None:
        """Move the write-ahead log to the database, or let the mover begin to. A no-op while the mover works.

        If the disk fails, raises Internal, now and from then on.
        """
        with self._lock:
            self.refuse_if_failed()
            try:
                mover = self._mover
                if mover is not None and mover.done:
                    self._take_moved(mover)
                if mover is None or (
                    self._waiting >= CHECKPOINT_BYTES * _LONG and self._rest <= CHECKPOINT_BYTES // _FEW
                ):
                    self._checkpoint()
                elif self.due:
                    mover.begin()
            except BaseException as problem:
                self.failure = f"{type(problem).__name__}: {problem}"
                raise self._cannot("written", problem) from problem

    def refuse_if_failed(self) -> None:
        """Raise Internal after a failure of the disk, or if the database is closed."""
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
                    if self._mover is not None:
                        self._wait_for(self._mover)
                        self._mover.close()
                    shrink(self._connection, self._synced)
                    if not self._synced.move(self._connection):
                        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                    self._connection.close()
                    self._synced.close()
                except apsw.Error:  # the checkpoint failed, but the write-ahead log has all events
                    self._abandon()
            if self._mover is not None:
                self._mover.let_go()

    # Inside ---------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        connection = self._connection
        # One process, so no shared memory; the lock file excludes other processes.
        locking = "NORMAL" if self._vfs is None else "EXCLUSIVE"
        settings = {"page_size": PAGE_BYTES, "locking_mode": locking, "journal_mode": "WAL", "synchronous": "FULL"}
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
        version = self.meta("format")
        if version != str(FORMAT) and not is_sealed(connection, "format"):
            raise self._damaged(f"its format, {version}, has changed since it was written")
        if not is_readable(version):
            raise unknown_format(self._directory.path, version)
        if (damage := damaged_schema(connection, schema_of(int(version)))) is not None:
            raise self._damaged(damage)
        for damage in (*broken_seals(connection), *orphans(connection), *emptied(connection, self._directory.path)):
            raise self._damaged(damage)
        upgrade(self.transaction, int(version))
        if connection.execute("SELECT 1 FROM meta WHERE name = ?", (MARK,)).get is not None:
            with self.transaction():
                connection.execute(ADOPT, (MARK, new_incarnation()))
                connection.execute("DELETE FROM meta WHERE name IN (?, ?, ?)", (MARK, STANDBY, PROMOTION))
        shrink(connection, self._synced)
        self._synced.reset()

    def _refuse_used(self, use: str) -> None:
        """Raise Internal if `use` is not empty: a file of a used directory, whose database has no content."""
        if use:
            raise self._damaged(f"it holds nothing, and {use} is there")

    def _create(self) -> None:
        self._refuse_used(used(self._directory.path))
        facts = {"format": str(FORMAT), "incarnation": new_incarnation(), "created": str(time.time_ns() // 1_000)}
        with self.transaction() as connection:
            connection.pragma("application_id", _APPLICATION)
            for statements in SCHEMA:
                connection.execute(statements)
            connection.executemany("INSERT INTO meta (name, value) VALUES (?, ?)", facts.items())

    def _committed(self, connection: apsw.Connection, name: str, pages: int) -> int:
        if pages <= self._frames:
            self._begin_anew()
        self._frames = pages
        return apsw.SQLITE_OK

    @property
    def _waiting(self) -> int:
        """Bytes of the write-ahead log that wait for a checkpoint, without frames for which a checkpoint had no
        room.
        """
        return (self._frames - self._tried) * self._page_bytes

    @property
    def _rest(self) -> int:
        """Bytes of the write-ahead log that no checkpoint has moved or tried to move."""
        return (self._frames - max(self._tried, self._moved)) * self._page_bytes

    def _checkpoint(self) -> None:
        """Move the write-ahead log to the database. Without room it grows on, and a later checkpoint tries again."""
        if self._mover is not None:
            self._wait_for(self._mover)
        self._tried = self._frames
        with suppress(apsw.FullError):
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            self._begin_anew()

    def _wait_for(self, mover: Mover) -> None:
        if mover.under_way or mover.done:
            self._take_moved(mover)

    def _take_moved(self, mover: Mover) -> None:
        """Wait for the mover, and note the frames that it has moved. Without room, a later checkpoint tries again."""
        frames = self._frames
        try:
            self._moved = min(mover.moved(), frames)
        except apsw.FullError:
            self._tried = frames
            return
        if self._moved == frames:
            self._begin_anew()

    def _begin_anew(self) -> None:
        """Reset the counts of frames: the write-ahead log begins at its start, with this commit or the next one."""
        self._frames = self._tried = self._moved = 0

    def _roll_back(self) -> None:
        """Undo an open transaction, so that reads see only committed rows. Writes nothing to the disk."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:  # the failure that led here is the one to report
            pass

    def _abandon(self) -> None:
        """Close without another write. The next start recovers from the log on disk."""
        try:
            if self._mover is not None:
                self._mover.close()
            self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._connection.close(True)
            self._synced.close()
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
