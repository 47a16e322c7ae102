"""Deadlines of calls: all share one timer, as nearly every call ends long before its own.

    within(30 s) ──> { call, call … } <── looked at every `TICK_S`, as long as there are any: who is late is cancelled

A timer for each call took a fifteenth of the loop's time when calls were small. A deadline may be noticed a tick late.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

TICK_S = 0.05


class Deadline:
    """As `asyncio.timeout`: a context in which the task is cancelled when `end` has passed, and TimeoutError raised."""

    __slots__ = ("_cancelling", "_others", "_task", "end", "expired")

    def __init__(self, end: float, others: set[Deadline]) -> None:
        self.end = end
        self._others = others
        self.expired = False
        """Whether it was this one that has passed."""
        task = asyncio.current_task()
        assert task is not None, "a call is a task"
        self._task = task
        self._cancelling = task.cancelling()

    def __enter__(self) -> None:
        self._others.add(self)

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self._others.discard(self)
        if self.expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise TimeoutError from problem

    def expire(self) -> None:
        """Cancel the task."""
        self.expired = True
        self._others.discard(self)
        self._task.cancel()


class Deadlines:
    """All deadlines of one event loop."""

    def __init__(self) -> None:
        self._open: set[Deadline] = set()
        self._ticking = False

    def within(self, seconds: float) -> Deadline:
        """A context that may last `seconds`. O(1)."""
        loop = asyncio.get_running_loop()
        if not self._ticking:
            self._ticking = True
            loop.call_later(TICK_S, self._tick, loop)
        return Deadline(loop.time() + seconds, self._open)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for late in [one for one in self._open if one.end <= now]:
            late.expire()
        self._ticking = bool(self._open)
        if self._ticking:
            loop.call_later(TICK_S, self._tick, loop)
