"""Calls over HTTP: one POST is one call, with one reply as JSON, or with messages as a `text/event-stream`.

    guard ─> method ─> `Answering` (gate, limits, deadline, errors: as over gRPC) ─> JSON
                                                                └─ data: {…}     a message
                                                                   event: error  the error that ends them

When a page leaves, its call ends: its connection cancels the task, and the task counts the call out. The generator of
messages cannot do that, because a generator that never began never runs its cleanup.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from typing import Any, ClassVar

import orjson
from google.protobuf.message import Message
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from psoup.errors import Internal, NotFound, PSoupError, ResourceExhausted
from psoup_service.gate.audit import object_of
from psoup_service.gate.listeners import is_loopback
from psoup_service.gate.principal import STRANGER
from psoup_service.servicers.server import server_version
from psoup_service.web import refusals
from psoup_service.web.bodies import LONG_BYTES, is_long, jsoned, length, parsed
from psoup_service.web.connections import PageConnection, connection_of
from psoup_service.web.foreign_pages import FOREIGN
from psoup_service.web.guard import CALLS
from psoup_service.web.methods import WebMethod
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.calls import Ended
from psoup_service.wire.decoders import Decoders
from psoup_service.wire.request_bodies import SMALL_BYTES
from psoup_service.wire.written import Written

DESCRIPTION_BYTES = 100_000
"""The bytes of the description of the calls, as measured."""
NO_STORE = {"cache-control": "no-store"}
"""The headers of replies, which no cache keeps."""
_LAST_WORD_S = 1.0
"""Seconds in which a page must take the error that ends its stream. Then the connection is cut."""
_UNREAD = frozenset({"HEAD_TOO_LARGE", "LENGTH_REQUIRED", "MESSAGE_TOO_LARGE", "RECEIVE_DEADLINE"})
"""Reasons of refusals before the body is read. The connection ends after them."""
_LONGEST_PATH = 128
"""The most characters of an unknown call that are compared with the names of calls."""
_log = logging.getLogger(__name__)


class WebCaller:
    """The caller's side of a call over HTTP: a carrier for `Answering`."""

    protocol: ClassVar[str] = "http"
    __slots__ = (
        "_calls",
        "_connection",
        "_headers",
        "_held",
        "_method",
        "_receive",
        "_scope",
        "_send",
        "principal",
        "request",
        "started",
    )

    def __init__(self, calls: WebCalls, method: WebMethod, scope: Scope, receive: Receive, send: Send) -> None:
        self._calls = calls
        self._method = method
        self._connection = connection_of(scope)
        self._headers = Headers(scope=scope)
        self._receive = receive
        self._scope = scope
        self._send = send
        self._held = 0
        self.principal = STRANGER
        self.request: Any = None
        self.started = False
        """Whether a message was sent."""

    def peer(self) -> str:
        """The connection: "http:127.0.0.1:40312"."""
        return self._connection.peer

    def local(self) -> bool:
        """Whether the connection comes from this machine."""
        return is_loopback(self._connection.address)

    def certificate_names(self) -> tuple[str, ...]:
        """The URIs, then the DNS names, of the client's certificate. None for a page on another host."""
        return () if self._scope[FOREIGN] else self._connection.names

    def certificate_ends(self) -> int:
        """The end of the client's certificate, in microseconds since 1970."""
        return self._connection.ends

    def authorization(self) -> str:
        """The value of the header `authorization`; "" if there is none, or more than one."""
        given = self._headers.getlist("authorization")
        return given[0] if len(given) == 1 else ""

    def traceparent(self) -> str:
        """The value of the header `traceparent`; "" if there is none."""
        return self._headers.get("traceparent", "")

    def about(self) -> str:
        """The subject of the request, for the audit log."""
        return "" if self.request is None else object_of(self.request)

    async def read(self) -> Message:
        """Read and parse the request. Raises ResourceExhausted if it does not arrive in time."""
        raw, size = await self.body_read()
        if not is_long(raw):
            return parsed(raw, self._method.request)
        return await self._calls.decoders.run(self.peer(), size, lambda: parsed(raw, self._method.request))

    async def body_read(self, *, optional: bool = False) -> tuple[bytes, int]:
        """Read the body, and return it with its length. `optional`: a request without a length has no body.

        Raises ResourceExhausted if it does not arrive in time.
        """
        answering = self._calls.answering
        given = self._headers.getlist("content-length")
        size, seconds = length(given or ["0"] if optional else given), answering.limits.receive_s
        if size > SMALL_BYTES:
            await answering.receiving.take(self.principal.tenant, size, seconds)
            self._held = size
        try:
            async with asyncio.timeout(seconds):
                return await self._body(), size
        except TimeoutError:
            raise ResourceExhausted(
                f"the body did not come within {seconds:g} s; send it at once", reason="RECEIVE_DEADLINE"
            ) from None

    def read_done(self) -> None:
        """Give back the room that is charged for the body."""
        size, self._held = self._held, 0
        if size:
            self._calls.answering.receiving.give_back(self.principal.tenant, size)

    async def write(self, reply: Message | Written) -> None:
        """Send a message as an event. A reply that is already serialized is parsed again, as events are JSON."""
        message = self._method.reply.FromString(reply.raw) if isinstance(reply, Written) else reply
        await self.send(b"data: %b\n\n" % await self._calls.encoded(message, self.peer()))

    async def send(self, raw: bytes) -> None:
        """Send bytes of a stream of events. The first call sends the head of the response before them."""
        if not self.started:
            self.started = True
            headers = [(b"content-type", b"text/event-stream"), (b"cache-control", b"no-store")]
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        await self._send({"type": "http.response.body", "body": raw, "more_body": True})
        if self._connection.lost:
            raise asyncio.CancelledError

    async def end(self) -> None:
        """End a stream of events."""
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _body(self) -> bytes:
        parts, more = list[bytes](), True
        while more:
            message = await self._receive()
            if message["type"] != "http.request":
                raise asyncio.CancelledError
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        return b"".join(parts)


