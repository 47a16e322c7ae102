"""Webhooks of events (SEP-3415): an assistant names a URL, and the service sends each event there.

    events/subscribe      AddWebhook ─> challenge to the URL ─> the webhook of the subscription, until `refreshBefore`
    the same again        renews the subscription, with the new secret
    events/unsubscribe    RemoveWebhook

The webhook is one of `psoup_service.webhooks`: it is in the log, and its deliveries are signed and repeated.
"""

from __future__ import annotations

from typing import Any

import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from psoup.errors import FailedPrecondition
from psoup_proto.v1 import webhooks_pb2
from psoup_service.assistants.calls import McpCalls
from psoup_service.assistants.cursors import Cursor, read_cursor
from psoup_service.assistants.errors import CALLBACK_ENDPOINT, INVALID_PARAMS, NOT_FOUND, UNSUPPORTED, wrong_arguments
from psoup_service.assistants.events import EventArguments, Subscription, arguments_of, check_version, looked_at
from psoup_service.assistants.request_calls import calls_of
from psoup_service.assistants.subscriptions import Subscriptions, registered
from psoup_service.webhooks.subscriptions import MOST_TTL_MS, check_credential, subscription_id
from psoup_service.wire.json_messages import timestamp_text

_MODE = "webhook"
_DEFAULT_TTL_MS = 3_600_000


class Delivery(BaseModel):
    """The URL of deliveries, and the secret that signs them. A request that ends a subscription has no secret."""

    model_config = ConfigDict(extra="ignore")

    mode: str = _MODE
    url: str
    secret: str = ""


class Unsubscribing(Subscription):
    """The parameters of events/unsubscribe."""

    delivery: dict[str, Any] = Field(default_factory=dict)

    def place(self) -> Delivery:
        """The URL and the secret of deliveries. Raises InvalidInput."""
        try:
            return Delivery.model_validate(self.delivery)
        except ValidationError as problem:
            raise wrong_arguments(problem, list(Delivery.model_fields), "delivery") from None


class Subscribing(Unsubscribing):
    """The parameters of events/subscribe. `ttl_ms`: milliseconds to its end; None for the longest life."""

    ttl_ms: int | None = Field(default=_DEFAULT_TTL_MS, alias="ttlMs")


class EventWebhooks:
    """The methods for webhooks."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions

    def add_to(self, server: Server[Any]) -> None:
        """Let a server offer the methods."""
        server.add_request_handler("events/subscribe", Subscribing, self._subscribe)
        server.add_request_handler("events/unsubscribe", Unsubscribing, self._unsubscribe)

    async def _subscribe(self, context: ServerRequestContext[Any, Any], given: Subscribing) -> dict[str, Any]:
        calls, arguments = _checked(context, given)
        place = given.place()
        if place.mode != _MODE:
            facts = {"feature": "deliveryMode", "value": place.mode[:64]}
            raise MCPError(UNSUPPORTED, "events/subscribe delivers by webhook only", facts)
        if not place.secret:
            raise MCPError(INVALID_PARAMS, "delivery.secret is missing: write whsec_ and 24 to 64 bytes in base64")
        with self._subscriptions.using(calls, arguments.sql):
            return await self._subscribed(calls, arguments, given)

    async def _subscribed(self, calls: McpCalls, arguments: EventArguments, given: Subscribing) -> dict[str, Any]:
        standing = await _standing(calls, arguments, given.place().url)
        begins, truncated = Cursor(0, b""), False
        if standing is None:
            looked = await looked_at(calls, arguments, given)
            begins, truncated = looked.cursor, looked.truncated
            if given.cursor is not None and not truncated:
                begins = read_cursor(given.cursor)
        elif arguments.sql is not None:
            await registered(calls, arguments.sql)
        reply = await _added(calls, arguments, given, begins.token)
        time = begins.time
        if standing is not None:
            time = (reply.webhook.deliver_time if standing.delivered else reply.webhook.add_time).ToMicroseconds()
        return {
            "id": reply.webhook.subscription_id,
            "refreshBefore": timestamp_text(reply.webhook.expire_time),
            "cursor": Cursor(time, reply.token).text(),
            "truncated": truncated,
        }

    async def _unsubscribe(self, context: ServerRequestContext[Any, Any], given: Unsubscribing) -> dict[str, Any]:
        calls, arguments = _checked(context, given)
        standing = await _standing(calls, arguments, given.place().url)
        if standing is None:
            raise MCPError(
                NOT_FOUND, "there is no such subscription; it has ended, or it never began", {"kind": "subscription"}
            )
        request = webhooks_pb2.RemoveWebhookRequest(webhook_id=standing.webhook_id)
        with self._subscriptions.using(calls, arguments.sql):
            await calls.one("WebhookService/RemoveWebhook", request)
        return {}


def _checked(context: ServerRequestContext[Any, Any], given: Subscription) -> tuple[McpCalls, EventArguments]:
    """The calls and the arguments of a request. Raises PermissionDenied for a caller without a credential."""
    check_version(context)
    calls = calls_of(context)
    check_credential(calls.principal)
    return calls, arguments_of(given)


def _identity(arguments: EventArguments) -> str:
    """The arguments as JSON with sorted names, so that equal arguments have equal texts."""
    return orjson.dumps(arguments.model_dump(exclude_none=True), option=orjson.OPT_SORT_KEYS).decode()


async def _standing(calls: McpCalls, arguments: EventArguments, url: str) -> webhooks_pb2.Webhook | None:
    """The webhook of a subscription; None without one."""
    request = webhooks_pb2.ListWebhooksRequest(key=arguments.query_key)
    named = subscription_id(calls.principal, url, _identity(arguments))
    listed = (await calls.one("WebhookService/ListWebhooks", request)).webhooks
    return next((webhook for webhook in listed if webhook.subscription_id == named), None)


async def _added(
    calls: McpCalls, arguments: EventArguments, given: Subscribing, token: bytes
) -> webhooks_pb2.AddWebhookResponse:
    """The webhook of a subscription, added or renewed. Raises MCPError if its receiver does not want deliveries."""
    ttl_ms = MOST_TTL_MS if given.ttl_ms is None else max(min(given.ttl_ms, MOST_TTL_MS), 0)
    request = webhooks_pb2.AddWebhookRequest(
        key=arguments.query_key,
        url=given.place().url,
        secret=given.place().secret,
        subscription=webhooks_pb2.EventSubscription(arguments=_identity(arguments), token=token, ttl_ms=ttl_ms),
    )
    try:
        reply: webhooks_pb2.AddWebhookResponse = await calls.one("WebhookService/AddWebhook", request)
    except FailedPrecondition as problem:
        if "category" not in problem.facts:
            raise
        raise MCPError(CALLBACK_ENDPOINT, problem.message, {"reason": problem.facts["category"]}) from None
    return reply
