"""Retries while a service is away: pauses that double, and the time after which the client gives up.

`CallAttempts` is for one call, within its deadline: a unary call, or a streaming one until it begins. `Patience` is for
a producer or a watch, which end after a time without progress.
"""

from __future__ import annotations

import threading
import time

from psoup_client.channel.options import RetryOptions
from psoup_client.errors import DeadlineExceeded, PSoupError, Unavailable


class Patience:
    """The pauses between attempts, from `retry`. They end `seconds` after the first failure.

    A wait that the service asks for may be longer; with `strict` it ends with the `seconds`.
    """

    def __init__(self, seconds: float, retry: RetryOptions = RetryOptions(), *, strict: bool = False) -> None:
        self._seconds = seconds
        self._retry = retry
        self._strict = strict
        self.reset()

    def reset(self) -> None:
        """Begin again with the first pause and the whole time, because there was progress."""
        self._first_failure: float | None = None
        self._pauses = self._retry.pauses()

    def next(self, problem: PSoupError) -> float:
        """Return the seconds until the next attempt. Raises `problem` when the time is used up."""
        now = time.monotonic()
        if self._first_failure is None:
            self._first_failure = now
        if now - self._first_failure >= self._seconds:
            raise problem
        pause = max(next(self._pauses), problem.retry_after or 0.0)
        return min(pause, self._first_failure + self._seconds - now) if self._strict else pause


def passes(problem: PSoupError) -> bool:
    """Whether the same call may succeed later, because the service is away or says when to try again."""
    return isinstance(problem, Unavailable | DeadlineExceeded) or problem.retry_after is not None


_TOKENS = 10
"""The greatest number of retry tokens. A failed call takes one.

No call is repeated while half of them or fewer are left, as in gRPC.
"""

_EARNED = 0.5
"""The part of a token that a successful call adds."""


class Throttle:
    """The retry tokens that all calls of a connection share. So clients do not repeat calls to a service that fails
    most.
    """

    def __init__(self) -> None:
        self._tokens = float(_TOKENS)
        self._lock = threading.Lock()

    def failed(self) -> bool:
        """Take a token. Returns whether calls may be repeated now."""
        with self._lock:
            self._tokens = max(0.0, self._tokens - 1)
            return self._tokens > _TOKENS / 2

    def succeeded(self) -> None:
        """Add a part of a token."""
        if self._tokens < _TOKENS:
            with self._lock:
                self._tokens = min(float(_TOKENS), self._tokens + _EARNED)


class CallAttempts:
    """The attempts at one call, within `seconds` for all of them. `lost`: the message of the last failure."""

    def __init__(self, seconds: float, retry: RetryOptions, throttle: Throttle) -> None:
        self._deadline = time.monotonic() + seconds
        self._retry = retry
        self._throttle = throttle
        self._pauses = retry.pauses()
        self._made = 0
        self._failed: float | None = None
        self.lost = ""

    def left(self) -> float:
        """Return the remaining seconds for the next attempt, above 0."""
        return max(0.001, self._deadline - time.monotonic())

    def next(self, error: Unavailable, reached: bool) -> float:
        """Return the seconds until the next attempt. Raises `error` if no attempt is left.

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
        return pause
