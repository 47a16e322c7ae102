"""Patience with a service that is away: pauses that double, and an end.

`CallAttempts` is for one call, within its deadline: a unary call, or a streaming one until it begins. `Patience` is for
a producer or a watch, which end after a time without progress.
"""

from __future__ import annotations

import threading
import time

from psoup_client.channel.options import RetryOptions
from psoup_client.errors import DeadlineExceeded, PSoupError, Unavailable


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


_TOKENS = 10
"""Most tokens. A failure takes one; with half of them or less no call is repeated, as in gRPC."""

_EARNED = 0.5
"""Part of a token that a success earns."""


class Throttle:
    """The tokens of all calls of a connection: a service that fails most of them is not asked again by each."""

    def __init__(self) -> None:
        self._tokens = float(_TOKENS)
        self._lock = threading.Lock()

    def failed(self) -> bool:
        """Take a token; returns whether calls may be repeated now."""
        with self._lock:
            self._tokens = max(0.0, self._tokens - 1)
            return self._tokens > _TOKENS / 2

    def succeeded(self) -> None:
        """Earn a part of a token."""
        if self._tokens < _TOKENS:
            with self._lock:
                self._tokens = min(float(_TOKENS), self._tokens + _EARNED)


class CallAttempts:
    """The attempts at one call, with `seconds` for all of them. `lost`: the message of the last failure."""

    def __init__(self, seconds: float, retry: RetryOptions, throttle: Throttle) -> None:
        self._deadline = time.monotonic() + seconds
        self._retry = retry
        self._throttle = throttle
        self._pauses = retry.pauses()
        self._made = 0
        self._failed: float | None = None
        self.lost = ""

    def left(self) -> float:
        """Return the seconds that the next attempt has, above 0."""
        return max(0.001, self._deadline - time.monotonic())

    def wait(self, error: Unavailable, reached: bool) -> None:
        """Wait before the next attempt; raises `error` if no attempt is left.

        `reached`: whether the service has answered this client before, so that it may be restarting.
        """
        now = time.monotonic()
        self._failed = now if self._failed is None else self._failed
        self._made += 1
        may = self._throttle.failed()
        pause = max(next(self._pauses) if may else self._retry.longest_pause_seconds, error.retry_after or 0.0)
        restarting = reached and self._retry.attempts > 1 and now + pause < self._failed + self._retry.restart_seconds
        if not ((may and self._made < self._retry.attempts) or restarting) or now + pause >= self._deadline:
            raise error
        self.lost = error.message
        time.sleep(pause)
