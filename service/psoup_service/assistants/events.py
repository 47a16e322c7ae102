"""MCP Events (SEP-3415): an assistant is notified when an answer changes.

    events/list      the event type `answer_changed`, by key or by SQL
    events/poll      cursor ─> Sync ─> at most one event, and the next cursor
    events/stream    Sync, then Watch ─> notifications, until the client leaves
    webhooks         see `event_webhooks`

A cursor has a token of Sync. `truncated` follows from a reset of Sync: changes were missed, and a new position begins.
"""

from __future__ import annotations

from typing import Any

from mcp import types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp.types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field, ValidationError, model_validator

from psoup.errors import NotFound
from psoup_service.assistants.answer_changes import NAME, AnswerChanged, Changes, changes_since, first_position
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.cursors import read_cursor
from psoup_service.assistants.errors import NOT_FOUND, wrong_arguments
from psoup_service.assistants.event_streams import EventStream
from psoup_service.assistants.request_calls import calls_of
from psoup_service.assistants.subscriptions import Subscriptions, key_of, registered
from psoup_service.assistants.tool import Arguments, plain_schema

EXTENSION = "io.modelcontextprotocol/events"
"""The identifier of the extension."""

_POLL_MS = 5_000
_NEEDED = ("SyncService/Sync", "SyncService/Watch")
_NEEDED_BY_WEBHOOKS = ("WebhookService/AddWebhook", "WebhookService/ListWebhooks", "WebhookService/RemoveWebhook")
_TEXT = (
    "The answer of a query has changed: rows came, or rows left. Give the key of a registered query, or a SELECT, which"
    " is registered for the subscription."
)


class EventArguments(Arguments):
    """Arguments of a subscription."""

    key: str | None = Field(default=None, min_length=1, description="The key of a registered query")
    sql: str | None = Field(default=None, min_length=1, description="A SELECT; it needs the role registrar")

    @model_validator(mode="after")
    def _one(self) -> EventArguments:
        if (self.key is None) == (self.sql is None):
            raise ValueError("give key or sql, and only one of them")
        return self

    @property
    def query_key(self) -> str:
        """The key of the query, which the service makes for a SELECT."""
        return self.key or key_of(self.sql or "")


class Subscription(types.RequestParams):
    """The parameters of events/stream."""

    model_config = ConfigDict(populate_by_name=False, extra="ignore")

    name: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    cursor: str | None = None
    max_age_ms: int | None = Field(default=None, alias="maxAgeMs", ge=0)


class Poll(Subscription):
    """The parameters of events/poll. `max_events`: has no effect, as a poll returns at most one event."""

    max_events: int | None = Field(default=None, alias="maxEvents", ge=1)


class Events:
    """The methods of the extension."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions

    def add_to(self, server: Server[Any]) -> None:
        """Let a server offer the extension."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("events/list", types.PaginatedRequestParams, self._list)
        server.add_request_handler("events/poll", Poll, self._poll)
        server.add_request_handler("events/stream", Subscription, self._stream)

    async def _list(self, context: ServerRequestContext[Any, Any], _: types.PaginatedRequestParams) -> dict[str, Any]:
        check_version(context)
        calls = calls_of(context)
        if not calls.may(_NEEDED):
            return {"events": []}
        hooked = calls.principal.credential is not None and calls.may(_NEEDED_BY_WEBHOOKS)
        return {"events": [{**_DESCRIPTION, "delivery": ["push", "poll", *["webhook"] * hooked]}]}

    async def _poll(self, context: ServerRequestContext[Any, Any], given: Poll) -> dict[str, Any]:
        check_version(context)
        calls, arguments = calls_of(context), arguments_of(given)
        if arguments.sql is not None:
            self._subscriptions.polled(calls, arguments.sql)
        looked = await looked_at(calls, arguments, given)
        return {
            "events": [] if looked.event is None else [looked.event],
            "cursor": looked.cursor.text(),
            "truncated": looked.truncated,
            "hasMore": looked.more,
            "nextPollMs": _POLL_MS,
        }

    async def _stream(self, context: ServerRequestContext[Any, Any], given: Subscription) -> dict[str, Any]:
        check_version(context)
        calls, arguments = calls_of(context), arguments_of(given)
        stream = EventStream(context.session, context.request_id, calls, arguments.query_key)
        with self._subscriptions.using(calls, arguments.sql):
            return await stream.run(await looked_at(calls, arguments, given))


async def looked_at(calls: McpCalls, arguments: EventArguments, given: Subscription) -> Changes:
    """The changes since a cursor. Without a cursor, the present position. Raises a PSoupError."""
    cursor = None if given.cursor is None else read_cursor(given.cursor)
    key = arguments.query_key
    if arguments.sql is not None and cursor is None:
        await registered(calls, arguments.sql)
    if cursor is None:
        return Changes(None, await first_position(calls, key), truncated=False, more=False)
    try:
        looked = await changes_since(calls, key, cursor)
    except NotFound:
        if arguments.sql is None:
            raise
        await registered(calls, arguments.sql)  # it expired, or was unregistered
        return Changes(None, await first_position(calls, key), truncated=True, more=False)
    age = looked.cursor.time - cursor.time
    if given.max_age_ms is not None and age > given.max_age_ms * 1_000 and (looked.event or looked.more):
        return Changes(None, looked.cursor, truncated=True, more=looked.more)
    return looked


def arguments_of(given: Subscription) -> EventArguments:
    """The arguments of a subscription. Raises MCPError for another event, InvalidInput for wrong arguments."""
    if given.name != NAME:
        raise MCPError(NOT_FOUND, f"there is no event {given.name[:64]!r}; there is {NAME}", {"kind": "event"})
    try:
        return EventArguments.model_validate(given.arguments)
    except ValidationError as problem:
        raise wrong_arguments(problem, list(EventArguments.model_fields)) from None


def check_version(context: ServerRequestContext[Any, Any]) -> None:
    """Raise MCPError for a client of a revision that has no events."""
    if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        raise MCPError(types.METHOD_NOT_FOUND, "Method not found", context.method)


_DESCRIPTION = {
    "name": NAME,
    "description": _TEXT,
    "inputSchema": {
        **plain_schema(EventArguments),
        "oneOf": [{"required": ["key"]}, {"required": ["sql"]}],
    },
    "payloadSchema": plain_schema(AnswerChanged),
}
"""The event type as events/list has it, without its modes of delivery."""
