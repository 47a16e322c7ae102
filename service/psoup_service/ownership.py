"""Whether a file that is read because it lies there, and was not named, may have been written by somebody else."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def writable_by_others(path: Path) -> str | None:
    """Why `path` is not to be trusted, in words: it is another user's (not root's), or everybody may write it."""
    found = path.stat()
    if hasattr(os, "geteuid") and found.st_uid not in (0, os.geteuid()):
        return f"it belongs to another user (number {found.st_uid})"
    if found.st_mode & stat.S_IWOTH:
        return "everybody may write it"
    return None
