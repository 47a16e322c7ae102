"""The line of clients near the newest tuple that wait for their pages. One step on a reader makes several pages.

marked clients ─> line ─ at most 256, for 10 ms ─> one reader, one snapshot ─> pages
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from itertools import zip_longest

from psoup.errors import PSoupError, ResourceExhausted
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_service.following.follower import FollowClient
from psoup_service.following.pages import FollowBatch, FollowPages, FollowTask
from psoup_service.following.positions import PositionLost
from psoup_service.host.host import Host

NEAR = 16_384
"""The most tuples that a client in the line has not been told. A client further behind reads pages of its own."""
_TOGETHER = 256
"""The most clients whose pages one step makes."""
_TOGETHER_S = 0.01
"""Seconds after which a step begins no further page of one client alone."""
_PAUSE_S = 0.1
"""Seconds until the line goes on after the readers had no room."""

_Page = FollowBatch | Exception | None


class PageLine:
    """A line of clients, in order of arrival."""

    def __init__(self, host: Host[Snapshot]) -> None:
        self._host = host
        self._waiting: dict[FollowClient, tuple[int, asyncio.Future[FollowBatch]]] = {}
        self._called = asyncio.Event()
        self._apart = 0
        """The number of further steps for one client each, because one step for many took too much of the budget."""

    async def page(self, client: FollowClient, seen: int) -> FollowBatch:
        """Wait in the line for the next page of a client, with tuples before `seen`. Raises as `FollowPages.page`.

        `seen`: the end of the last look. All queries that are told for these tuples were known to that look.
        """
        future: asyncio.Future[FollowBatch] = asyncio.get_running_loop().create_future()
        self._waiting[client] = seen, future
        self._called.set()
        try:
            return await future
        finally:
            self._waiting.pop(client, None)

    async def serve(self) -> None:
        """Make pages, until cancelled."""
        while True:
            await self._called.wait()
            clients = [*self._waiting][: 1 if self._apart else _TOGETHER]
            self._apart = max(self._apart - 1, 0)
            if not clients:
                self._called.clear()
                continue
            try:
                pages: Sequence[_Page] = await self._made(clients)
            except PSoupError as problem:
                if "retry_after_ms" in problem.facts:
                    await asyncio.sleep(_PAUSE_S)
                    continue
                pages = [problem] * len(clients)
            except Exception as problem:
                pages = [problem] * len(clients)
            for client, page in zip(clients, pages, strict=True):
                self._deliver(client, page)
            await asyncio.sleep(0)

    def _deliver(self, client: FollowClient, page: _Page) -> None:
        if page is None:  # the step had no time left
            return
        _, future = self._waiting.pop(client, (0, None))
        if future is None or future.done():
            return
        if isinstance(page, Exception):
            future.set_exception(page)
        else:
            future.set_result(page)

    async def _made(self, clients: Sequence[FollowClient]) -> Sequence[_Page]:
        tasks = list[FollowTask]()
        for client in clients:
            tasks.append(FollowTask(client, client.place, self._waiting[client][0], client.stale))
            client.stale = False  # before the snapshot is read

        def make(snapshot: Snapshot, budget: ReadBudget) -> Sequence[_Page]:
            pages = FollowPages(snapshot, budget, self._host.clock.now())
            try:
                pages.share(tasks)
            except ResourceExhausted:  # the budget may be used up: each client gets a step of its own
                self._apart = len(tasks)
                return [None] * len(tasks)
            except (PSoupError, PositionLost):  # then each client gets its page, or its error, alone
                pass
            made, end = list[_Page](), time.perf_counter() + _TOGETHER_S
            for task in tasks:
                if made and not pages.has(task) and time.perf_counter() > end:
                    made.append(None)
                    continue
                try:
                    made.append(pages.page(task))
                except (PSoupError, PositionLost) as problem:  # of one client: each other client gets its page
                    made.append(problem)
            return made

        pages: Sequence[_Page] = ()
        try:
            pages = await self._host.evaluate(make)
            return pages
        finally:
            for task, page in zip_longest(tasks, pages):
                task.client.stale |= task.anew and not isinstance(page, FollowBatch)
