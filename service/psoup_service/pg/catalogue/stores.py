"""The stores of a service: one for each group of callers that see the same, kept while their lists stay the same.

caller ─> may list streams? queries? ─> (tenant, what it may list) ─> a store, filled anew after a change
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from psoup.errors import PermissionDenied
from psoup_proto.v1 import queries_pb2, streams_pb2
from psoup_service.gate.principal import Principal
from psoup_service.pg.calls import Calls
from psoup_service.pg.catalogue.content import content_of
from psoup_service.pg.catalogue.store import Running, Store, Variables

MOST_VIEWS = 20_000
"""The most queries with keys that a catalogue shows: the oldest ones."""

_MOST_STORES = 8
_PAGE = 1_000
_WORKERS = 2
_log = logging.getLogger(__name__)
T = TypeVar("T")


@dataclass(slots=True)
class _Place:
    """The store of some callers. `turn`: only one of their statements runs at a time."""

    version: object = None
    store: Store | None = None
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


class Stores:
    """Fills stores, and runs statements in them. `version`: changes when any stream or query changes."""

    def __init__(self, version: Callable[[], object], seconds: float = 5.0) -> None:
        self._version = version
        self._seconds = seconds
        self._places = OrderedDict[Hashable, _Place]()
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="pg-catalogue-reader")
        self._runners = ThreadPoolExecutor(_WORKERS, thread_name_prefix="pg-catalogue")
        self._strange = set[str]()

    def close(self) -> None:
        """End the threads."""
        for threads in (self._readers, self._runners):
            threads.shutdown(wait=False, cancel_futures=True)

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """The result of a function that reads or writes statements, on a thread of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, function, *arguments)

    async def _work(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._runners, function)

    def mention(self, names: set[str]) -> None:
        """Log the names of unknown relations, each once."""
        for name in sorted(names - self._strange):
            if len(self._strange) < 1_000:
                self._strange.add(name)
                _log.warning("a client of PostgreSQL reads %r, which the catalogue does not have; it is empty", name)

    async def run(self, calls: Calls, text: str, variables: Variables) -> pa.Table:
        """The rows of a statement that `translation` wrote, over what the caller may see."""
        place, streams, queries = await self._place(calls)
        async with place.turn:
            store = await self._store(place, calls, streams, queries)
            running = Running(store, text, variables, self._seconds)
            try:
                return await self._work(running.run)
            except asyncio.CancelledError:
                running.stop()
                raise

    async def _place(self, calls: Calls) -> tuple[_Place, bool, bool]:
        """The place of the caller's store, and whether the caller may list streams and queries."""
        of_streams = await _asking(calls, "StreamService/ListStreams", streams_pb2.ListStreamsRequest(page_size=1))
        of_queries = await _asking(calls, "QueryService/ListQueries", queries_pb2.ListQueriesRequest(page_size=1))
        streams, queries, principal = of_streams is not None, of_queries is not None, of_streams or of_queries
        key = (principal and principal.tenant, principal and principal.streams, streams, queries)
        place = self._places.setdefault(key, _Place())
        self._places.move_to_end(key)
        if len(self._places) > _MOST_STORES:
            self._places.popitem(last=False)
        return place, streams, queries

    async def _store(self, place: _Place, calls: Calls, streams: bool, queries: bool) -> Store:
        version = self._version()
        if place.store is None or place.version != version:
            listed = await _streams(calls) if streams else []
            views = await _queries(calls) if queries else []
            place.store = await self._work(lambda: Store(content_of(listed, views)))
            place.version = version
        return place.store


async def _asking(calls: Calls, name: str, request: Any) -> Principal | None:
    """The identity of a caller that may make a call; None if the roles exclude it."""
    try:
        return (await calls.present(name, request))[1]
    except PermissionDenied:
        return None


async def _streams(calls: Calls) -> list[streams_pb2.Stream]:
    request, rows = streams_pb2.ListStreamsRequest(page_size=_PAGE), list[streams_pb2.Stream]()
    while True:
        reply, _ = await calls.present("StreamService/ListStreams", request)
        rows += reply.streams
        if not reply.next_page_token:
            return rows
        request.page_token = reply.next_page_token


async def _queries(calls: Calls) -> list[queries_pb2.Query]:
    """The queries with keys, at most `MOST_VIEWS`."""
    request, rows = queries_pb2.ListQueriesRequest(page_size=_PAGE), list[queries_pb2.Query]()
    while len(rows) < MOST_VIEWS:
        reply, _ = await calls.present("QueryService/ListQueries", request)
        rows += [query for query in reply.queries if query.key]
        if not reply.next_page_token:
            break
        request.page_token = reply.next_page_token
    return rows[:MOST_VIEWS]
