"""The calls under way: how many there are, how many there may be, and when there are none.

calls      as long as their work                 `concurrent_calls` at once
watchers   as long as their clients wish         `watchers` at once, which take no place of a call
"""

from __future__ import annotations

import asyncio

from psoup.errors import ResourceExhausted
from psoup_service.wire.limits import Limits


class CallsUnderWay:
    """Counts calls from their beginning to their end. One event loop. `open`: all of them; `watching`: watchers."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.open = self.watching = 0
        self._idle = asyncio.Event()
        self._idle.set()

    def enter(self, watching: bool) -> None:
        """Count a call that begins."""
        self.open += 1
        self.watching += watching
        self._idle.clear()

    def leave(self, watching: bool) -> None:
        """Count its end."""
        self.open -= 1
        self.watching -= watching
        if not self.open:
            self._idle.set()

    def check(self, watching: bool) -> None:
        """Raise ResourceExhausted if a call that has just been counted is one too many."""
        if watching and self.watching > self._limits.watchers:
            raise _too_many_watchers(self._limits.watchers)
        if not watching and self.open - self.watching > self._limits.concurrent_calls:
            raise _too_many(self._limits.concurrent_calls)

    async def finished(self, timeout: float) -> bool:
        """Wait until there are none, up to `timeout` seconds; returns whether there are none."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


def _too_many(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{limit:,} calls are under way, the most there may be; try again in a moment",
        reason="TOO_MANY_CALLS",
        limit=limit,
        retry_after_ms=100,
    )


def _too_many_watchers(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{limit:,} clients watch, the most there may be (watchers); sync now and then instead, or try again later",
        reason="TOO_MANY_WATCHERS",
        limit=limit,
        retry_after_ms=1_000,
    )
