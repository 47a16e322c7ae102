"""A job directory as the service sees it: another program's files, each checked before it is read.

    incoming/            opened first; may be a link, as the operator makes it one
      history-7f3a/      opened in it, by a plain name, never through a link that another user may have made
        00000.parquet    a file, not a link or a pipe, not larger than it may be; then its bytes

A file in the data directory must not change after it was checked. If only the service's own user can write to it, a
second name (hard link) is enough; other files are copied. The readers of the files check their content.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from psoup.errors import InvalidInput
from psoup_storage.formats.files import NO_LINKS

MOST_FILE_BYTES = 1024**3
"""The most bytes of a job's file."""
MOST_MANIFEST_BYTES = 64 * 1024**2
"""The most bytes of a manifest: enough for a hundred thousand chunks."""
_PLAIN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,254}")
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PIECE = 1024 * 1024


def is_plain(name: str) -> bool:
    """Whether `name` is a valid name of a job directory or a file in it: letters, digits, . _ -; the first is not a
    dot.
    """
    return _PLAIN.fullmatch(name) is not None


def check_name(name: str, folder: str) -> None:
    """Raise InvalidInput if `name` is not plain. `folder`: the call that returns the folder of job directories."""
    if not is_plain(name):
        raise InvalidInput(
            f"{name[:256]!r} is not the name of a directory in the folder that {folder} names; use letters, digits,"
            " '.', '_'"
            " and '-', and no '.' at the beginning",
            field="directory",
        )


def bad_history(directory: Path, why: str) -> InvalidInput:
    """The error for a job directory that cannot be taken in."""
    return InvalidInput(f"{directory.name} cannot be attached: {why}; run the job again", reason="BAD_HISTORY")


class JobFolder:
    """An open job directory; a context manager.

    Raises InvalidInput, reason BAD_HISTORY, for a link or an unusable file, and FileNotFoundError for a missing name.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        if not is_plain(path.name):
            raise bad_history(path, f"{path.name[:256]!r} is not the name of a job's directory")
        parent = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            facts = os.stat(path.name, dir_fd=parent, follow_symlinks=False)
            follow = stat.S_ISLNK(facts.st_mode)
            if follow and not (_only_ours(facts, link=True) and _only_ours(os.fstat(parent))):
                raise bad_history(path, "it is a link, which another user may have made")
            self._handle = os.open(path.name, _OPEN | os.O_DIRECTORY | (0 if follow else os.O_NOFOLLOW), dir_fd=parent)
        except NotADirectoryError as problem:
            raise bad_history(path, "it is not a directory") from problem
        finally:
            os.close(parent)
        self._ours = _only_ours(os.fstat(self._handle))

    def __enter__(self) -> JobFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def has(self, name: str) -> bool:
        """Whether the directory has an entry of that name. O(1)."""
        try:
            os.stat(name, dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def read(self, name: str, limit: int = MOST_MANIFEST_BYTES) -> bytes:
        """The content of a file, which must not have more than `limit` bytes."""
        handle, facts = self._open(name, limit)
        with open(handle, "rb") as file:
            return file.read(facts.st_size)

    def take(self, name: str, target: Path, size: int | None = None) -> int:
        """Take a file over as `target` and sync its content, but not its name. Returns its number of bytes.

        `size`: the bytes that it must have. If only the service's user can write to the file, `target` is a second name
        of it, else a copy. Also raises OSError: without room, or without the right to read.
        """
        handle, facts = self._open(name, MOST_FILE_BYTES)
        try:
            if size is not None and facts.st_size != size:
                raise bad_history(
                    self.path, f"{name}: it has changed since it was written: {facts.st_size:,} bytes, not {size:,}"
                )
            if not (self._ours and _only_ours(facts) and self._link(name, facts, target)):
                _copy(handle, target, facts.st_size)
        finally:
            os.close(handle)
        _sync(target)
        return facts.st_size

    def _open(self, name: str, limit: int) -> tuple[int, os.stat_result]:
        """The handle and facts of a file. The file is checked before it is opened: to open a pipe has effects."""
        if not is_plain(name):
            raise bad_history(self.path, f"{name[:256]!r} is not the name of a file in that directory")
        try:
            self._look(name, limit, os.stat(name, dir_fd=self._handle, follow_symlinks=False))
            handle = os.open(name, _OPEN | os.O_NOFOLLOW, dir_fd=self._handle)
        except OSError as problem:
            if problem.errno == errno.ELOOP:
                raise bad_history(self.path, f"{name}: it is a link") from problem
            raise
        try:
            facts = os.fstat(handle)
            self._look(name, limit, facts)
        except BaseException:
            os.close(handle)
            raise
        return handle, facts

    def _look(self, name: str, limit: int, facts: os.stat_result) -> None:
        if not stat.S_ISREG(facts.st_mode):
            problem = "a link" if stat.S_ISLNK(facts.st_mode) else "no file"
            raise bad_history(self.path, f"{name}: it is {problem}")
        if facts.st_size > limit:
            raise bad_history(self.path, f"{name}: it has {facts.st_size:,} bytes; the limit is {limit:,}")

    def _link(self, name: str, facts: os.stat_result, target: Path) -> bool:
        """Give the open file a second name. False if the file system has no links, or the old name has been given to
        another file.
        """
        try:
            os.link(name, target, src_dir_fd=self._handle, follow_symlinks=False)
        except OSError as problem:
            if problem.errno not in NO_LINKS:
                raise
            return False
        linked = os.lstat(target)
        if (linked.st_dev, linked.st_ino) == (facts.st_dev, facts.st_ino):
            return True
        target.unlink()
        return False


def _only_ours(facts: os.stat_result, *, link: bool = False) -> bool:
    """Whether only the user of this process can write to a file. Of a link the mode is ignored, as it means nothing."""
    return facts.st_uid == os.geteuid() and (link or not facts.st_mode & _OTHERS_WRITE)


def _copy(source: int, target: Path, size: int) -> None:
    """Copy the first `size` bytes. Bytes that a program appends meanwhile are left out."""
    new = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        at = 0
        while at < size and (piece := os.pread(source, min(_PIECE, size - at), at)):
            at += len(piece)
            view = memoryview(piece)
            while view:
                view = view[os.write(new, view) :]
    except BaseException:
        with suppress(OSError):
            target.unlink()
        raise
    finally:
        os.close(new)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
