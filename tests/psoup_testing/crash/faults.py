"""Disks that fail: SQLite file systems (APSW VFS) under a durable store, for tests.

    with failing(at=7, fault=EIO) as disk:           the 7th write or sync fails, and every one after it
        DurableStore(path, vfs=disk.name)

    with power(path) as disk:                        notes at every sync what a power cut could leave behind
        ... disk.images ...                          (files as they are if power goes at that sync)

What is written and not synced may be lost or kept, each write for itself: an image has a random part of it. Nothing
waits for the real disk: a sync is only noted.
"""

from __future__ import annotations

import errno
import itertools
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

_numbers = itertools.count()

Write = tuple[int, bytes | None]
"""Place and content of a write; None if the file was truncated there."""


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        super().__init__("", name, flags)
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        disk.opened(self._path)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.writing(self._path, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._disk.writing(self._path, size, None)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._disk.syncing(self._path)


class Disk(apsw.VFS):
    """A file system that passes everything on, and lets a subclass see it."""

    def __init__(self) -> None:
        self.name = f"disk-{next(_numbers)}"
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        return _File(self, name, flags)

    def xDelete(self, name: str, sync: bool) -> None:
        super().xDelete(name, sync)
        self.deleted(name)

    def opened(self, path: str) -> None:
        """Note that a file was opened."""

    def deleted(self, path: str) -> None:
        """Note that a file was deleted."""

    def writing(self, path: str, offset: int, data: bytes | None) -> None:
        """Look at a write or, without data, at a truncation, before it is done."""

    def syncing(self, path: str) -> None:
        """Look at a sync before it is done."""


@dataclass(frozen=True)
class Fault:
    """A fault of a disk: the error of SQLite's file system, and the error of `os`."""

    sqlite: Callable[[str], BaseException]
    errno: int


EIO = Fault(apsw.IOError, errno.EIO)
ENOSPC = Fault(apsw.FullError, errno.ENOSPC)


class FailingDisk(Disk):
    """Fails at the `at`-th write or sync (from 0), and at all that follow unless it is `once`.

    `count`: how many there were. `failed`: what the first was that failed; empty if none did.
    """

    def __init__(self, at: int, fault: Fault, once: bool = False) -> None:
        super().__init__()
        self.at, self.fault, self.once = at, fault, once
        self.count = 0
        self.failed = ""

    def writing(self, path: str, offset: int, data: bytes | None) -> None:
        if self._fails("write"):
            raise self.fault.sqlite(f"injected at write {self.count - 1}")

    def syncing(self, path: str) -> None:
        # SQLite's own files say so of every sync that fails; only a write may find the disk full
        if self._fails("sync"):
            raise apsw.IOError(f"injected at sync {self.count - 1}")

    def beside(self, operation: str) -> None:
        """Look at a step of a file beside the database, before it is done."""
        if self._fails(operation):
            raise OSError(self.fault.errno, f"injected at {operation} {self.count - 1}")

    def _fails(self, operation: str) -> bool:
        self.count += 1
        fails = self.count - 1 == self.at or (self.count - 1 > self.at >= 0 and not self.once)
        if fails and not self.failed:
            self.failed = operation
        return fails


@dataclass
class _Image:
    """The safe content of one file, and the writes since, in order."""

    safe: bytearray = field(default_factory=bytearray)
    pending: list[Write] = field(default_factory=list)


def _put(content: bytearray, offset: int, data: bytes | None) -> None:
    if data is None:
        del content[offset:]
        return
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class PowerDisk(Disk):
    """At every sync: the files as a power cut at that moment may leave them, and what `note` said then."""

    def __init__(self, seed: int, note: Callable[[], Any]) -> None:
        super().__init__()
        self._chance = random.Random(seed)
        self._note = note
        self._files: dict[str, _Image] = {}
        self.images: list[tuple[dict[str, bytes], Any]] = []

    def opened(self, path: str) -> None:
        content = Path(path).read_bytes() if os.path.exists(path) else b""
        self._files.setdefault(path, _Image(bytearray(content)))

    def deleted(self, path: str) -> None:
        self._files.pop(path, None)

    def writing(self, path: str, offset: int, data: bytes | None) -> None:
        self._files[path].pending.append((offset, data))

    def syncing(self, path: str) -> None:
        self.cut()
        image = self._files[path]
        for offset, data in image.pending:
            _put(image.safe, offset, data)
        image.pending.clear()

    def cut(self) -> None:
        """Note the files that a power cut now could leave."""
        self.images.append(({path: self._survives(image) for path, image in self._files.items()}, self._note()))

    def _survives(self, image: _Image) -> bytes:
        content, share = bytearray(image.safe), self._chance.random()
        for offset, data in image.pending:
            if self._chance.random() < share:
                if data is not None and self._chance.random() < 0.3:  # torn: only its first sectors
                    data = data[: 512 * self._chance.randrange(1 + len(data) // 512)]
                _put(content, offset, data)
        return bytes(content)


@contextmanager
def failing(at: int, fault: Fault, once: bool = False) -> Iterator[FailingDisk]:
    """A `FailingDisk`, known to SQLite inside the block."""
    disk = FailingDisk(at, fault, once)
    try:
        yield disk
    finally:
        disk.unregister()


@contextmanager
def power(seed: int, note: Callable[[], Any]) -> Iterator[PowerDisk]:
    """A `PowerDisk`, known to SQLite inside the block."""
    disk = PowerDisk(seed, note)
    try:
        yield disk
    finally:
        disk.unregister()


def restore(files: dict[str, bytes], folder: Path) -> Path:
    """A data directory with these files, under their own names."""
    folder.mkdir(parents=True)
    for path, content in files.items():
        (folder / Path(path).name).write_bytes(content)
    return folder
