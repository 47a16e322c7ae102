"""The stores of a service: one for all callers of a tenant that may list the same things.

    caller ─> may it list streams? queries? ─> (tenant, both answers) ─> a store, which follows each change
    statement ─> short queue of its tenant ── not finished after `QUICK_S` ──> long queue, from the beginning

The statements of a tenant run one after the other, in two queues. So a slow statement delays only other slow statements
of its tenant. A store is emptied some time after its last caller has disconnected, or after its last statement.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import pyarrow as pa

from psoup.errors import ResourceExhausted
from psoup.model import DEFAULT_TENANT
from psoup_proto.v1 import queries_pb2, streams_pb2
from psoup_service.pg.calls import Calls
from psoup_service.pg.catalogue.filled_store import FilledStore
from psoup_service.pg.catalogue.growth import Growth
from psoup_service.pg.catalogue.lists import identity
from psoup_service.pg.catalogue.store import Running, Store, Variables
from psoup_service.pg.versions import CatalogueSource
from psoup_service.wire.decoders import Decoders

QUICK_S = 0.1
"""The seconds after which a statement moves to the queue for long ones."""

_MOST_LONG = 1_000
"""The most statements that are remembered as long. These go to the queue for long ones at once."""

LEFT_S = 60.0
"""The seconds after the last statement, after which a store without connections is emptied."""

UNUSED_S = 600.0
"""The seconds after the last statement, after which a store with connections is emptied."""

MOST_STORES = 16
"""The most stores. Beyond, the one whose last statement is the oldest is emptied, unless its tenant runs one."""

_WORKERS = 4
"""The threads of each queue. Two statements of one tenant never run in a queue at the same time."""

_log = logging.getLogger(__name__)
T = TypeVar("T")


class Answer(NamedTuple):
    """The rows of a statement. `hidden`: the streams and views that its catalogue does not show."""

    rows: pa.Table
    hidden: int


class Visitor:
    """A connection that reads the catalogue. `place`: the store of its last statement."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self.place: _Place | None = None


@dataclass(slots=True, eq=False)
class _Place:
    """A store, and the number of its connections. `running`: the statements that use it, or wait for their turn.

    `used`: the event loop's time at the end of the last statement.
    """

    store: FilledStore
    visitors: int = 0
    running: int = 0
    used: float = 0.0


