"""Files that must survive: second names, names made durable, and a disk without room."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path

from psoup.errors import ResourceExhausted

NO_LINKS = {errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS, errno.EXDEV}
"""What a second name for a file says where there are none."""

NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
"""What a write says that found no room."""


def disk_full(path: Path, why: str, **facts: int) -> ResourceExhausted:
    """The error for a disk without room: nothing was kept, and all goes on once there is some.

    It goes to clients, who learn a name and not where things are on the service's machine.
    """
    return ResourceExhausted(
        f"the disk of {path.name} is full: {why}; free some space, and the service takes commands again",
        reason="DISK_FULL",
        retry_after_ms=1_000,
        **facts,
    )


def second_name(source: Path, target: Path) -> None:
    """The same file under a second name, for one that never changes; a copy where there are no second names."""
    try:
        os.link(source, target)
    except OSError as problem:
        if problem.errno not in NO_LINKS:
            raise
        shutil.copyfile(source, target)


def sync_directory(path: Path) -> None:
    """Make the names in `path` durable: new files, renames, removals."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
