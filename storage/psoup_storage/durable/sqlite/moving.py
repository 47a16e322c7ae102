"""The checkpoint beside transactions: a second connection, on a thread of its own, moves what the log has.

    committer   commit │ commit │ commit │ commit │ commit │ short checkpoint │ commit …
    mover              └─ frames 1 to 1,000 to the database ─┘                  the log begins anew here

SQLite lets one connection append to the write-ahead log while another copies older frames of it to the database. Only
when all of it is copied between two commits does the log begin anew. Both connections are of one process, and
their index of the log is in its memory (SQLite's file system `unix-excl`): no file is shared.
"""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import apsw

VFS = "unix-excl"
"""SQLite's file system of a database whose connections are all of one process."""


class Mover:
    """Moves frames to the database at `path`, one piece at a time. `begin` and `moved` are of one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=VFS)
        self._connection.wal_autocheckpoint(0)
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.pragma("synchronous", "FULL")
        self._pool = ThreadPoolExecutor(1, "psoup-checkpoint")
        self._move: Future[tuple[int, int]] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a piece is being moved. Any thread."""
        move = self._move
        return move is not None and not move.done()

    @property
    def done(self) -> bool:
        """Whether a piece is moved, and `moved` has not said so yet. Any thread."""
        move = self._move
        return move is not None and move.done()

    def begin(self) -> None:
        """Begin to move all frames that there are now; nothing may be under way."""
        self._move = self._pool.submit(self._connection.wal_checkpoint, mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def moved(self) -> int:
        """Wait for the piece that `begin` began; returns the number of frames, from the first on, that are moved.

        Raises apsw.FullError without room for it, and other errors of apsw if the disk fails.
        """
        move, self._move = self._move, None
        assert move is not None, "nothing was begun"
        _, frames = move.result()
        return frames

    def close(self) -> None:
        """Wait for what is under way, and close the connection, without another write; idempotent."""
        self._pool.shutdown()
        self._connection.close(True)
