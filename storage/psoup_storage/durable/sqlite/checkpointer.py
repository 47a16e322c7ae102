"""The checkpoint during transactions: a second connection, on its own thread, copies frames of the log to the database.

    committer   commit │ commit │ commit │ commit │ commit │ commit │ short checkpoint │ commit …
    mover              └─ frames 1 to 1,000 to the database ─┴─ sync ─┘                  the log starts again here

SQLite lets one connection append to the write-ahead log while another one copies older frames to the database. The log
starts again at its first byte only after a checkpoint between two commits has copied all frames. Only then SQLite waits
until the database is on the disk. So the mover syncs the database after each piece. Without these syncs, commits waited
for 50 MiB at once: 12 to 35 ms on a disk of 2 GB/s. Now they wait for 1 to 3 ms. Both connections belong to one
process, and their index of the log is in its memory (SQLite's file system `unix-excl`): no file is shared.
"""

from __future__ import annotations

import os
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import apsw

VFS = "unix-excl"
"""SQLite's file system for a database whose connections all belong to one process."""


class Mover:
    """Copies frames to the database at `path`, one piece at a time. One thread at a time calls `begin` and `moved`."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, vfs=VFS)
        self._connection.wal_autocheckpoint(0)
        self._connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        self._connection.pragma("synchronous", "FULL")
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        """Open for as long as SQLite has the database: to close it would give up SQLite's locks of the file, too."""
        self._pool = ThreadPoolExecutor(1, "psoup-checkpoint")
        self._move: Future[tuple[int, int]] | None = None

    @property
    def under_way(self) -> bool:
        """Whether a piece is being moved. Any thread."""
        move = self._move
        return move is not None and not move.done()

    @property
    def done(self) -> bool:
        """Whether a piece is moved, and `moved` was not called yet. Any thread."""
        move = self._move
        return move is not None and move.done()

    def begin(self) -> None:
        """Begin to move all present frames of the log. No piece may be under way."""
        self._move = self._pool.submit(self._move_frames)

    def moved(self) -> int:
        """Wait for the piece that `begin` began; returns the number of frames, from the first on, that are moved.

        Raises apsw.FullError without room for it, and other errors of apsw if the disk fails.
        """
        move, self._move = self._move, None
        assert move is not None, "nothing was begun"
        _, frames = move.result()
        return frames

    def _move_frames(self) -> tuple[int, int]:
        moved = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        try:
            sync_content(self._file)
        except OSError as problem:
            raise apsw.IOError(f"the database cannot be synced: {problem}") from problem
        return moved

    def close(self) -> None:
        """Wait for the running piece, and close the connection without another write; idempotent."""
        self._pool.shutdown()
        self._connection.close(True)

    def let_go(self) -> None:
        """Close the file, once no connection to the database is open; idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def sync_content(file: int) -> None:
    """Wait until the disk has what was written to an open file."""
    if sys.platform == "linux":
        os.fdatasync(file)
    else:
        os.fsync(file)
