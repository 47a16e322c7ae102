"""Kernels that are compiled while clients wait: told in the log and counted, as none should be.

A service has its kernels compiled before it takes calls (`psoup.compiled`). A call that leads to one that is
not listed there waits for it, for a second or more, and slows others; the next start finds it kept.
"""

from __future__ import annotations

import logging
import time
from functools import cache

from numba.core import event

from psoup.compiled import line_of

_log = logging.getLogger(__name__)


class _Late(event.Listener):
    """Counts them. Numba holds a lock while it compiles: what is told between a start and its end is a part of it."""

    def __init__(self) -> None:
        self.count = 0
        self._starts: list[float] = []

    def on_start(self, event: event.Event) -> None:
        self._starts.append(time.monotonic())

    def on_end(self, event: event.Event) -> None:
        start = self._starts.pop()
        line = line_of(event.data["dispatcher"], event.data["args"])
        if line is None or self._starts:  # a part of another one
            return
        self.count += 1
        took = round(time.monotonic() - start, 3)
        _log.warning("a kernel was compiled while clients waited", extra={"kernel": line, "seconds": took})


@cache
def watched() -> _Late:
    """The counter of this process; what is compiled from the first call on is late."""
    late = _Late()
    event.register("numba:compile", late)
    return late
