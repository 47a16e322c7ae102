"""A second connection to the database, which reads while another one writes.

    committer   transaction │ transaction │ …          the connection of `Database`
    a reader    ── SELECT ──> rows                     this one: the last commit, without waiting for a transaction

Only short reads: an open read would keep the write-ahead log from starting again at its first byte.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw

from psoup.errors import Internal
from psoup_storage.durable.sqlite.checkpointer import VFS

Rows = Callable[[str, Sequence[Any]], Iterable[tuple[Any, ...]]]
"""Returns the rows of a SELECT with values. Raises Internal."""


class QuickReader:
    """Reads a few rows at a time. Any thread; they take turns. The database at `path` must be open in this process.

    `instead`: reads the rows where a database cannot have a second connection, as with a file system of tests.
    """

    def __init__(self, path: Path, instead: Rows | None = None) -> None:
        self._path = path
        self._instead = instead
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._closed = False

    def rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """The rows of a SELECT. Raises Internal, reason STORAGE_FAILED, if they cannot be read."""
        if self._instead is not None:
            return list(self._instead(statement, values))
        with self._lock:
            try:
                if self._closed:
                    raise apsw.ConnectionClosedError("the store is closed")
                if self._connection is None:
                    self._connection = self._open()
                return list(self._connection.execute(statement, values))
            except (apsw.Error, UnicodeDecodeError) as problem:
                why = f"the database {self._path} cannot be read: {problem}"
                raise Internal(why, reason="STORAGE_FAILED") from problem

    def _open(self) -> apsw.Connection:
        connection = apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=VFS)
        connection.wal_autocheckpoint(0)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        for name, value in (("query_only", True), ("trusted_schema", False), ("mmap_size", 0)):
            connection.pragma(name, value)
        return connection

    def close(self) -> None:
        """Close the connection; idempotent. Later reads raise Internal."""
        with self._lock:
            self._closed = True
            if self._connection is not None:
                self._connection.close(True)
                self._connection = None
