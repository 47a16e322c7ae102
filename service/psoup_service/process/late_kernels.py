"""Kernels that are compiled while clients wait. Each is logged and counted, because there should be none.

A service has its kernels compiled before it takes calls (`psoup.kernel_signatures`). A call that needs any other
kernel waits for it, for a second or more, and delays other calls. The next start finds it in the folder.
"""

from __future__ import annotations

import logging
import time
from functools import cache

from numba.core import event

from psoup.kernel_signatures import line_of

_log = logging.getLogger(__name__)


class _Late(event.Listener):
    """Counter of late kernels. `expected`: whether kernels are compiled now for which no client waits.

    Numba holds a lock while it compiles. So all events between a start and its end belong to one kernel.
    """

    def __init__(self) -> None:
        self.count = 0
        self.expected = False
        self._starts: list[float] = []

    def on_start(self, event: event.Event) -> None:
        self._starts.append(time.monotonic())

    def on_end(self, event: event.Event) -> None:
        start = self._starts.pop()
        line = line_of(event.data["dispatcher"], event.data["args"])
        if line is None or self.expected or self._starts:  # part of the compilation of another kernel
            return
        self.count += 1
        took = round(time.monotonic() - start, 3)
        _log.warning("a kernel was compiled while clients waited", extra={"kernel": line, "seconds": took})


@cache
def watched() -> _Late:
    """The counter of this process. A kernel that is compiled after the first call counts as late."""
    late = _Late()
    event.register("numba:compile", late)
    return late
