"""Patience with a service that is away: pauses that double, and an end."""

from __future__ import annotations

import time

from psoup_client.errors import DeadlineExceeded, PSoupError, Unavailable
from psoup_client.options import RetryOptions


class Patience:
    """The pauses between attempts, those of `retry`, for `seconds` since the first failure."""

    def __init__(self, seconds: float, retry: RetryOptions = RetryOptions()) -> None:
        self._seconds = seconds
        self._retry = retry
        self.reset()

    def reset(self) -> None:
        """Begin again with the first pause and the whole time: there was progress."""
        self._first_failure: float | None = None
        self._pauses = self._retry.pauses()

    def next(self, problem: PSoupError) -> float:
        """Return the seconds until the next attempt; raises `problem` when the time is used up."""
        now = time.monotonic()
        if self._first_failure is None:
            self._first_failure = now
        if now - self._first_failure >= self._seconds:
            raise problem
        return max(next(self._pauses), problem.retry_after or 0.0)


def passes(problem: PSoupError) -> bool:
    """Whether the same call may succeed later: no service answers now, or it says when to come again."""
    return isinstance(problem, Unavailable | DeadlineExceeded) or problem.retry_after is not None
