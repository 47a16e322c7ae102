"""Rounds: after publications, at most every ten milliseconds, a round finds and informs watchers with changes.

    writer ─ published ─> [ round: look at what is new ] ─ marks ─> watchers that wait ─> lines ─> pages on a reader
                                                         └ marks ─> watchers whose message is on its way: later

There are three lines, each with one reader thread at a time. So a client that follows closely does not wait for one
that lags. `close` has watchers with a few up-to-date wants, `far` the remaining ones. `slow` has wants whose changes
show only when they are evaluated. No round runs while no client watches. For the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial

from psoup.errors import PSoupError, Unavailable
from psoup.published.snapshot import Snapshot
from psoup.work.read_budget import ReadBudget
from psoup_proto.v1 import sync_pb2
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_service.sync.tokens import Tokens
from psoup_service.watching.pages import Target, WatchPage, WatchPages
from psoup_service.watching.topics import SLOW_S, Topics
from psoup_service.watching.watcher import Taken, Watcher

ROUND_S = 0.01
"""Seconds between two rounds."""
_FEW = 16
"""The most changed wants of a watcher in the line `close`."""
_TOGETHER = 64
"""The most watchers whose pages one step makes."""

_TOGETHER_S = 0.01
"""Seconds after which a step begins no further page."""
_PAUSE_S = 0.1
"""Seconds until a line goes on after the readers had no room."""

_log = logging.getLogger(__name__)

Work = tuple[Watcher, Taken]


class Rounds:
    """All watchers of a service. `count`: rounds so far. `refused`: called for each want that fails, on any thread."""

    def __init__(self, host: Host[Snapshot], tokens: Tokens, ids: Ids, refused: Callable[[PSoupError], None]) -> None:
        self._host = host
        self._tokens = tokens
        self._ids = ids
        self._refused = refused
        self.topics = Topics()
        self._watchers = set[Watcher]()
        self._tasks = list[asyncio.Task[None]]()
        self._lines: dict[str, _Line] = {}
        self._news = asyncio.Event()
        self._said = False
        """Whether the writer has announced news that no round has seen yet."""
        self._draining = False
        self._deaf: Callable[[], None] = lambda: None
        """Ends the announcements of the writer."""
        self.count = 0

    async def messages(self, watcher: Watcher) -> AsyncGenerator[sync_pb2.WatchResponse]:
        """Yield the messages to a watcher, until all its wants have failed.

        Each is made after the client took the last one.
        """
        self._enter(watcher)
        try:
            told_at = asyncio.get_running_loop().time()
            while watcher.open:
                await self.marked(watcher, told_at + watcher.form.progress_s)
                page = await self._lines[_line_of(watcher)].page(watcher)
                if page.reply is not None:
                    yield page.reply
                    told_at = asyncio.get_running_loop().time()
        finally:
            self._leave(watcher)

    @contextmanager
    def listening(self, watcher: Watcher) -> Iterator[None]:
        """Inside the `with` block, a watcher gets marks, and no messages. See `hears`."""
        self._enter(watcher)
        try:
            yield
        finally:
            self._leave(watcher)

    def hears(self, watcher: Watcher, target: Target, sequence: int, cost: float) -> None:
        """Let a watcher hear of later changes of its only want, after a look at its answer.

        `target`: the subject of the want, also if it was another one before. `sequence`: the last event that the look
        saw. `cost`: seconds of the look.
        """
        if watcher not in self._watchers:
            return
        snapshot = self._host.snapshot()
        if any(stream_id not in snapshot.by_id for stream_id in target.streams):  # dropped since the look
            watcher.mark(0)
            return
        new = self.topics.of(watcher, 0) != target
        if new:
            self.topics.drop(watcher, 0)
            self.topics.add(watcher, 0, target, snapshot)
        self.topics.asked_for(watcher, 0, cost, asyncio.get_running_loop().time())
        if new and snapshot.sequence != sequence:  # it may have missed a publication
            watcher.mark(0)

    def drain(self) -> None:
        """End all calls, also of clients that do not read."""
        self._draining = True
        for watcher in list(self._watchers):
            watcher.end(_draining())

    # Watchers -------------------------------------------------------------------------------------------------

    def _enter(self, watcher: Watcher) -> None:
        if self._draining:
            raise _draining()
        self._watchers.add(watcher)
        if len(self._watchers) > 1:
            return
        loop = asyncio.get_running_loop()
        self._lines = {name: _Line(self) for name in ("close", "far", "slow")}
        runs = [self._look, self._ask, *(line.serve for line in self._lines.values())]
        # In contexts of their own: in the first watcher's, the tasks would keep its request, and extend its trace.
        self._tasks = [loop.create_task(run(), context=Context()) for run in runs]
        self._said = False

        def published() -> None:
            if not self._said:
                self._said = True
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._news.set)

        self._deaf = self._host.listen(published)

    def _leave(self, watcher: Watcher) -> None:
        self._watchers.discard(watcher)
        for place in range(len(watcher.wants)):
            self.topics.drop(watcher, place)
        if not self._watchers:
            self._deaf()
            for task in self._tasks:
                task.cancel()
            self._tasks = []

    async def marked(self, watcher: Watcher, end: float) -> None:
        """Wait until a watcher has a mark. At the time `end` of the loop, all its wants get a mark."""
        if not watcher.marked.is_set():
            timer = asyncio.get_running_loop().call_at(end, watcher.mark_all)
            try:
                await watcher.marked.wait()
            finally:
                timer.cancel()

    # News -----------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        """Run a round after each publication, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            self._said = False  # before the snapshot is read, so that the writer announces later publications again
            moved = True
            try:
                moved = self.topics.look(self._host.snapshot())
            except Exception:
                _log.exception("a round has failed")
            self.count += 1
            if self.topics.unchecked:
                self._news.set()
            # After an event without tuples, such as a step of a webhook, the next tuple need not wait.
            await asyncio.sleep(ROUND_S if moved or self.topics.unchecked else 0)

    async def _ask(self) -> None:
        """Mark the topics whose changes only an evaluation shows, every `SLOW_S` seconds, until cancelled."""
        while True:
            await asyncio.sleep(SLOW_S)
            try:
                self.topics.ask(asyncio.get_running_loop().time(), self._host.snapshot())
            except Exception:
                _log.exception("topics could not be asked")

    # Pages ----------------------------------------------------------------------------------------------------

    async def made(self, works: Sequence[Work]) -> list[WatchPage | None]:
        """Make the pages of some watchers on a reader thread.

        After `_TOGETHER_S` seconds, only a watcher whose page has been made for another one gets it. The remaining
        watchers get None.
        """

        def make(snapshot: Snapshot, budget: ReadBudget) -> list[WatchPage | None]:
            pages = WatchPages(snapshot, budget, self._tokens, self._ids, self._host.clock.now(), self._refused)
            made, end = list[WatchPage | None](), time.perf_counter() + _TOGETHER_S
            for watcher, taken in works:
                made.append(pages.page(watcher, taken, at_hand=bool(made) and time.perf_counter() > end))
            return made

        return await self._host.evaluate(make)

    def apply(self, watcher: Watcher, taken: Taken, page: WatchPage) -> None:
        """Update a watcher to the state that its client has after the page."""
        snapshot, now = self._host.snapshot(), asyncio.get_running_loop().time()
        for place in page.left:
            watcher.mark(place, tell=place in taken.told)
        for place, reply in page.told.items():
            if reply.failed:
                watcher.open.discard(place)
                self.topics.drop(watcher, place)
                continue
            if reply.again:
                asyncio.get_running_loop().call_later(SLOW_S, partial(watcher.mark, place, tell=True))
                continue
            if reply.token:
                watcher.wants[place].token = reply.token
                watcher.wants[place].query_id = watcher.wants[place].key = ""
            if reply.target is not None and watcher in self._watchers:
                self.topics.add(watcher, place, reply.target, snapshot)
            (watcher.behind.discard if reply.complete else watcher.behind.add)(place)
            self.topics.asked_for(watcher, place, reply.cost, now)
            # A watcher that was just registered may have missed publications after its page was read; check it
            # again.
            if not reply.complete or (reply.target is not None and snapshot.sequence != page.sequence):
                watcher.mark(place)


