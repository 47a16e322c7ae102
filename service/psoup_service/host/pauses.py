"""Pauses of the log: another thread's transaction takes the turn of a large push, and holds nobody else up.

    committer   large │ small │ pause │ small │ large │ small │ …      between any two of them small pushes have gone
    maintenance ─ asks ───────┤ forget├──

Whoever asks waits until the committer has come to it, works, and the committer waits for that. Where nothing is
written, or cannot be, nobody waits for anybody: the database has a lock of its own.
"""

from __future__ import annotations

import threading
from types import TracebackType


class Pause:
    """One of them: a context for who has asked; `give` or `waive` is called by who writes."""

    def __init__(self) -> None:
        self._begun, self._over = threading.Event(), threading.Event()

    def __enter__(self) -> None:
        self._begun.wait()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._over.set()

    def give(self) -> None:
        """Let the other one work, and wait until it has."""
        self._begun.set()
        self._over.wait()

    def waive(self) -> None:
        """Let the other one work, whatever goes on beside; harmless later."""
        self._begun.set()
