"""Small texts beside the data that outlive the process, and need not outlive the machine.

    psoup-data/note-evaluating    {"stream": 3, …}      what a start was about to evaluate when it ended

Written in place and not synced: the file system has them when the process is killed, at some microseconds each. After a
power cut one may be gone, or an older one. What is there is one line, whole; anything else counts as nothing.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from pathlib import Path

PREFIX = "note-"
_log = logging.getLogger(__name__)


class Notes:
    """Of one data directory. One thread at a time for each name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, int] = {}
        self._refused = False

    def read(self, name: str) -> str:
        """The note of that name; empty if there is none."""
        try:
            content = (self._path / f"{PREFIX}{name}").read_bytes()
        except OSError:
            return ""
        line, end, _ = content.partition(b"\n")
        return line.decode("utf-8", "replace") if end else ""

    def write(self, name: str, text: str) -> None:
        """Put `text`, one line, in the place of the note; empty for none. A disk that takes no note stops nothing."""
        try:
            file = self._files.get(name)
            if file is None:
                if not text and not (self._path / f"{PREFIX}{name}").exists():
                    return
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
                file = self._files[name] = os.open(self._path / f"{PREFIX}{name}", flags, 0o600)
            if text:
                os.pwrite(file, f"{text}\n".encode(), 0)
            else:
                os.ftruncate(file, 0)
        except OSError as problem:
            if not self._refused:
                _log.warning("a note beside the data cannot be written", extra={"why": problem.strerror})
            self._refused = True

    def close(self) -> None:
        """Close the files, and remove those that hold nothing; idempotent."""
        while self._files:
            name, file = self._files.popitem()
            os.close(file)
            if not self.read(name):
                with suppress(OSError):
                    (self._path / f"{PREFIX}{name}").unlink()
