"""A standby follows the copy of another service: it takes the objects that the writer adds, one after the other.

    every half second   the next object ─> its events ─> host ─> the place is noted
    no storage          tried again, with pauses of up to 30 s
    a gap, or damage    the service stops and says why
    the own fence       the standby is promoted, and follows no more (`promotion`)

Reads go on whatever happens to the storage and to the writer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from psoup.errors import PSoupError, Unavailable
from psoup.model import time_text
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_service.host.standby_host import StandbyHost
from psoup_service.host.threads import Threads, on
from psoup_storage import StandbyStore
from psoup_storage.contract import Store
from psoup_storage.replica.fences import Fence
from psoup_storage.replica.standby_store import News

EVERY_S = 0.5
"""Seconds between two looks for the next object."""
MOST_PAUSE_S = 30.0
"""Seconds of the longest pause after errors of the storage."""
_log = logging.getLogger(__name__)


class StandbyClock:
    """The clock of a standby: when the last event that it has reached the writer's disk, in microseconds.

    So NOW stands still while the writer has no events, or is gone. It moves before readers see an event, as they could
    miss its tuples.
    """

    def __init__(self, store: StandbyStore) -> None:
        self._store = store

    def now(self) -> int:
        """See the class."""
        return self._store.time


class Following:
    """The task of a standby. At any other service, `run` returns at once."""

    def __init__(self, host: Host[Snapshot], store: Store, threads: Threads) -> None:
        self._host, self._store, self._threads = host, store, threads
        self.trouble = ""
        """Why the last request to the storage failed; "" once one has succeeded."""
        self.reached: Callable[[Fence], Awaitable[bool]]
        """Called with the fence of this standby's promotion. Returns whether the standby writes now."""
        self._hurried = asyncio.Event()

    def hurry(self) -> None:
        """Look for the next object at once."""
        self._hurried.set()

    async def run(self) -> None:
        """Follow the copy until cancelled, or until the next events cannot be had."""
        host, store = self._host, self._store
        if not (isinstance(host, StandbyHost) and isinstance(store, StandbyStore)):
            return
        pause, news = EVERY_S, None
        while True:
            try:
                news = await on(self._threads.life, store.next)
            except Unavailable as problem:
                if not self.trouble:
                    _log.warning("the copy cannot be reached; it is tried again", extra={"why": problem.message})
                self.trouble, pause = problem.message, min(2 * pause, MOST_PAUSE_S)
            except Exception as problem:  # the object counts as read: going on would leave out its events
                self._give_up(host, problem)
                return
            else:
                if self.trouble:
                    _log.warning("the copy can be reached again")
                self.trouble, pause = "", EVERY_S
            if self.trouble or news is None:
                await self._rest(pause)
            elif not await self._apply(host, store, news):
                return

    async def _rest(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._hurried.wait()
        self._hurried.clear()

    async def _apply(self, host: StandbyHost[Snapshot], store: StandbyStore, news: News) -> bool:
        """Apply events, and note the place. Returns False once the standby is promoted.

        Also returns False, after the host has failed, if they cannot be applied.
        """
        try:
            if news.events:
                await host.follow(news.events)
            if news.fence is not None and await self.reached(news.fence):
                return False
        except Exception as problem:
            self._give_up(host, problem)
            return False
        store.applied(news.place)
        return True

    def _give_up(self, host: StandbyHost[Snapshot], problem: Exception) -> None:
        if host.state != "serving":  # it ends, or has failed already
            return
        if not isinstance(problem, PSoupError):
            _log.error("a defect in following the copy", exc_info=problem)
        host.fail(problem.message if isinstance(problem, PSoupError) else f"{type(problem).__name__}: {problem}")

    def notice(self) -> str:
        """The copy that a standby follows, and up to when, in words; "" at any other service. Any thread."""
        if not isinstance(self._store, StandbyStore) or not self._store.follows:
            return ""
        at = f"standby of {self._store.copy}, as of {time_text(self._store.place.time)}"
        return f"{at}; {self.trouble}" if self.trouble else at
