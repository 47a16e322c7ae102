"""How far the write-ahead log is on the disk: damage of its last transaction looks like a torn write, but for a note.

    frame 0 … frame 7 | frame 8, frame 9          note: 10 frames of the log with these salts
                        ^ bad                     so frame 8 was whole, and was acknowledged

The note is written behind each commit and is not synced: it never says more than the disk has, and after a power cut it
may say less. It speaks of one life of the log only, from one reset to the next: each has salts of its own.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from pathlib import Path

from psoup_storage.durable.notes import Notes

_NAME = "log-end"
_SALTS = 16, 8
"""Where they are in the header of the log, and their bytes."""


class Synced:
    """Of the write-ahead log `wal`, for who commits."""

    def __init__(self, wal: Path) -> None:
        self._wal = wal
        self._notes = Notes(wal.parent)
        self._salts = b""

    def reached(self, frames: int) -> None:
        """A commit is on the disk, and the log has so many frames. Some microseconds."""
        self._salts = self._salts or _salts(self._wal)
        if self._salts:
            text = f"{frames} {self._salts.hex()}"
            self._notes.write(_NAME, f"{text} {zlib.crc32(text.encode()):08x}")

    def reset(self) -> None:
        """The log may begin anew with the next commit."""
        self._salts = b""

    def close(self, *, whole: bool) -> None:
        """Leave the note, or remove it: the log has moved to the database as a whole. Idempotent."""
        if whole:
            self._notes.write(_NAME, "")
        self._notes.close()


def lost_frame(wal: Path, valid: int) -> int | None:
    """The number of the first frame (from 0) that was on the disk and is not among the `valid` ones, if any."""
    text, _, check = Notes(wal.parent).read(_NAME).rpartition(" ")
    if f"{zlib.crc32(text.encode()):08x}" != check:
        return None
    frames, _, salts = text.partition(" ")
    return valid if salts == _salts(wal).hex() and int(frames) > valid else None


def _salts(wal: Path) -> bytes:
    start, size = _SALTS
    with suppress(OSError), open(wal, "rb") as file:
        return os.pread(file.fileno(), size, start)
    return b""
