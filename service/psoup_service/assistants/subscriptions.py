"""Queries that the service registers for subscriptions to a SELECT.

    sql ─> key, a digest of the text ─> Register, expires after 7 days without use
    push    the last stream with the key ends ── GRACE_S ─> Unregister, unless it is in use again
    poll    each poll is a use; after a week without one the query expires
    webhook the last one with the key is removed ── GRACE_S ─> Unregister, likewise

A client that loses its connection comes back within `GRACE_S`, and goes on from its cursor.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from psoup.errors import NotFound, PSoupError
from psoup_proto.v1 import queries_pb2, webhooks_pb2
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.tools.registration import visible

PREFIX = "mcp-event-"
"""The beginning of the keys of such queries."""

LIFE = "7 DAYS"
"""The time without use after which such a query is unregistered."""

GRACE_S = 60.0
"""The time after the end of the last stream in which a client may come back."""

_MOST_POLLED = 10_000
_log = logging.getLogger(__name__)
_Place = tuple[str, str]


def key_of(sql: str) -> str:
    """The key of the query for a SELECT. Equal texts of a tenant share one query."""
    return f"{PREFIX}{hashlib.blake2b(sql.strip().encode(), digest_size=12).hexdigest()}"


async def registered(calls: McpCalls, sql: str) -> str:
    """Register the query for a SELECT, unless it stands. Returns its key. Raises a PSoupError."""
    key = key_of(sql)
    request = queries_pb2.RegisterRequest(statement=sql.strip(), key=key, expires_after=LIFE)
    await visible(calls, (await calls.one("QueryService/Register", request)).sequence)
    return key


class Subscriptions:
    """The uses of such queries, by tenant and key."""

    def __init__(self, grace_s: float = GRACE_S) -> None:
        self._grace_s = grace_s
        self._streams = dict[_Place, int]()
        self._polled = OrderedDict[_Place, None]()
        self._ending = dict[_Place, asyncio.Task[None]]()

    def polled(self, calls: McpCalls, key: str) -> None:
        """Note a poll. The end of a stream does not unregister its query; it expires."""
        place = calls.principal.tenant, key
        self._polled[place] = None
        self._polled.move_to_end(place)
        if len(self._polled) > _MOST_POLLED:
            self._polled.popitem(last=False)

    @contextmanager
    def streaming(self, calls: McpCalls, key: str) -> Iterator[None]:
        """A context in which a stream uses a query."""
        place = calls.principal.tenant, key
        if (ending := self._ending.pop(place, None)) is not None:
            ending.cancel()
        self._streams[place] = self._streams.get(place, 0) + 1
        try:
            yield
        finally:
            self._streams[place] -= 1
            if not self._streams[place]:
                del self._streams[place]
                if place not in self._polled:
                    self._ending[place] = asyncio.create_task(self._end(calls, place))

    def ended(self, calls: McpCalls, key: str) -> None:
        """Note the end of a subscription by webhook."""
        place = calls.principal.tenant, key
        if place not in self._streams and place not in self._polled and place not in self._ending:
            self._ending[place] = asyncio.create_task(self._end(calls, place))

    def close(self) -> None:
        """Unregister nothing any more: the queries expire."""
        for task in self._ending.values():
            task.cancel()

    async def _end(self, calls: McpCalls, place: _Place) -> None:
        """Unregister a query after the grace. Its ID is asked for first, so that no later query of the key goes."""
        await asyncio.sleep(self._grace_s)
        self._ending.pop(place, None)
        try:
            with suppress(NotFound):
                hooks = await calls.one("WebhookService/ListWebhooks", webhooks_pb2.ListWebhooksRequest(key=place[1]))
                if hooks.webhooks:
                    return
                reply = await calls.one("QueryService/GetQuery", queries_pb2.GetQueryRequest(key=place[1]))
                request = queries_pb2.UnregisterRequest(query_id=reply.query.query_id, allow_missing=True)
                await calls.one("QueryService/Unregister", request)
        except PSoupError as problem:  # it expires
            _log.info("a query of a subscription stays", extra={"key": place[1], "reason": problem.reason})
