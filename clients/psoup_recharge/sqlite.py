"""A SQLite file that the store opens, reads and changes in transactions. Its errors name a way out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from psoup_client.errors import InvalidRequest, PSoupError

_BUSY_MS = 10_000


class StoreError(PSoupError):
    """The file is not a store, has another format, is damaged, read-only or missing, or its disk is full."""

    reason = "STORE"


class File:
    """A SQLite file, created if it is missing. Only one thread at a time may use it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.exists() and not path.is_file():
            raise StoreError(f"{path} is a folder, a pipe or a device, not a file; choose another place for the store")
        with self.explained():
            self._db = apsw.Connection(str(path))
            self._db.set_busy_timeout(_BUSY_MS)

    def close(self) -> None:
        """Close the file; idempotent."""
        self._db.close()

    def run(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run SQL statements. Returns the rows of the last one."""
        with self.explained():
            return self._db.execute(sql, values).fetchall()

    def try_run(self, sql: str, *values: Any) -> None:
        """Run a statement that may be left out. A read-only file, or another program that writes, leaves it out."""
        self._db.set_busy_timeout(0)
        try:
            self.run(sql, *values)
        except StoreError:
            pass
        finally:
            self._db.set_busy_timeout(_BUSY_MS)

    def run_many(self, sql: str, rows: Iterator[tuple[Any, ...]]) -> None:
        """Run a statement once for each row of values."""
        with self.explained():
            self._db.executemany(sql, rows)

    def changed(self) -> int:
        """The number of rows that the last statement changed."""
        return self._db.changes()

    def select(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Run a user's SELECT. Returns its columns and rows. Raises InvalidRequest for any other statement."""
        names = list[str]()

        def columns(cursor: apsw.Cursor, *_: object) -> bool:  # called before the first row, even without rows
            names[:] = [column[0] for column in cursor.get_description()]
            return True

        cursor = self._db.cursor()
        cursor.exec_trace = columns
        self._db.authorizer = _reading_only
        try:
            rows = cursor.execute(sql).fetchall()
        except apsw.Error as problem:
            raise InvalidRequest(f"SQLite says: {problem}") from None
        finally:
            self._db.authorizer = None
        return names, rows

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Run the block in a read transaction, or in the outer transaction if there is one."""
        with self.explained():
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Run the block in a write transaction."""
        with self.explained():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn errors of SQLite inside the block into errors of the store, which name a way out."""
        try:
            yield
        except apsw.Error as problem:
            raise StoreError(f"{self.path}: {_why(problem)}") from None


def _why(problem: apsw.Error) -> str:
    said = str(problem)
    if getattr(problem, "extendedresult", 0) == apsw.SQLITE_READONLY_DBMOVED:
        return "it was removed, or replaced by another file; nothing was changed: open it again"
    advice = {
        apsw.NotADBError: "it is not a valid SQLite file; choose another place for the store",
        apsw.CorruptError: "the file is damaged; delete it, and the next recharge brings all rows again",
        apsw.FullError: "the disk is full; nothing was changed",
        apsw.ReadOnlyError: "it cannot be written; nothing was changed",
        apsw.BusyError: "another program is writing to it; try again",
        apsw.IOError: "the disk failed, or has no more room; nothing was changed",
        apsw.CantOpenError: "it cannot be opened; is there such a folder, and may you write to it?",
        apsw.ConstraintError: "the received changes do not fit the stored rows; nothing was changed",
        apsw.ConnectionClosedError: "it is closed",
    }
    return next((f"{words} ({said})" for kind, words in advice.items() if isinstance(problem, kind)), said)


def _reading_only(operation: int, *_: object) -> int:
    """Tell SQLite to allow reading, and nothing else."""
    allowed = (apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE)
    return apsw.SQLITE_OK if operation in allowed else apsw.SQLITE_DENY