class WebCalls:
    """The calls as an ASGI application. `methods`: the methods by path, without the prefix /api/.

    Separate threads read and write long JSON. JSON takes ten times as long as Arrow, and pushes would wait for it.
    """

    def __init__(self, answering: Answering, methods: Mapping[str, WebMethod]) -> None:
        self.answering = answering
        self.decoders = Decoders()
        self._methods = methods

    def close(self) -> None:
        """End the threads; idempotent."""
        self.decoders.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one call."""
        method = self.method(scope["path"].removeprefix(CALLS))
        if method is None:
            error = self._unknown(scope["path"].removeprefix(CALLS))
            await refused(error)(scope, receive, send)
            return
        await self.serve(method, WebCaller(self, method, scope, receive, send), scope)

    def method(self, path: str) -> WebMethod | None:
        """The method with a path, without the prefix /api/."""
        return self._methods.get(path)

    def _unknown(self, path: str) -> NotFound:
        """The error for a path that is not a call. It names the call of the same method, or the nearest."""
        method = path[:_LONGEST_PATH].rpartition("/")[2]
        near = [name for name in self._methods if name.endswith(f"/{method}")]
        near = near or get_close_matches(path[:_LONGEST_PATH], self._methods, 1)
        hint = f"; did you mean {CALLS}{near[0]}?" if near else "; see docs/web.md"
        return NotFound(f"there is no such call for a page{hint}", reason="UNKNOWN_CALL")

    def described(self) -> bytes:
        """The description of the calls as OpenAPI, in JSON. Takes some tens of milliseconds."""
        from psoup_service.web.description.document import described

        return orjson.dumps(described((method.descriptor for method in self._methods.values()), server_version()))

    async def serve(self, method: WebMethod, caller: WebCaller, scope: Scope) -> None:
        """Serve the call of a caller."""
        connection = connection_of(scope)
        with connection.calling():
            if method.streams:
                ended = await self.answering.many(method.asked, caller, method.behaviour)
                await self._ended(method, caller, connection, ended, scope)
            else:
                ended = await self.answering.one(method.asked, caller, self._written(method), None)
                async with connection.replying(self.answering.limits.stream_idle_s):
                    await reply_of(method, ended)(scope, caller._receive, caller._send)

    async def encoded(self, message: Message, sender: str) -> bytes:
        """A message as JSON, made on a thread if it is long."""
        size = message.ByteSize()
        if size <= LONG_BYTES:
            return jsoned(message)
        return await self.decoders.run(sender, size, lambda: jsoned(message))

    def _written(self, method: WebMethod) -> Callable[[Message, WebCaller], Awaitable[bytes]]:
        """The handler of a call with one reply.

        It makes the JSON, too, so that the limits of the call hold for that.
        """

        async def serve(request: Message, caller: WebCaller) -> bytes:
            return await self.encoded(await method.behaviour(request, caller), caller.peer())

        return serve

    async def _ended(
        self, method: WebMethod, caller: WebCaller, connection: PageConnection, ended: Ended, scope: Scope
    ) -> None:
        """Send the end of a stream. The connection is cut if the page does not read it in time."""
        if not caller.started:
            if ended.error is None:
                await caller.send(b"")
                await caller.end()
            else:
                await failed(method, ended)(scope, caller._receive, caller._send)
            return
        async with connection.replying(_LAST_WORD_S):
            if ended.error is not None:
                await caller.send(b"event: error\ndata: %b\n\n" % refusals.encoded(_facts_of(method, ended)))
            await caller.end()


def refused(error: PSoupError) -> Response:
    """The response to a request that ends with an error."""
    headers = dict(NO_STORE)
    if error.reason in _UNREAD:
        headers["connection"] = "close"
    if error.reason == "METHOD":
        headers["allow"] = str(error.facts.get("allow", "POST"))
    body = refusals.encoded(refusals.described(error))
    return Response(body, refusals.http_status(error), headers, media_type="application/json")


def defect(problem: Exception) -> Response:
    """The response to a request that a defect ends, which is logged."""
    _log.error("a defect ended a request", exc_info=problem)
    return refused(Internal(f"the gateway failed by a defect ({type(problem).__name__})"))


def reply_of(method: WebMethod, ended: Ended) -> Response:
    """The response to a call with one reply."""
    if ended.error is None:
        return Response(ended.reply, media_type="application/json", headers=NO_STORE)
    return failed(method, ended)


def _facts_of(method: WebMethod, ended: Ended) -> dict[str, Any]:
    """The JSON of an error that ends a stream."""
    if isinstance(ended.error, PSoupError):
        return refusals.described(ended.error)
    return refusals.late(method.asked.name)


def failed(method: WebMethod, ended: Ended) -> Response:
    """The response to a call that ended with an error."""
    if isinstance(ended.error, PSoupError):
        return refused(ended.error)
    body = refusals.encoded(refusals.late(method.asked.name))
    return Response(body, refusals.STATUSES["DEADLINE_EXCEEDED"], NO_STORE, media_type="application/json")
