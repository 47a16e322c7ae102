"""The open calls: their number, its limits, and the wait for their end.

calls      as long as their work                 `concurrent_calls` at once
watchers   as long as their clients wish         `watchers` at once, which take no place of a call
 └─ of a credential                              `watches_per_credential` of them

Each tenant has some reserved places; all of them together are half of the limit, in addition to it. If all other places
are taken, a tenant with few open calls gets a reserved one. So no tenant is refused because of other tenants' calls.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from psoup.budgets import WATCHES
from psoup.errors import ResourceExhausted
from psoup_service.gate.principal import Principal
from psoup_service.wire.limits import Limits


class CallsUnderWay:
    """Counts the open calls. For one event loop. `open`: all open calls. `watching`: the open watches."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.open = self.watching = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._watches: Counter[tuple[str, str, str]] = Counter()

    def enter(self, watching: bool) -> None:
        """Count a call that begins."""
        self.open += 1
        self.watching += watching
        self._idle.clear()

    def leave(self, watching: bool) -> None:
        """Count the end of a call."""
        self.open -= 1
        self.watching -= watching
        if not self.open:
            self._idle.set()

    def check(self, watching: bool, has_few: Callable[[float], bool]) -> None:
        """Raise ResourceExhausted if the call that was just counted exceeds the limit.

        `has_few`: tells whether the tenant has fewer open calls of this kind than its share of the given number.
        """
        limit = self._limits.watchers if watching else self._limits.concurrent_calls
        present = self.watching if watching else self.open - self.watching
        if present > limit and not has_few(limit / 2):
            raise _too_many_watchers(limit) if watching else _too_many(limit)

    @contextmanager
    def watched(self, principal: Principal) -> Iterator[None]:
        """A context in which a watch of a principal is open. There is no limit if callers need no credential.

        Raises ResourceExhausted, reason WATCH_BUDGET, for too many watches of one credential.
        """
        credential = principal.credential
        if credential is None:
            yield
            return
        if self._watches[credential] >= self._limits.watches_per_credential:
            raise _too_many_of_one(principal, self._limits.watches_per_credential)
        self._watches[credential] += 1
        try:
            yield
        finally:
            self._watches[credential] -= 1
            if not self._watches[credential]:
                del self._watches[credential]

    async def finished(self, timeout: float) -> bool:
        """Wait until no call is open, up to `timeout` seconds; returns whether none is open."""
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


def _too_many(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{limit:,} calls are open, which is the limit; try again in a moment",
        reason="TOO_MANY_CALLS",
        limit=limit,
        retry_after_ms=100,
    )


def _too_many_watchers(limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"{limit:,} clients watch, which is the limit (watchers); sync now and then instead, or try again later",
        reason="TOO_MANY_WATCHERS",
        limit=limit,
        retry_after_ms=1_000,
    )


def _too_many_of_one(principal: Principal, limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"the credential of {principal.name!r} has {limit:,} watches open, the most of one (watches_per_credential):"
        " end some, watch up to 1,000 queries in one, give each program a credential of its own, or try again later",
        reason="WATCH_BUDGET",
        **WATCHES.over(limit, limit),
        needed=1,
        retry_after_ms=1_000,
    )
