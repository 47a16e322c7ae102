"""The endpoint of assistants: each POST has one request of JSON-RPC, in the protocol's stateless mode.

    POST ─> credential ─ 401 ── size ─ 413 ── body, in time ─> few values ─> the SDK's server ─> JSON or events

No session outlives its request. Between two requests the service keeps only a bounded list of queries that it has
registered for subscriptions.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import orjson
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from psoup.errors import InvalidInput, PSoupError, ResourceExhausted
from psoup_service.assistants.calls import Assistant, Bounds, McpCalls, Surroundings
from psoup_service.assistants.copies import Forms
from psoup_service.assistants.errors import facts_of, rpc_code
from psoup_service.assistants.event_bodies import EventBody
from psoup_service.assistants.event_webhooks import EventWebhooks
from psoup_service.assistants.events import Events
from psoup_service.assistants.request_calls import put_calls
from psoup_service.assistants.server import made_server
from psoup_service.assistants.subscriptions import Subscriptions
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.decoders import Decoders
from psoup_service.wire.inner_calls import PACKAGE
from psoup_service.wire.request_bodies import SMALL_BYTES
from psoup_service.wire.status import code_of

PATH = "/mcp"
"""The path of the endpoint."""

MOST_BYTES = 256 * 1024
"""Bytes of a request at most. A statement has at most 64 KiB."""

MOST_VALUES = 1_000
"""Values of a request at most. The SDK and the tools visit each several times, on the event loop."""

_MOST_SIGNS = 16_384
"""Commas and brackets of a request at most, also within texts. They are counted before the request is parsed."""

_STATUSES = {"UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403, "RESOURCE_EXHAUSTED": 429, "UNAVAILABLE": 503}
_BY_REASON = {
    "METHOD": 405,
    "RECEIVE_DEADLINE": 408,
    "LENGTH_REQUIRED": 411,
    "MESSAGE_TOO_LARGE": 413,
    "CONTENT_TYPE": 415,
}
_RPC_BY_REASON = {"JSON": -32700, "JSON_RPC": -32600}
_JSON = "application/json"
logging.getLogger("mcp").setLevel(logging.CRITICAL)  # its lines have parts of requests; failed calls are logged anyway


class Endpoint:
    """Serves assistants, once started."""

    def __init__(self, answering: Answering, serving: Mapping[str, Any], bounds: Bounds) -> None:
        """`serving`: the servicer of each service of the contract. `bounds`: of a reply."""
        self._around = Surroundings(answering, serving, bounds, Decoders(), Forms())
        self._subscriptions = Subscriptions()
        server = made_server(Events(self._subscriptions))
        EventWebhooks(self._subscriptions).add_to(server)
        serving[f"{PACKAGE}WebhookService"].deliverer.serve_events(EventBody)
        self._manager = StreamableHTTPSessionManager(server, stateless=True, max_request_body_size=MOST_BYTES)
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to serve."""
        started = asyncio.Event()
        self._task = asyncio.create_task(self._run(started))
        await started.wait()

    def close(self) -> None:
        """End all requests, and the threads. Idempotent."""
        if self._task is not None:
            self._task.cancel()
        self._subscriptions.close()
        self._around.decoders.close()

    async def _run(self, started: asyncio.Event) -> None:
        async with self._manager.run():
            started.set()
            await asyncio.Event().wait()

    async def serve(self, client: Assistant, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        calls = McpCalls(self._around, client)
        calls.trace = Headers(scope=scope).get("traceparent", "")
        try:
            size = _checked(scope)
            await calls.sign_in()
            body = await self._body(calls, size, receive)
            check_message(body)
        except PSoupError as error:
            await _refused(error)(scope, receive, send)
            return
        put_calls(scope, calls)
        await self._manager.handle_request(scope, _Replayed(body, receive), send)

    async def _body(self, calls: McpCalls, size: int, receive: Receive) -> bytes:
        """The body of a request. Raises ResourceExhausted if it is late or has too many values."""
        limits, receiving = self._around.answering.limits, self._around.answering.receiving
        tenant, charged = calls.principal.tenant, size if size > SMALL_BYTES else 0
        if charged:
            await receiving.take(tenant, charged, limits.receive_s)
        try:
            async with asyncio.timeout(limits.receive_s):
                body = await _read(receive)
        except TimeoutError:
            raise ResourceExhausted(
                f"the body did not come within {limits.receive_s:g} s; send it at once", reason="RECEIVE_DEADLINE"
            ) from None
        finally:
            if charged:
                receiving.give_back(tenant, charged)
        if body.count(b",") + body.count(b"{") + body.count(b"[") > _MOST_SIGNS:
            raise ResourceExhausted(
                f"the request has more than {_MOST_SIGNS:,} commas and brackets; send fewer", reason="TOO_MANY_VALUES"
            )
        return body


def check_message(body: bytes) -> None:
    """Raise InvalidInput unless a body is a request of JSON-RPC, ResourceExhausted if it has too many values."""
    try:
        message = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise InvalidInput(
            f"the body is not JSON, at line {problem.lineno}, column {problem.colno}: {problem.msg}", reason="JSON"
        ) from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        raise InvalidInput(
            'the body is not one request of JSON-RPC; write {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}',
            reason="JSON_RPC",
        )
    if _has_many(message):
        raise ResourceExhausted(
            f"the request has more than {MOST_VALUES:,} values; send fewer", reason="TOO_MANY_VALUES"
        )


def _has_many(message: dict[str, Any]) -> bool:
    """Whether a message has more than `MOST_VALUES` values. O(MOST_VALUES)."""
    waiting, count = list[Any]([message]), 0
    while waiting and count <= MOST_VALUES:
        value = waiting.pop()
        if isinstance(value, dict | list):
            count += len(value)
            if count <= MOST_VALUES:
                waiting += value.values() if isinstance(value, dict) else value
    return count > MOST_VALUES


class _Replayed:
    """The receiving side of a request, which returns the body that was read before."""

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        if self._body is None:
            return await self._receive()
        body, self._body = self._body, None
        return {"type": "http.request", "body": body, "more_body": False}


async def _read(receive: Receive) -> bytes:
    parts, more = list[bytes](), True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise asyncio.CancelledError
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(parts)


def _checked(scope: Scope) -> int:
    """The length of a request's body. Raises InvalidInput and ResourceExhausted."""
    headers = Headers(scope=scope)
    if scope["method"] != "POST":
        raise InvalidInput(
            f"the method is {scope['method'][:10]!r}; send requests of assistants by POST", reason="METHOD"
        )
    if headers.get("content-type", "").lower().partition(";")[0].strip() != _JSON:
        raise InvalidInput(
            f"the request has no content-type {_JSON}; send its body as {_JSON}, with this content-type",
            reason="CONTENT_TYPE",
        )
    lengths = headers.getlist("content-length")
    text = lengths[0] if len(lengths) == 1 and "transfer-encoding" not in headers else ""
    if not text.isascii() or not text.isdecimal() or len(text) > 19:
        raise InvalidInput(
            "the request has no valid content-length; send its bytes at once, with their number",
            reason="LENGTH_REQUIRED",
        )
    if int(text) > MOST_BYTES:
        raise ResourceExhausted(
            f"the request has {int(text):,} bytes; the limit is {MOST_BYTES:,}", reason="MESSAGE_TOO_LARGE"
        )
    return int(text)


def _refused(error: PSoupError) -> Response:
    """The response to a request that is refused before the SDK gets it, as an error of JSON-RPC."""
    facts = facts_of(error)
    code = _RPC_BY_REASON.get(error.reason) or rpc_code(error)
    fault = {"code": code, "message": facts["message"], "data": facts}
    body = {"jsonrpc": "2.0", "id": None, "error": fault}
    status = _BY_REASON.get(error.reason) or _STATUSES.get(code_of(error).name, 400)
    headers = {"cache-control": "no-store", "connection": "close"}
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status == 405:
        headers["allow"] = "POST"
    return Response(orjson.dumps(body), status, headers, media_type=_JSON)
