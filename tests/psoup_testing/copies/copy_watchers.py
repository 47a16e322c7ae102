"""Clients that watch, in the machine of copies: the service's rounds on a loop whose time passes by itself.

    Watching of the SDK ── WatchLine ──> Stream: rounds of the desk's servicer, which run while somebody reads

Who does not read stalls. A new start ends all calls, and the SDK goes on by itself with its tokens. Before a restart
the service drains, as at every stop. Stores that watch are in `copy_live`.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from psoup.errors import PSoupError
from psoup_client import RetryOptions
from psoup_client.copies.answer_copy import AnswerCopy
from psoup_client.copies.watch import Watching
from psoup_client.errors import Unavailable
from psoup_proto.v1 import sync_pb2
from psoup_service.watching.watcher import Watcher, WatchForm
from psoup_testing.copies.copy_clients import PATTERNS, Client
from psoup_testing.copies.copy_desk import Desk, Line
from psoup_testing.copies.copy_machine import CopiesMachine

_NEVER_S = 10_000.0
"""Seconds of `progress` that a test never reaches."""

_QUIET_S = 2.5
"""Seconds without a change after which no more is expected."""
_AT_ONCE = RetryOptions(first_pause_seconds=0.01, longest_pause_seconds=0.01)
MOST_MESSAGES = 3
"""Messages to one who has not read for some steps: one that was made before, and what has come since."""


class Quiet(Exception):
    """Nothing comes."""


def _quiet() -> None:
    raise Quiet


class _Selector(selectors.DefaultSelector):  # type: ignore[misc,valid-type]
    passed = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """The ready events; without any, the loop's time passes by the timeout."""
        events = super().select(0)
        if not events and timeout:
            self.passed += timeout
        return events


class PassingLoop(asyncio.SelectorEventLoop):
    """A loop that waits for no time."""

    def __init__(self) -> None:
        self._own = _Selector()
        super().__init__(self._own)

    def time(self) -> float:
        """Seconds that have passed."""
        return self._own.passed

    def end(self) -> None:
        """Cancel what is left, and close."""
        tasks = asyncio.all_tasks(self)
        for task in tasks:
            task.cancel()
        if tasks:
            self.run_until_complete(asyncio.wait(tasks))
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()


class Stream:
    """A call of Watch. `quiet` is called when no message comes; then the wait goes on."""

    def __init__(
        self, desk: Desk, loop: PassingLoop, request: sync_pb2.WatchRequest, quiet: Callable[[], None]
    ) -> None:
        form = WatchForm(desk.soup.tenant, request.encoding, request.compression, 65_536, _NEVER_S)
        self._desk, self._loop, self._start = desk, loop, desk.start
        self.watcher = Watcher(request.wants, form, self._end)
        self._messages = desk.servicer._rounds.messages(self.watcher)
        self._reading: asyncio.Task[Any] | None = None
        self._quiet = quiet
        self.ended: PSoupError | None = None

    def _end(self, error: PSoupError) -> None:
        self.ended = error

    def __next__(self) -> sync_pb2.WatchResponse:
        while not self._is_there():
            self._quiet()
        assert self._reading is not None
        reading, self._reading = self._reading, None
        return sync_pb2.WatchResponse.FromString(reading.result().SerializeToString())

    def _is_there(self) -> bool:
        """Whether the next message comes. Raises Unavailable if the call has ended."""
        if self.ended is not None or self._desk.start is not self._start:
            self.cancel()
            raise Unavailable("the call has ended")
        self._desk.publish()
        if self._reading is None:
            self._reading = self._loop.create_task(anext(self._messages))  # type: ignore[arg-type]
        self._loop.run_until_complete(asyncio.wait({self._reading}, timeout=_QUIET_S))
        return self._reading.done()

    def cancel(self) -> None:
        """End the call."""

        async def end() -> None:
            if self._reading is not None:
                self._reading.cancel()
                await asyncio.wait({self._reading})
            await self._messages.aclose()

        self._loop.run_until_complete(end())


@dataclass(slots=True)
class WatchLine(Line):
    """The line of clients that watch."""

    loop: Any = None
    stream: Any = None
    retry: RetryOptions = _AT_ONCE
    quiet: Callable[[], None] = _quiet

    @property
    def sync(self) -> SimpleNamespace:
        """The stub of the service."""
        return SimpleNamespace(Sync=None, Watch=None)

    def event(self) -> threading.Event:
        """As of a connection of threads."""
        return threading.Event()

    def open(self, method: object, request: sync_pb2.WatchRequest, timeout: float) -> Stream:
        """Begin a call."""
        self.stream = Stream(self.desk, self.loop, request, self.quiet)
        return self.stream

    def replies(self, call: Stream) -> Stream:
        """Its messages."""
        return call


class WatchingMachine(CopiesMachine):
    """A client for each pattern, of which each watches."""

    def watch(self, steps: Sequence[str], turn: int) -> None:
        """After each step, and after two for those that stall, who watches holds the answer."""
        self.acting, loop = False, PassingLoop()
        try:
            watching = {pattern: self.watched(loop, pattern) for pattern in PATTERNS}
            for place, step in enumerate(steps):
                if step == "restart":
                    self.drain([client for _, client in watching.values()])
                self.step(step, place)
                for which, pattern in enumerate(PATTERNS):
                    watch, client = watching[pattern]
                    client.since.add(step)
                    if (place + which + turn) % 2 == 0:
                        self.client_met("stalls", client)
                        continue
                    if not self.reads(watch, client):
                        watching[pattern] = self.watched(loop, pattern)
            for watch, client in watching.values():
                self.reads(watch, client)
                watch.close()
        finally:
            loop.end()

    def drain(self, clients: Iterable[Client]) -> None:
        """End the calls of all who watch, also of those that do not read, and let nobody begin."""
        self.desk.servicer.drain()
        for client in clients:
            ended = client.line.stream.ended  # type: ignore[attr-defined]
            assert ended is not None and ended.reason == "DRAINING", "who watches a service that is stopped is not told"
            self.client_met("resumes" if isinstance(client.copy, AnswerCopy) else "store resumes", client)

    def watched(self, loop: PassingLoop, pattern: str) -> tuple[Watching, Client]:
        """A client that begins to watch."""
        self.number += 1
        key = f"w{self.number}"
        self.soup.register(f"{PATTERNS[pattern]} BEGIN (NOW - 20 SECONDS)", key=key)
        line = WatchLine(self.desk, loop=loop)
        copy = AnswerCopy(line, "", key=key, accept_truncation=True)  # type: ignore[arg-type]
        client = Client(copy, line, key, pattern)
        watch = Watching(line, [copy], 300, None)  # type: ignore[arg-type]
        assert self.reads(watch, client)
        return watch, client

    def reads(self, watch: Watching, client: Client) -> bool:
        """Read all that comes, and then the progress; returns whether the query is there still."""
        for progress in (False, True):
            if progress:
                client.line.stream.watcher.mark_all()  # type: ignore[attr-defined]
            messages = 0
            while True:
                try:
                    _, synced = next(watch)
                except Quiet:
                    break
                except StopIteration:
                    return False
                messages += 1
                assert messages <= MOST_MESSAGES, "bounded: messages are queued for who does not read"
                if synced.error is not None:
                    assert not self.stands(client), str(synced.error)
                    return False
        copy = client.copy
        assert repr(copy.rows()) == repr(self.truth(client, copy, "")), "right: who watches holds another answer"
        self.client_met("watches", client)
        client.since.clear()
        return True


WATCHED = ("watches", "stalls")
"""The actions of watching clients after each step."""
