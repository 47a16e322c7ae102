"""Helpers for durable files: second names (hard links), syncs of directories, and the error for a full disk."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from psoup.errors import ResourceExhausted

NO_LINKS = {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EXDEV}
"""Errors of a file system that has no second names for files (hard links), or not for this file."""

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
"""Errors of a write that found no room."""


def disk_full(path: Path, why: str, **facts: int) -> ResourceExhausted:
    """The error for a full disk: nothing was stored, and work goes on when there is room.

    It goes to clients, so it has a file's name, not its path on the service's machine.
    """
    return ResourceExhausted(
        f"the disk of {path.name} is full: {why}; free some space, and the service takes commands again",
        reason="DISK_FULL",
        retry_after_ms=1_000,
        **facts,
    )


def second_name(source: Path, target: Path) -> None:
    """Give a file that never changes a second name (hard link). Without hard links in the file system, copy it."""
    try:
        os.link(source, target)
    except OSError as problem:
        if problem.errno not in NO_LINKS:
            raise
        shutil.copyfile(source, target)


def sync_file(path: Path) -> None:
    """Make the content of a file durable."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable: new files, renames, removals."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