class _Line:
    """A line of watchers that wait for their pages.

    One step makes the pages of several watchers, in order of arrival.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._waiting: dict[Watcher, asyncio.Future[WatchPage]] = {}
        self._called = asyncio.Event()

    async def page(self, watcher: Watcher) -> WatchPage:
        """Wait in the line for the next page of a watcher."""
        future: asyncio.Future[WatchPage] = asyncio.get_running_loop().create_future()
        self._waiting[watcher] = future
        self._called.set()
        try:
            return await future
        finally:
            self._waiting.pop(watcher, None)

    async def serve(self) -> None:
        """Make pages, until cancelled."""
        while True:
            await self._called.wait()
            waiting = [*self._waiting][:_TOGETHER]
            if not waiting:
                self._called.clear()
                continue
            works = [(watcher, watcher.take()) for watcher in waiting]
            try:
                pages = await self._rounds.made(works)
            except Exception as problem:
                await self._failed(works, problem)
                continue
            for (watcher, taken), page in zip(works, pages, strict=True):
                if page is None:
                    _give_back(watcher, taken)
                    continue
                try:
                    self._rounds.apply(watcher, taken, page)
                except Exception as problem:  # of one watcher: the line goes on for the others
                    _log.exception("a page could not be applied")
                    await self._failed([(watcher, taken)], problem)
                    continue
                future = self._waiting.pop(watcher, None)
                if future is not None and not future.done():
                    future.set_result(page)
                await asyncio.sleep(0)  # to apply a page of a thousand wants takes milliseconds

    async def _failed(self, works: Sequence[Work], problem: Exception) -> None:
        """Handle an error of a step.

        If the readers have no room, the watchers wait for a moment. Any other error ends their calls.
        """
        for watcher, taken in works:
            _give_back(watcher, taken)
        if isinstance(problem, PSoupError) and "retry_after_ms" in problem.facts:
            await asyncio.sleep(_PAUSE_S)
            return
        for watcher, _ in works:
            future = self._waiting.pop(watcher, None)
            if future is not None and not future.done():
                future.set_exception(problem)


def _give_back(watcher: Watcher, taken: Taken) -> None:
    for place in taken.places:
        watcher.mark(place, tell=place in taken.told)


def _line_of(watcher: Watcher) -> str:
    """The line that a watcher waits in."""
    dirty = set(watcher.dirty)
    if dirty & watcher.slow:
        return "slow"
    return "far" if len(dirty) > _FEW or dirty & watcher.behind else "close"


def _draining() -> Unavailable:
    return Unavailable("the service is shutting down; go on when it is back", reason="DRAINING")