class Stores:
    """Fills stores, and runs statements in them. `seconds`: the longest run of a statement."""

    def __init__(self, source: CatalogueSource, seconds: float = 5.0) -> None:
        self._source = source
        self._seconds = seconds
        self._places = dict[Hashable, _Place]()  # the place that was used last is the last one
        self._turns = WeakValueDictionary[str, asyncio.Lock]()
        self._long_turns = WeakValueDictionary[str, asyncio.Lock]()
        self._long = dict[int, None]()
        """The hashes of statements that were long, the latest last."""
        self._readers = Decoders()
        self._runners = ThreadPoolExecutor(_WORKERS, thread_name_prefix="pg-catalogue")
        self._long_runners = ThreadPoolExecutor(_WORKERS, thread_name_prefix="pg-catalogue-long")
        self._strange = set[str]()
        self._timer: asyncio.TimerHandle | None = None

    def close(self) -> None:
        """End the threads."""
        if self._timer is not None:
            self._timer.cancel()
        self._readers.close()
        for threads in (self._runners, self._long_runners):
            threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, tenant: str, size: int, function: Callable[[], T]) -> T:
        """The result of a function that reads or writes a text of some size, on a thread. Tenants take turns."""
        return await self._readers.run(tenant, size, function)

    async def _work(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._runners, function)

    def mention(self, names: set[str]) -> None:
        """Log the names of unknown relations, each once."""
        for name in sorted(names - self._strange):
            if len(self._strange) < 1_000:
                self._strange.add(name)
                _log.warning("a client of PostgreSQL reads %r, which the catalogue does not have; it is empty", name)

    @asynccontextmanager
    async def answer(self, visitor: Visitor, text: str, growth: Growth, variables: Variables) -> AsyncIterator[Answer]:
        """The rows of a statement that `translation` wrote, over what the caller may see. `growth`: its limits.

        The rows are charged to the tenant until the context ends. Raises InvalidInput and ResourceExhausted.
        """
        place, tenant = await self._place(visitor)
        number, budget = hash(text), self._source.budget(tenant)
        place.running += 1
        try:
            async with place.store.turn:
                store = await self._filled(place, visitor.calls)
                try:
                    rows = None
                    if number not in self._long:
                        running = Running(store, text, growth, variables, min(QUICK_S, self._seconds), budget)
                        rows = await _run(self._runners, running)
                except ResourceExhausted as problem:
                    if problem.reason not in ("DEADLINE_EXCEEDED", "MEMORY"):  # a long one may have the memory
                        raise
                    budget.close()
                    budget = self._source.budget(tenant)
                finally:
                    self._note(place)
            if rows is None:
                rows = await self._run_long(
                    number, Running(store, text, growth, variables, self._seconds, budget), tenant
                )
            yield Answer(rows, place.store.hidden)
        finally:
            place.running -= 1
            budget.close()

    async def _run_long(self, number: int, running: Running, tenant: str) -> pa.Table:
        """The rows of a statement in the queue for long ones. `number`: the hash of its text."""
        async with self._long_turns.setdefault(tenant, asyncio.Lock()):
            began = time.perf_counter()
            try:
                return await _run(self._long_runners, running)
            finally:
                self._long.pop(number, None)
                if time.perf_counter() - began > QUICK_S:
                    self._long[number] = None
                if len(self._long) > _MOST_LONG:
                    del self._long[next(iter(self._long))]

    async def _filled(self, place: _Place, calls: Calls) -> Store:
        """The filled store of a place. Without memory for it, stores without connections are emptied first."""
        try:
            return await self._fill(place, calls)
        except ResourceExhausted as problem:
            if problem.reason != "SORTS_BUDGET" or not self._release(lambda other: not other.visitors):
                raise
        return await self._fill(place, calls)

    async def _fill(self, place: _Place, calls: Calls) -> Store:
        """Fill the store of a place. If its caller leaves, the store is filled all the same: the next caller needs it.

        The call ends once the store is filled, so that the caller's turn lasts as long.
        """
        work = asyncio.ensure_future(place.store.filled(calls, self._work))
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await _ended(work)
            raise

    async def _place(self, visitor: Visitor) -> tuple[_Place, str]:
        """The place of the caller's store, and its tenant."""
        calls = visitor.calls
        of_streams = await identity(calls, "StreamService/ListStreams", streams_pb2.ListStreamsRequest(page_size=1))
        of_queries = await identity(calls, "QueryService/ListQueries", queries_pb2.ListQueriesRequest(page_size=1))
        streams, queries, principal = of_streams is not None, of_queries is not None, of_streams or of_queries
        tenant = DEFAULT_TENANT if principal is None else principal.tenant
        key = tenant, streams, queries
        place = self._places.pop(key, None)
        if place is None:
            turn = self._turns.setdefault(tenant, asyncio.Lock())
            place = _Place(FilledStore(self._source, tenant, turn, streams=streams, queries=queries))
        self._places[key] = place
        self._move(visitor, place)
        if len(self._places) > MOST_STORES:
            oldest = next((other for other in self._places.values() if not other.running), place)
            self._release(lambda other: other is oldest and other is not place)
        return place, tenant

    def leave(self, visitor: Visitor) -> None:
        """Note that a connection has ended."""
        self._move(visitor, None)

    def _move(self, visitor: Visitor, place: _Place | None) -> None:
        before, visitor.place = visitor.place, place
        if place is not before:
            if before is not None:
                before.visitors -= 1
            if place is not None:
                place.visitors += 1

    def _note(self, place: _Place) -> None:
        """Note that a statement has used a place."""
        loop = asyncio.get_running_loop()
        place.used = loop.time()
        if self._timer is None:
            self._timer = loop.call_later(LEFT_S / 4, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        self.release_unused(loop.time())
        self._timer = loop.call_later(LEFT_S / 4, self._tick, loop) if self._places else None

    def release_unused(self, now: float) -> None:
        """Empty stores that were not used for `LEFT_S` or `UNUSED_S`. `now`: the event loop's time, in seconds."""
        self._release(lambda place: now - place.used > (UNUSED_S if place.visitors else LEFT_S))

    def _release(self, chosen: Callable[[_Place], bool]) -> int:
        """Empty the chosen stores, unless a statement uses them or waits for them. Returns their number."""
        keys = [key for key, place in self._places.items() if not place.running and chosen(place)]
        for key in keys:
            self._places.pop(key).store.empty()
        return len(keys)


async def _run(threads: ThreadPoolExecutor, running: Running) -> pa.Table:
    """The rows of a statement.

    If its task is cancelled, the statement is interrupted. The call still waits for the end of its thread. Until then
    the statement keeps its place in the queue, and its memory.
    """
    job = threads.submit(running.run)
    work = asyncio.wrap_future(job)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        if not job.cancel():
            running.stop()
            await _ended(work)
        raise


async def _ended(work: asyncio.Future[Any]) -> None:
    """Wait until a thread or a task has ended, in spite of a second cancellation."""
    while not work.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([work])
    if not work.cancelled():
        work.exception()  # else asyncio logs that it was not asked for
