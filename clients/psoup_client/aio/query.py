"""A standing query, and a sequence of them, for tasks."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from psoup_client.aio.answers import AsyncAnswerStream
from psoup_client.aio.connection import AsyncConnection
from psoup_client.aio.shell import Shell, awaited, opening_each
from psoup_client.queries import AnyQueries, Queries
from psoup_client.query import AnyQuery, Query


class AsyncQuery(Shell, AnyQuery):
    """A registered query of an `AsyncClient`. It has the names of `Query`; methods that make calls are awaited.

    Keep `id`: with it any client comes back to the query, `await client.query(id)`. Two are equal if their IDs are. A
    query of `register_many` knows only its ID: `await query.load()` before you read its other facts.
    """

    __slots__ = ()

    @classmethod
    def of(cls, query: Query, connection: Any = None) -> AsyncQuery:
        """Convert a query of the core."""
        made = cls(query._client, query._info or query._id, key=query._key)
        made._id = query._id
        return made

    def _held(self) -> Any:
        return self

    def _over(self) -> AsyncConnection:
        connection = self._client.connection
        assert isinstance(connection, AsyncConnection)
        return connection

    async def load(self) -> AsyncQuery:
        """Ask the service for the facts of the query, if they are not known yet. Returns the same object."""
        await self._run(getattr, self, "info")
        return self

    invoke = awaited(Query.invoke)
    stream = opening_each(Query.stream, AsyncAnswerStream, pa.RecordBatch)
    explain = awaited(Query.explain)
    alter = awaited(Query.alter)
    unregister = awaited(Query.unregister)


class AsyncQueries(AnyQueries[AsyncQuery]):
    """A sequence of queries of an `AsyncClient`, in the order of their registration. It never changes."""

    __slots__ = ()

    @classmethod
    def of(cls, queries: Queries, connection: Any = None) -> AsyncQueries:
        """Convert a sequence of the core."""
        return cls(queries._client, queries._spans)

    def _query(self, query_id: str) -> AsyncQuery:
        return AsyncQuery(self._client, query_id)
