"""A check whether SQLite ignored committed frames of a write-ahead log because they are damaged.

    header | frame 0 | frame 1 | frame 2 | frame 3 | older frames, of another salt
             commit              ^ bad     commit

For SQLite the log ends at the first frame with a wrong checksum, because a crash leaves such a frame. If the frame was
whole once, SQLite would silently lose acknowledged transactions. The left column has the signs that it was whole, the
right column says why:

    the checksum of a later commit is continued by      a commit is synced before the next frame is written; frames that
    the frame after that commit                         an older crash left there belong to one transaction at most
    a flipped bit explains the wrong checksum, and      a torn frame can look the same over an older frame (page 1 of a
    the later frames up to the commit are whole         database with 34 pages, then 35), but then the later frames are
                                                        missing
    a note says that so many frames of the log with     without this note, which is written after each commit, damage of
    these salts are on the disk (`SyncedBytes`)         the last transaction would look like a torn write
    such a note exists, and the log does not            the log is removed only after its frames are in the database and
                                                        the note is removed: see `SyncedBytes.move`

The note is not synced: its number of frames is never too large, and after a power cut it may be too small. It is valid
for one life of the log, from one reset to the next, because each life has its own salts. This module repairs nothing.
The checksums are SQLite's (https://sqlite.org/fileformat2.html, section 4.2).
"""

from __future__ import annotations

import os
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import apsw
import numpy as np

from psoup.values.columns import Array
from psoup_storage.durable.directory import Notes

_NAME = "log-end"
_SALTS = 16, 8
"""The offset of the salts in the header of the log, and their number of bytes."""


class SyncedBytes:
    """The note that says how many frames of the write-ahead log `wal` are on the disk. Each commit writes it."""

    def __init__(self, wal: Path) -> None:
        self._wal = wal
        self._notes = Notes(wal.parent)
        self._file = -1
        """The handle of the log, to read its salts; -1 while it is not open."""

    def reached(self, frames: int) -> None:
        """Note that a commit is on the disk and the log has `frames` frames. Some microseconds.

        The salts are read each time, because any commit may have begun the log again after a checkpoint. With 0 frames,
        nothing was written since the log was opened, and the note stays.
        """
        salts = self._salts() if frames else b""
        if salts:
            text = f"{frames} {salts.hex()}"
            self._notes.write(_NAME, f"{text} {zlib.crc32(text.encode()):08x}")

    def _salts(self) -> bytes:
        with suppress(OSError):  # there is no log yet, or it cannot be read: the commit is on the disk all the same
            if self._file < 0:
                self._file = os.open(self._wal, os.O_RDONLY)
            return _salts_of(self._file)
        return b""

    def reset(self) -> None:
        """Close the log file, because another file may take its place."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def move(self, connection: apsw.Connection) -> bool:
        """Copy all of the log to the database, then remove the note. Returns whether the log may be removed now.

            frames to the database, synced │ note removed, synced │ the log emptied or removed, by the caller

        If a crash comes between any two of these steps, no data is missing or seems to be missing. Raises apsw.Error.
        """
        frames, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        if moved < frames:
            return False
        self.reset()
        self._notes.write(_NAME, "", sync=True)
        return not self._notes.read(_NAME)

    def close(self) -> None:
        """Close the files; idempotent."""
        self.reset()
        self._notes.close()


def lost_frame(wal: Path, valid: int) -> int | None:
    """The number of the first frame (from 0) that was on the disk, but that SQLite did not accept.

    `valid`: the number of accepted frames. Returns None if there is no such frame.
    """
    text, _, check = Notes(wal.parent).read(_NAME).rpartition(" ")
    if f"{zlib.crc32(text.encode()):08x}" != check:
        return None
    frames, _, salts = text.partition(" ")
    gone = not wal.exists() or wal.stat().st_size < _HEADER + _FRAME
    return valid if (gone or salts == _salts_in(wal).hex()) and int(frames) > valid else None


def _salts_in(wal: Path) -> bytes:
    with suppress(OSError), open(wal, "rb") as file:
        return _salts_of(file.fileno())
    return b""


def _salts_of(file: int) -> bytes:
    start, size = _SALTS
    return os.pread(file, size, start)


_HEADER = 32
_FRAME = 24
_BIG_ENDIAN = 1
"""The last bit of the magic number: the byte order of the words that checksums add up."""
Sums = tuple[int, int]
"""SQLite's running checksum of the header and all frames so far: two sums of 32 bits."""


