"""A store that follows the streams and queries that its callers may see, and that is charged to their tenant.

directories of now and of the last fill ─> IDs that differ ─> calls ─> rows ─> store
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any

from psoup.model import StreamSpec
from psoup_service.pg.calls import Calls
from psoup_service.pg.catalogue.content import (
    QUERIES,
    Content,
    content_of,
    number_of,
    oid_of_query,
    oids_of_stream,
)
from psoup_service.pg.catalogue.lists import read_queries, read_streams
from psoup_service.pg.catalogue.shown_views import ShownViews
from psoup_service.pg.catalogue.store import Store
from psoup_service.pg.versions import CatalogueSource, Directory

MOST_VIEWS = 20_000
"""The most queries with keys that a catalogue shows: the oldest ones."""

MOST_BYTES = 64 << 20
"""The bytes of a catalogue's tables above which it shows no further views."""

_SUBJECT = "the catalogue of PostgreSQL's clients"
_MOST_REMOVED = 100_000
"""The rows that may be deleted before a store is made anew, in addition to as many as it has."""

Work = Callable[[Callable[[], Any]], Awaitable[Any]]


class FilledStore:
    """The store of callers of one tenant with the same roles. `turn`: one statement of the tenant runs at a time.

    `streams`, `queries`: whether the callers may list them.
    """

    def __init__(
        self, source: CatalogueSource, tenant: str, turn: asyncio.Lock, *, streams: bool, queries: bool
    ) -> None:
        self.turn = turn
        self._source = source
        self._tenant = tenant
        self._lists = streams, queries
        self._store: Store | None = None
        self._directory: Directory | None = None
        self._specs: dict[int, StreamSpec] = {}
        self._hidden = 0
        self._views = ShownViews(tenant, MOST_VIEWS)
        self._budget = source.budget(tenant)

    @property
    def hidden(self) -> int:
        """The streams, and queries with keys, that the store does not show."""
        return self._hidden + self._views.hidden

    async def filled(self, calls: Calls, work: Work) -> Store:
        """The store with the present streams and queries. `work`: runs a function on a thread.

        Raises ResourceExhausted if the tenant may not hold so many bytes. Then the store is empty, and holds none.
        """
        now, store = self._source.directory(), self._store
        if store is not None and store.removed > store.rows + _MOST_REMOVED:
            self.empty()
            store = None
        try:
            if store is None:
                store = self._store = await work(Store)
            if self._directory != now:
                await self._follow(store, now, calls, work)
                self._directory = now
        except BaseException:
            self.empty()
            raise
        return store

    def empty(self) -> None:
        """Let go of the store, and of the bytes that it holds."""
        if self._store is not None:
            self._store = self._directory = None  # a cancelled statement may still use the store on its thread
            self._budget.close()
            self._specs, self._hidden, self._views = {}, 0, ShownViews(self._tenant, MOST_VIEWS)

    async def _follow(self, store: Store, now: Directory, calls: Calls, work: Work) -> None:
        """Delete and add the rows that differ."""
        lists_streams, lists_queries = self._lists
        changed = await self._follow_streams(store, now, calls, work) if lists_streams else set[str]()
        if not lists_queries:
            return
        gone, come = await work(lambda: self._views.follow(self._directory, now))
        if changed:  # views with the name of a stream need their schema, so their rows differ
            oids = await work(lambda: store.with_names(QUERIES, changed))
            again = {query_id for query_id in self._views.ids if oid_of_query(query_id) in oids}
            gone, come = gone | again, sorted({*come, *again})
        deleted = {*map(oid_of_query, (*gone, *come))} if self._directory is not None else set[int]()
        await self._change(store, deleted, Content, work)
        await self._add_views(store, come, calls, work)

    async def _follow_streams(self, store: Store, now: Directory, calls: Calls, work: Work) -> set[str]:
        """Delete and add streams. Returns the names that came or left, in lower case."""
        specs, before = now.specs_of(self._tenant), self._specs
        differ = {number for number, spec in specs.items() if before.get(number) is not spec}
        gone = {number for number in before if number not in specs} | (differ & before.keys())
        names = {number: specs[number].name for number in differ}
        if not names and not gone:
            return set()
        earlier, self._specs = _lower(before), specs
        await self._change(store, {oid for number in gone for oid in oids_of_stream(number)}, Content, work)
        left = len(names)
        async for streams in read_streams(calls, names):
            if await work(lambda: store.nbytes) > MOST_BYTES:
                self._hidden += left
                break
            await self._change(store, (), partial(content_of, streams, (), ()), work)
            left -= len(streams)
        return earlier ^ _lower(specs)

    async def _add_views(self, store: Store, ids: list[int], calls: Calls, work: Work) -> None:
        """Read queries, and add their rows, as long as there is room for them."""
        shadows, left = _lower(self._specs), len(ids)
        async for queries in read_queries(calls, ids):
            if await work(lambda: store.nbytes) > MOST_BYTES:
                self._views.hidden += left
                return
            shown = [query for query in queries if query.key]
            await self._change(store, (), partial(content_of, (), shown, shadows), work)
            numbers = [number_of(query.query_id) for query in queries]
            self._views.show(numbers)
            left -= len(numbers)

    async def _change(self, store: Store, gone: Collection[int], content: Callable[[], Content], work: Work) -> None:
        await work(lambda: store.change(gone, content()))
        await self._charge(store, work)

    async def _charge(self, store: Store, work: Work) -> None:
        """Charge the bytes of streams and queries to their tenant. Raises ResourceExhausted."""
        size = await work(lambda: store.nbytes)
        more = max(size - store.system_bytes, 0) - self._budget.joined
        if more > 0:
            self._budget.hold_joined(more, _SUBJECT)
        elif more < 0:
            self._budget.give_back_joined(-more)


def _lower(specs: Mapping[int, StreamSpec]) -> set[str]:
    return {spec.name.lower() for spec in specs.values()}
