"""The clock of a host: a protocol, so that a test can use a virtual clock.

The engine never reads a clock. Its caller passes `now` as an argument.
"""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """A source of wall-clock time in microseconds since 1970 UTC."""

    def now(self) -> int:
        """The time, in microseconds since 1970-01-01 00:00 UTC."""
        ...


class VirtualClock:
    """A clock that stands still until a test moves it, forwards or backwards.

    >>> clock = VirtualClock(1_000_000)
    >>> clock.advance(seconds=2)
    >>> clock.now()
    3000000
    """

    def __init__(self, now: int = 0) -> None:
        self._now = now

    def now(self) -> int:
        """The time that the test set last, in microseconds."""
        return self._now

    def set(self, now: int) -> None:
        """Jump to `now` (microseconds), forwards or backwards."""
        self._now = now

    def advance(self, *, seconds: float) -> None:
        """Move by `seconds`, which may be negative."""
        self._now += round(seconds * 1_000_000)