def damaged_frame(path: Path, valid: int) -> int | None:
    """The number of the first committed frame (from 0) that SQLite left out; None if it took them all.

    `valid`: the number of frames that SQLite accepted. -1 stands for the header of the file. O(later frames).
    """
    content = path.read_bytes() if path.exists() else b""
    if len(content) < _HEADER + _FRAME:
        return None
    magic, _, page, *_ = struct.unpack_from(">4I", content)
    order = ">u4" if magic & _BIG_ENDIAN else "<u4"
    if _sum(content[:24], order, (0, 0)) != struct.unpack_from(">2I", content, 24):
        return -1
    size = _FRAME + page
    frames = np.frombuffer(content, np.uint8, offset=_HEADER)
    frames = frames[: len(frames) // size * size].reshape(-1, size)
    salts = np.frombuffer(content, ">u4", 2, 16).astype(np.uint32)
    before = struct.unpack_from(">2I", content, _HEADER + (valid - 1) * size + 16 if valid else 24)
    damaged = _Tail(frames[valid:], salts, order).damaged(before)
    return None if damaged is None else valid + damaged


class _Tail:
    """The frames after those that SQLite accepted. `_ours`: frames of this log, even if one bit of the salt differs."""

    def __init__(self, frames: Array, salts: Array, order: str) -> None:
        self._frames = frames
        self._order = order
        self._heads = np.ascontiguousarray(frames[:, :_FRAME]).view(">u4").astype(np.uint32)
        self._away = np.bitwise_count(self._heads[:, 2:4] ^ salts).sum(axis=1)
        self._ours = np.flatnonzero(self._away <= 1)

    def damaged(self, before: Sums) -> int | None:
        """The first frame that was whole once and is damaged now; None if there is none.

        `before`: the checksum of the last frame that SQLite accepted.
        """
        for at in self._ours.tolist():
            sums, stored = self._sum(at, before), self._stored(at)
            if sums != stored or self._away[at]:
                return at if self._was_whole(at, sums) else None
            before = sums
        return None

    def _was_whole(self, at: int, sums: Sums) -> bool:
        stored = self._stored(at)
        commits = self._ours[(self._ours >= at) & (self._heads[self._ours, 1] != 0)]
        if not len(commits):  # never whole, unless the flipped bit marked the commit
            return sums == stored or _one_bit(sums, stored, len(self._frames[at]), commit=True)
        if sums == stored or any(self._goes_on(end + 1, self._stored(end)) for end in commits.tolist()):
            return True
        end = int(commits[0])
        rest = all(self._goes_on(n, self._stored(n - 1), sums if n == at + 1 else None) for n in range(at + 1, end + 1))
        return rest and _one_bit(sums, stored, len(self._frames[at]))

    def _goes_on(self, at: int, *before: Sums | None) -> bool:
        """Whether the frame `at` belongs to this log and continues one of these checksums."""
        return at in self._ours and any(self._sum(at, sums) == self._stored(at) for sums in before if sums is not None)

    def _stored(self, at: int) -> Sums:
        return int(self._heads[at, 4]), int(self._heads[at, 5])

    def _sum(self, at: int, before: Sums) -> Sums:
        frame = self._frames[at].tobytes()
        return _sum(frame[:8] + frame[_FRAME:], self._order, before)


def _sum(content: bytes, order: str, start: Sums) -> Sums:
    first, second = start
    words = iter(np.frombuffer(content, order).tolist())
    for word, following in zip(words, words, strict=True):
        first = (first + word + second) & 0xFFFFFFFF
        second = (second + following + first) & 0xFFFFFFFF
    return first, second


def _one_bit(actual: Sums, stored: Sums, size: int, commit: bool = False) -> bool:
    """Whether one flipped bit of a frame of `size` bytes, or of its checksum, explains the difference of the sums. With
    `commit`, the bit must be in the word that marks a commit. The sum is linear in its words.
    """
    shares = _shares((size - _FRAME + 8) // 8)[-1 if commit else 0 :]
    bits = np.uint32(1) << np.arange(32, dtype=np.uint32)
    by_bit = shares[:, None, :] * bits[None, :, None]
    off = np.array([actual[0] - stored[0], actual[1] - stored[1]], np.int64).astype(np.uint32)
    return any(bool((by_bit == change).all(axis=2).any()) for change in (off, np.negative(off)))


def _shares(pairs: int) -> Array:
    """The weight of each word of a frame in the two sums, from the last word to the first: uint32[2 * pairs + 2, 2].

    The first two rows are the weights of the two sums before the frame.
    """
    shares = [(1, 0), (0, 1)]
    first, second = (1, 1), (0, 1)
    for _ in range(pairs):
        shares += [first, second]
        first, second = _step(first), _step(second)
    return np.array(shares, np.uint32)


def _step(share: tuple[int, int]) -> tuple[int, int]:
    first = (share[0] + share[1]) & 0xFFFFFFFF
    return first, (share[1] + first) & 0xFFFFFFFF
