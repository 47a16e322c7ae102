"""The catalogue of a connection: it is filled from the lists of the contract, and kept while these stay the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pyarrow as pa

from psoup_proto.v1 import queries_pb2, streams_pb2
from psoup_service.pg.calls import Calls
from psoup_service.pg.catalogue.content import content_of
from psoup_service.pg.catalogue.statement import CatalogueStatement, Prepared, prepared
from psoup_service.pg.catalogue.store import Store
from psoup_service.pg.catalogue.types import by_oid
from psoup_service.pg.contract import Statement

T = TypeVar("T")
_PAGE = 1_000
_SECONDS = 5.0
_WORKERS = ThreadPoolExecutor(2, thread_name_prefix="pg-catalogue")


class Catalogue:
    """Statements over `pg_catalog` and `information_schema`. `options`: the parameters of the start-up packet."""

    def __init__(self, calls: Calls, options: Mapping[str, str]) -> None:
        self._calls = calls
        user = options.get("user", "")
        self._values = {
            "user": user,
            "database": options.get("database") or user,
            "schema": "streams",
            "schemas": "streams,queries",
            "version": "PostgreSQL 15.0 (PSoup)",
        }

    def statement(self, text: str, types: Sequence[int] = ()) -> Statement:
        """The statement of a text for which `reads` is true. `types`: OIDs of its parameters, 0 for unknown ones."""
        known = by_oid()
        parameters = [known[oid].name if oid in known else "" for oid in types]

        async def prepare() -> tuple[Store, Prepared]:
            store = await self._store()
            return store, await _worked(prepared, text, store, self._values, parameters)

        async def execute(store: Store, rendered: str) -> pa.Table:
            return await _worked(store.run, rendered, self._variables(), _SECONDS)

        return CatalogueStatement(prepare, execute)

    def _variables(self) -> dict[str, str]:
        return {name: self._values[name] for name in ("user", "database", "version")}

    async def _store(self) -> Store:
        streams = await self._all("StreamService/ListStreams", streams_pb2.ListStreamsRequest(page_size=_PAGE))
        queries = await self._all("QueryService/ListQueries", queries_pb2.ListQueriesRequest(page_size=_PAGE))
        return await _worked(lambda: Store(content_of(streams, queries)))

    async def _all(self, name: str, request: Any) -> list[Any]:
        rows = list[Any]()
        while True:
            reply = await self._calls.one(name, request)
            rows += reply.streams if name.endswith("Streams") else reply.queries
            if not reply.next_page_token:
                return rows
            request.page_token = reply.next_page_token


async def _worked(work: Callable[..., T], *arguments: Any) -> T:
    return await asyncio.get_running_loop().run_in_executor(_WORKERS, work, *arguments)
