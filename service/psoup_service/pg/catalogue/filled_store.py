"""A store that follows the streams and queries that its callers may see, and that is charged to their tenant.

directories of now and of the last fill ─> IDs that differ ─> calls ─> rows ─> store
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import NamedTuple

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
from psoup_service.pg.versions import CatalogueSource, Directory, Work

MOST_VIEWS = 20_000
"""The most queries with keys that a catalogue shows: the oldest ones."""

MOST_BYTES = 64 << 20
"""The bytes of a catalogue above which no further views are added."""

_SUBJECT = "the catalogue of PostgreSQL's clients"
_MOST_REMOVED = 100_000
"""A store is made anew after this many deleted rows, and as many again as it has rows."""


class FilledStore:
    """The store for the callers of a tenant that may list the same things. `turn`: held by the statement that runs.

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
        self._hidden: frozenset[int] = frozenset()
        """The numbers of the streams that the store does not show."""

        self._views = ShownViews(tenant, MOST_VIEWS)
        self._budget = source.budget(tenant)

    @property
    def hidden(self) -> int:
        """The streams, and queries with keys, that the store does not show."""
        return len(self._hidden) + self._views.hidden

    async def filled(self, calls: Calls, work: Work) -> Store:
        """The store with the present streams and queries. `work`: runs a function on a thread.

        Raises ResourceExhausted if the tenant may not hold so many bytes. Then the store is empty, and holds none.
        """
        now, store = await self._source.directory(work), self._store
        if store is not None and store.removed > store.rows + _MOST_REMOVED:
            self.empty()
            store = None
        try:
            if store is None:
                store = self._store = await work(Store)
            before = self._directory
            if before is not now:
                if await work(lambda: before != now):
                    await self._follow(store, now, calls, work)
                self._directory = now
        except BaseException:
            self.empty()
            raise
        return store

    def empty(self) -> None:
        """Drop the store with its rows, and give back the bytes that were charged for it."""
        if self._store is not None:
            self._store = self._directory = None  # a cancelled statement may still use the store on its thread
            self._budget.close()
            self._specs, self._hidden, self._views = {}, frozenset(), ShownViews(self._tenant, MOST_VIEWS)

    async def _follow(self, store: Store, now: Directory, calls: Calls, work: Work) -> None:
        """Delete and add the rows that differ from the last directory."""
        lists_streams, lists_queries = self._lists
        changed = await self._follow_streams(store, now, calls, work) if lists_streams else set[str]()
        if not lists_queries:
            return
        gone, come = await work(lambda: self._views.follow(self._directory, now))
        if changed:  # views with the name of a stream need their schema, so their rows differ
            oids = await work(lambda: store.with_names(QUERIES, changed))
            gone, come = await work(lambda: _with_others(gone, come, self._views.ids, oids))
        if self._directory is not None:
            await self._delete(store, lambda: {*map(oid_of_query, (*gone, *come))}, work)
        await self._add_views(store, come, calls, work)

    async def _follow_streams(self, store: Store, now: Directory, calls: Calls, work: Work) -> set[str]:
        """Delete and add streams. Returns the names that came or left, in lower case."""
        before, hidden = self._specs, self._hidden
        if hidden and await work(lambda: store.nbytes) > MOST_BYTES:
            hidden = frozenset()  # there is still no room for them
        specs = await work(lambda: now.specs_of(self._tenant))
        differ = await work(lambda: _differences(before, specs, hidden))
        if not differ.names and not differ.gone:
            return set()
        self._specs = specs
        self._hidden = (self._hidden & specs.keys()) - differ.names.keys()
        await self._delete(store, lambda: {oid for number in differ.gone for oid in oids_of_stream(number)}, work)
        unread = set(differ.names)
        async for streams in read_streams(calls, differ.names):
            if await work(lambda: store.nbytes) > MOST_BYTES:
                self._hidden |= unread
                break
            await self._add(store, partial(content_of, streams, (), ()), work)
            unread -= {number_of(stream.stream_id) for stream in streams}
        return differ.renamed

    async def _add_views(self, store: Store, ids: list[int], calls: Calls, work: Work) -> None:
        """Read queries, and add their rows, as long as there is room for them."""
        if not ids:
            return
        shadows, left = await work(lambda: _lower(self._specs)), len(ids)
        async for queries in read_queries(calls, ids):
            if await work(lambda: store.nbytes) > MOST_BYTES:
                self._views.hidden += left
                return
            shown = [query for query in queries if query.key]
            await self._add(store, partial(content_of, (), shown, shadows), work)
            numbers = [number_of(query.query_id) for query in queries]
            self._views.show(numbers)
            left -= len(numbers)

    async def _delete(self, store: Store, oids: Callable[[], Collection[int]], work: Work) -> None:
        await work(lambda: store.change(oids(), Content()))
        await self._charge(store, work)

    async def _add(self, store: Store, content: Callable[[], Content], work: Work) -> None:
        await work(lambda: store.change((), content()))
        await self._charge(store, work)

    async def _charge(self, store: Store, work: Work) -> None:
        """Charge the bytes of streams and queries to their tenant. Raises ResourceExhausted."""
        size = await work(lambda: store.nbytes)
        more = max(size - store.system_bytes, 0) - self._budget.joined
        if more > 0:
            self._budget.hold_joined(more, _SUBJECT)
        elif more < 0:
            self._budget.give_back_joined(-more)


class _Differences(NamedTuple):
    """The streams to read, by number, and those to delete. `renamed`: names that came or left, in lower case."""

    names: dict[int, str]
    gone: set[int]
    renamed: set[str]


def _differences(
    before: Mapping[int, StreamSpec], now: Mapping[int, StreamSpec], hidden: Collection[int]
) -> _Differences:
    """The differences of the streams. `hidden`: further ones to read. O(streams)."""
    changed = {number for number, spec in now.items() if before.get(number) is not spec}
    gone = {number for number in before if number not in now} | (changed & before.keys())
    names = {number: now[number].name for number in changed.union(hidden) if number in now}
    return _Differences(names, gone, _lower(before) ^ _lower(now) if changed or gone else set())


def _with_others(
    gone: set[int], come: list[int], ids: Collection[int], oids: Collection[int]
) -> tuple[set[int], list[int]]:
    """`gone` and `come`, each with the shown queries of `ids` whose OIDs are among `oids`. O(queries)."""
    again = {query_id for query_id in ids if oid_of_query(query_id) in oids}
    return gone | again, sorted({*come, *again})


def _lower(specs: Mapping[int, StreamSpec]) -> set[str]:
    return {spec.name.lower() for spec in specs.values()}
