"""A check that another user cannot have written a file that is read although the operator did not name it."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def writable_by_others(path: Path) -> str | None:
    """The reason not to trust `path`, in words: it is another user's (not root's), or everybody may write it."""
    facts = path.stat()
    if hasattr(os, "geteuid") and facts.st_uid not in (0, os.geteuid()):
        return f"it belongs to another user (number {facts.st_uid})"
    if facts.st_mode & stat.S_IWOTH:
        return "everybody may write it"
    return None
