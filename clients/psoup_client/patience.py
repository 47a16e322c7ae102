"""How long to go on trying: pauses that double, and an end."""

from __future__ import annotations

import time

from psoup_client.errors import DeadlineExceeded, PSoupError, Unavailable

_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 2.0


class Patience:
    """The pauses between attempts: doubling from 0.1 s to 2 s, for `seconds` since the first failure."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.reset()

    def reset(self) -> None:
        """There was progress."""
        self._first: float | None = None
        self._pause = _FIRST_PAUSE

    def next(self, problem: PSoupError) -> float:
        """Seconds until the next attempt; raises `problem` when the time is used up."""
        now = time.monotonic()
        if self._first is None:
            self._first = now
        if now - self._first >= self._seconds:
            raise problem
        pause = max(self._pause, problem.retry_after or 0.0)
        self._pause = min(_LONGEST_PAUSE, self._pause * 2)
        return pause


def passes(problem: PSoupError) -> bool:
    """Whether the same call may succeed later: nobody answers now, or the service says when to come again."""
    return isinstance(problem, Unavailable | DeadlineExceeded) or problem.retry_after is not None
