"""The bridge between an assistant on standard input and output and the endpoint of a service.

    a line of JSON-RPC on stdin ── request ─> POST /mcp ─> one reply, or events ─> lines on stdout
                                └─ notifications/cancelled ─> the POST ends

The service has the tools; the bridge knows none. Each request is one POST, because the endpoint keeps no sessions.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx2
from mcp import types
from mcp.server.stdio import stdio_server
from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
)
from mcp.shared.message import SessionMessage

Reply = types.JSONRPCMessage
Headers = Callable[[], Mapping[str, str]]

_CONNECT_S = 10.0
_LAST_S = 5.0
"""Seconds for the last replies after the end of standard input."""
_MOST_IN_FLIGHT = 64
_JSON = "application/json"
_EVENTS = "text/event-stream"
_MOST_EVENT = 4 << 20
"""The most bytes of an event. The service's replies are far smaller."""


async def carry(url: str, headers: Headers, verify: ssl.SSLContext | bool) -> None:
    """Carry messages between standard input and output and the endpoint at `url`, until standard input ends.

    `headers`: returns the headers of the next request, with its credential.
    """
    logging.getLogger("mcp").setLevel(logging.CRITICAL)
    timeout = httpx2.Timeout(None, connect=_CONNECT_S)
    async with (
        httpx2.AsyncClient(verify=verify, timeout=timeout, trust_env=False) as web,
        stdio_server() as (incoming, outgoing),
        outgoing,
    ):

        async def write(message: Reply) -> None:
            await outgoing.send(SessionMessage(message))

        requests = Requests(Endpoint(web, url, headers), write)
        async for item in incoming:
            await requests.take(item)
        await requests.end()


class Requests:
    """The requests of an assistant that have no reply yet."""

    def __init__(self, endpoint: Endpoint, write: Callable[[Reply], Any]) -> None:
        self._endpoint = endpoint
        self._write = write
        self._tasks = dict[types.RequestId, asyncio.Task[None]]()

    async def take(self, item: SessionMessage | Exception) -> None:
        """Take a message of the assistant. Returns before the reply, so that a cancellation is read at once."""
        if isinstance(item, Exception):
            await self._write(_failed(None, types.PARSE_ERROR, "a line is not a message of JSON-RPC"))
            return
        message = item.message
        if isinstance(message, types.JSONRPCRequest):
            refusal = self._refusal(message.id)
            if refusal is None:
                self._tasks[message.id] = asyncio.create_task(self._carry(message))
            else:
                await self._write(refusal)
        elif isinstance(message, types.JSONRPCNotification) and message.method == "notifications/cancelled":
            task = self._tasks.get((message.params or {}).get("requestId", ""))
            if task is not None:
                task.cancel()

    def _refusal(self, request_id: types.RequestId) -> Reply | None:
        """The error for a request that cannot begin; None if it can."""
        if request_id in self._tasks:
            why = f"the ID {request_id!r} belongs to a request without a reply; use another"
            return _failed(request_id, types.INVALID_REQUEST, why)
        if len(self._tasks) >= _MOST_IN_FLIGHT:
            why = f"{_MOST_IN_FLIGHT} requests have no reply yet; ask again after one of them has"
            return _failed(request_id, types.INTERNAL_ERROR, why)
        return None

    async def end(self) -> None:
        """Wait `_LAST_S` for the last replies. Then cancel the requests that have none."""
        tasks = list(self._tasks.values())
        if tasks:
            await asyncio.wait(tasks, timeout=_LAST_S)
        for task in tasks:
            task.cancel()

    async def _carry(self, request: types.JSONRPCRequest) -> None:
        try:
            async for reply in self._endpoint.replies(request):
                await self._write(reply)
        except (httpx2.HTTPError, httpx2.SSEError, httpx2.StreamError, ValueError) as problem:
            why = f"the service does not answer: {problem or type(problem).__name__}"
            await self._write(_failed(request.id, types.CONNECTION_CLOSED, why))
        except Exception as problem:  # an assistant waits for ever for a reply that does not come
            why = f"psoup mcp could not carry the request: {problem!r}"
            await self._write(_failed(request.id, types.INTERNAL_ERROR, why))
        finally:
            del self._tasks[request.id]


class Endpoint:
    """The endpoint of a service."""

    def __init__(self, web: httpx2.AsyncClient, url: str, headers: Headers) -> None:
        self._web = web
        self._url = url
        self._headers = headers
        self._version = ""
        """The version of the protocol, from the reply to `initialize`."""

    async def replies(self, request: types.JSONRPCRequest) -> AsyncIterator[Reply]:
        """The replies to a request: one, or notifications and one. Raises HTTPError if the service does not answer."""
        body = request.model_dump_json(by_alias=True, exclude_unset=True)
        headers = {**self._headers(), **self._described(request)}
        answered = False
        async with self._web.stream("POST", self._url, content=body, headers=headers) as response:
            if response.headers.get("content-type", "").startswith(_EVENTS):
                async for event in httpx2.EventSource(response, max_event_size=_MOST_EVENT):
                    if event.data:
                        message = types.jsonrpc_message_adapter.validate_json(event.data, by_name=False)
                        answered = answered or isinstance(message, types.JSONRPCResponse | types.JSONRPCError)
                        self._note(request, message)
                        yield message
            else:
                answered = True
                message = _read(request, response.status_code, await response.aread())
                self._note(request, message)
                yield message
        if not answered:
            yield _failed(request.id, types.CONNECTION_CLOSED, "the service ended the reply early; ask again")

    def _note(self, request: types.JSONRPCRequest, message: Reply) -> None:
        if request.method == "initialize" and isinstance(message, types.JSONRPCResponse):
            self._version = str(message.result.get("protocolVersion", ""))

    def _described(self, request: types.JSONRPCRequest) -> dict[str, str]:
        """The headers that describe a request to the endpoint."""
        params = request.params or {}
        meta = params.get("_meta")
        version = meta.get(types.PROTOCOL_VERSION_META_KEY) if isinstance(meta, dict) else None
        headers = {"content-type": _JSON, "accept": f"{_JSON}, {_EVENTS}", MCP_METHOD_HEADER: request.method}
        if version or (self._version and request.method != "initialize"):
            headers[MCP_PROTOCOL_VERSION_HEADER] = str(version or self._version)
        name = params.get(NAME_BEARING_METHODS.get(request.method, ""))
        if isinstance(name, str):
            headers[MCP_NAME_HEADER] = encode_header_value(name)
        return headers


def _read(request: types.JSONRPCRequest, status: int, body: bytes) -> Reply:
    """The reply in a body. An error about the request as a whole has no ID of its own."""
    try:
        message = types.jsonrpc_message_adapter.validate_json(body, by_name=False)
    except ValueError:
        return _failed(request.id, types.INTERNAL_ERROR, f"the service answered with HTTP status {status}")
    if isinstance(message, types.JSONRPCError) and message.id is None:
        return types.JSONRPCError(jsonrpc="2.0", id=request.id, error=message.error)
    return message


def _failed(request_id: types.RequestId | None, code: int, why: str) -> types.JSONRPCError:
    return types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=why))
