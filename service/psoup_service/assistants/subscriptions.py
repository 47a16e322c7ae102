"""Queries that the service registers for the subscriptions of assistants to a SELECT.

    sql ─> key, a digest of the text ─> Register, expires after 7 days without use
    push    the last stream with the key ends ── GRACE_S ─> Unregister, unless it is in use again
    poll    each poll is a use; after a week without one the query expires
    webhook as push; a webhook with the key keeps the query after the request that added it

A client that loses its connection can come back within `GRACE_S`, and go on from its cursor.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import Context

from psoup.errors import NotFound, PSoupError
from psoup_proto.v1 import queries_pb2, webhooks_pb2
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.tools.registration import visible

PREFIX = "mcp-event-"
"""The beginning of the keys of such queries."""

LIFE = "7 DAYS"
"""The time without use after which such a query is unregistered."""

GRACE_S = 60.0
"""Seconds after the end of the last use in which a client may come back."""

_MOST_PLACES = 10_000
"""The most queries that are noted as polled, and the most that wait for their end. Further ones expire."""
_log = logging.getLogger(__name__)
_Place = tuple[str, str]


def key_of(sql: str) -> str:
    """The key of the query for a SELECT. Subscriptions of a tenant with the same text share one query."""
    return f"{PREFIX}{hashlib.blake2b(sql.strip().encode(), digest_size=12).hexdigest()}"


async def registered(calls: McpCalls, sql: str) -> str:
    """Register the query for a SELECT, unless it exists. Returns its key. Raises a PSoupError."""
    key = key_of(sql)
    request = queries_pb2.RegisterRequest(statement=sql.strip(), key=key, expires_after=LIFE)
    await visible(calls, (await calls.one("QueryService/Register", request)).sequence)
    return key


class Subscriptions:
    """The uses of such queries, by tenant and key. For the event loop."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._uses = dict[_Place, int]()
        self._polled = OrderedDict[_Place, None]()
        self._ending = dict[_Place, asyncio.Task[None]]()

    def polled(self, calls: McpCalls, sql: str) -> None:
        """Note a poll of a SELECT. From then on the end of other uses does not unregister the query; it expires."""
        place = calls.principal.tenant, key_of(sql)
        self._keep(place)
        self._polled[place] = None
        self._polled.move_to_end(place)
        if len(self._polled) > _MOST_PLACES:
            self._polled.popitem(last=False)

    @contextmanager
    def using(self, calls: McpCalls, sql: str | None) -> Iterator[None]:
        """A context in which a stream or a request uses the query for a SELECT. Enter it before the registration.

        `sql`: None for a query that a client has registered. Then nothing is noted.
        """
        if sql is None:
            yield
            return
        place = calls.principal.tenant, key_of(sql)
        self._keep(place)
        self._uses[place] = self._uses.get(place, 0) + 1
        try:
            yield
        finally:
            self._uses[place] -= 1
            if not self._uses[place]:
                del self._uses[place]
                if place not in self._polled and len(self._ending) < _MOST_PLACES:
                    self._end_later(calls, place)

    def close(self) -> None:
        """Unregister nothing any more: the queries expire."""
        for task in self._ending.values():
            task.cancel()

    def _keep(self, place: _Place) -> None:
        """Stop the end of a query, which is in use again."""
        if (ending := self._ending.pop(place, None)) is not None:
            ending.cancel()

    def _end_later(self, calls: McpCalls, place: _Place) -> None:
        # In a context of its own: in the request's, the task would extend the trace of the call.
        self._ending[place] = asyncio.create_task(self._end(calls, place), context=Context())

    async def _end(self, calls: McpCalls, place: _Place) -> None:
        """Unregister a query after the grace time, unless it is in use.

        The query is named by its ID, so that a later query of the key stays. A use cancels the task at any moment.
        """
        try:
            await asyncio.sleep(self._grace_s)
            if place not in self._uses and place not in self._polled:
                await self._unregister(calls, place[1])
        finally:
            if self._ending.get(place) is asyncio.current_task():
                del self._ending[place]

    async def _unregister(self, calls: McpCalls, key: str) -> None:
        try:
            with suppress(NotFound):
                hooks = await calls.one("WebhookService/ListWebhooks", webhooks_pb2.ListWebhooksRequest(key=key))
                if hooks.webhooks:
                    return
                reply = await calls.one("QueryService/GetQuery", queries_pb2.GetQueryRequest(key=key))
                request = queries_pb2.UnregisterRequest(query_id=reply.query.query_id, allow_missing=True)
                await calls.one("QueryService/Unregister", request)
        except PSoupError as problem:
            _log.info(
                "the query of a subscription could not be unregistered; it expires",
                extra={"key": key, "reason": problem.reason},
            )
