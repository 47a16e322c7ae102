"""Calls over gRPC: requests are read and replies written with limits of time and size. Servicers do not see gRPC.

    metadata ─> `Calls.run` ─> what it names ─> body, in time ─> parse ─> deadline or age ─> servicer ─> reply
                     └──────────────────┴──────────┴──────── PSoupError ─────────┴──────────────> status

`GrpcCalls.add` takes a servicer as the generated code registers it. It wraps each of its methods once, when the server
is made. Each method is declared to gRPC as one with streamed requests. So a body is read only when the service is ready
(`request_bodies`). On the wire there is no difference, and a call with one reply costs no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import grpc
from google.protobuf import descriptor_pool
from google.protobuf.message import DecodeError

from psoup.errors import InvalidInput, PSoupError, ResourceExhausted
from psoup_service.gate.audit import object_of
from psoup_service.gate.certificates import end_of
from psoup_service.gate.principal import STRANGER
from psoup_service.wire import fields
from psoup_service.wire.call_steps import Answering, NamedCall, draining, within
from psoup_service.wire.calls import Caller, Ended
from psoup_service.wire.decoders import Decoders
from psoup_service.wire.large_requests import COPIED_BYTES, Carrying, payload_number, split
from psoup_service.wire.request_bodies import SMALL_BYTES, Charge, named
from psoup_service.wire.status import abort
from psoup_service.wire.under_way import CallsUnderWay
from psoup_service.wire.written import writer

Context: TypeAlias = grpc.aio.ServicerContext

INGEST_METHODS = frozenset({"Push", "PushStream", "AddPart", "RegisterMany", "Match"})
"""Methods whose requests may have the ingest size."""

WATCHING_METHODS = frozenset({"Watch", "Follow", "TakeBatch"})
"""Methods whose calls last as long as their clients. They have a separate limit."""

_GONE = (grpc.aio.InternalError,)
"""The error that gRPC raises when a message is sent to a client that has cancelled. The call has ended; it is no
defect."""


CheckStream: TypeAlias = Callable[[str, Caller], object]


class GrpcCaller:
    """The caller's side of a call over gRPC."""

    protocol: ClassVar[str] = "grpc"
    __slots__ = ("_calls", "_way", "charge", "context", "principal", "request")

    def __init__(self, context: Context, calls: GrpcCalls, way: _Way) -> None:
        self.context = context
        self._calls = calls
        self._way = way
        self.charge: Charge | None = None
        self.principal = STRANGER
        self.request: Any = None
        """The request, set only for calls that the audit log records."""

    def peer(self) -> str:
        """The connection, as gRPC names it: "ipv4:127.0.0.1:40312"."""
        return str(self.context.peer())

    def local(self) -> bool:
        """Whether the connection comes from this machine."""
        return self.peer().startswith(_LOCAL)

    def certificate_names(self) -> list[str]:
        """The URIs, then the DNS names, of the client's certificate, which the authority of clients has signed."""
        shown = self.context.auth_context()
        return [name.decode("utf-8", "replace") for kind in ("peer_uri", "peer_dns") for name in shown.get(kind, ())]

    def certificate_ends(self) -> int:
        """The end of the client's certificate, in microseconds since 1970."""
        return end_of(self.context.auth_context()["x509_pem_cert"][0])

    def authorization(self) -> str:
        """The value of the metadata `authorization`; "" if there is none, or more than one."""
        given = [value for key, value in self.context.invocation_metadata() or () if key == "authorization"]
        return str(given[0]) if len(given) == 1 else ""

    def traceparent(self) -> str:
        """The value of the metadata `traceparent`, the last if there are several; "" if there is none."""
        given = [value for key, value in self.context.invocation_metadata() or () if key == "traceparent"]
        return str(given[-1]) if given else ""

    def about(self) -> str:
        """The subject of the request, for the audit log."""
        return "" if self.request is None else object_of(self.request)

    async def read(self) -> Any:
        """Read and parse the request."""
        return await self._calls.read(self._way, self)

    def read_done(self) -> None:
        """Give back the room that is charged for the request."""
        if self.charge is not None:
            self.charge.give_back()

    async def write(self, message: Any) -> None:
        """Send a message."""
        try:
            await self.context.write(message)
        except _GONE:
            raise asyncio.CancelledError from None


_LOCAL = ("unix:", "ipv4:127.", "ipv6:[::1]", "ipv6:%5B::1%5D")
"""Prefixes of the names of connections from this machine."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A stand-in for a request that was refused before it was parsed."""

    error: PSoupError


@dataclass(frozen=True, slots=True)
class _Way:
    """The facts about a method that reading its requests needs.

    `asked`: its name. `ingest`: whether its requests carry tuples. `limit`: the most bytes of a request. `parse`:
    parses a request. `bounds`: the bounds of the request's fields.
    """

    asked: NamedCall
    ingest: bool
    limit: int
    parse: Callable[[bytes], Any]
    bounds: fields.Bounds
    payload: int
    """The number of the field with the payload, which may be long; 0 if there is none."""

    @property
    def name(self) -> str:
        """The name of the method, "Service/Method"."""
        return self.asked.name


class _Registrar:
    """A stand-in for a server in the generated `add_…Servicer_to_server` functions."""

    def __init__(self) -> None:
        self.services: dict[str, dict[str, Any]] = {}

    def add_generic_rpc_handlers(self, handlers: Any) -> None:
        """Do nothing: the next method gets the same handlers, by name."""

    def add_registered_method_handlers(self, service: str, handlers: dict[str, Any]) -> None:
        """Keep the handlers of one service."""
        self.services[service] = handlers


class GrpcCalls:
    """Wraps the methods of servicers for gRPC."""

    def __init__(self, answering: Answering, decoders: Decoders, check_stream: CheckStream) -> None:
        """`check_stream`: raises the error for a call whose metadata name a stream that it may not push to."""
        self._answering = answering
        self._limits = answering.limits
        self._decoders = decoders
        self._check_stream = check_stream
        self._draining = False

    def drain(self) -> None:
        """End the streams that wait for their client's next message. Messages that came earlier are still handled."""
        self._draining = True
        self._answering.receiving.drain(draining())

    @property
    def under_way(self) -> CallsUnderWay:
        """The counters of open calls."""
        return self._answering.calls.under_way

    @property
    def held(self) -> int:
        """The number of calls that wait for their tenant's turn."""
        return self._answering.calls.turns.held

    @property
    def receiving(self) -> int:
        """The bytes that are charged for requests: incoming requests, and long requests until they are handled."""
        return self._answering.receiving.bytes

    def add(self, register: Callable[[Any, Any], None], servicer: Any, server: grpc.aio.Server) -> list[str]:
        """Register `servicer` with its methods wrapped; returns the full names of its services."""
        registrar = _Registrar()
        register(servicer, registrar)
        for service, handlers in registrar.services.items():
            wrapped = {method: self._wrap(service, method, handler) for method, handler in handlers.items()}
            server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, wrapped),))
        return list(registrar.services)

    def _wrap(self, service: str, method: str, handler: Any) -> Any:
        ingest = method in INGEST_METHODS
        limit = self._limits.ingest_message_bytes if ingest else self._limits.control_message_bytes
        name = f"{service.rpartition('.')[2]}/{method}"
        call = NamedCall(name, method in WATCHING_METHODS)
        request = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method].input_type
        bounds = fields.bounds_of(request)
        payload = payload_number(request) if ingest else 0
        way = _Way(call, ingest, limit, parser(handler.request_deserializer, limit), bounds, payload)
        serialize = writer(handler.response_serializer)
        if handler.stream_unary is not None:
            raise TypeError(f"{name} streams requests to one reply, which has no wrapper yet")
        if handler.unary_unary is not None:
            return grpc.stream_unary_rpc_method_handler(self._unary(way, handler.unary_unary), None, serialize)
        if handler.unary_stream is not None:
            return grpc.stream_stream_rpc_method_handler(self._downstream(way, handler.unary_stream), None, serialize)
        return grpc.stream_stream_rpc_method_handler(self._duplex(way, handler.stream_stream), None, serialize)

    def _unary(self, way: _Way, behaviour: Callable[[Any, Context], Awaitable[Any]]) -> Any:
        async def call(_: AsyncIterator[Any], context: Context) -> Any:
            caller = GrpcCaller(context, self, way)
            left = context.time_remaining()
            return await self._told(way, caller, await self._answering.one(way.asked, caller, behaviour, left))

        return call

    def _downstream(self, way: _Way, behaviour: Callable[[Any, Context], AsyncIterator[Any]]) -> Any:
        async def call(_: AsyncIterator[Any], context: Context) -> None:
            caller = GrpcCaller(context, self, way)
            await self._told(way, caller, await self._answering.many(way.asked, caller, behaviour))

        return call

    def _duplex(self, way: _Way, behaviour: Callable[[AsyncIterator[Any], Context], AsyncIterator[Any]]) -> Any:
        async def call(_: AsyncIterator[Any], context: Context) -> None:
            caller = GrpcCaller(context, self, way)

            async def serve() -> None:
                self._named(way, caller)
                await self._answering.write_all(behaviour(self._read_all(way, caller), caller), caller)

            await self._told(way, caller, await self._answering.calls.run(way.name, caller, serve, timed=False))

        return call

    async def read(self, way: _Way, caller: GrpcCaller) -> Any:
        """Read, charge and parse the single request of a call."""
        size, context = self._named(way, caller), caller.context
        caller.charge = charge = self._answering.receiving.charge(caller.principal.tenant)
        try:
            raw = await charge.one(context, size, way.limit, self._limits.receive_s, first=way.ingest)
        except _GONE:
            raise asyncio.CancelledError from None
        return await self._parsed(way, context, raw)

    def _named(self, way: _Way, caller: GrpcCaller) -> int | None:
        """The request size that the metadata of an ingest call declare; None if they declare none.

        Raises the errors about the declared size and stream before the body is read.
        """
        if not way.ingest:
            return None
        stream, size = named(caller.context.invocation_metadata() or ())
        if size is not None and size > way.limit:
            raise _too_long(size, way.limit)
        if stream is not None:
            self._check_stream(stream, caller)
        return size

    async def _parsed(self, way: _Way, context: Context, raw: bytes) -> Any:
        """Parse a request.

        A decoding thread parses it if it has many fields or takes long to copy. A long payload is not copied.
        """
        size = len(raw)
        if size <= SMALL_BYTES:
            request = way.parse(raw)
        elif way.payload and size <= way.limit and (carried := _carried(way, raw)) is not None:
            request = carried
        elif way.ingest and size <= COPIED_BYTES and fields.count(raw, fields.FEW) <= fields.FEW:
            request = _parse_long(way, raw)
        else:
            request = await self._decoders.run(context.peer(), size, lambda: _parse_long(way, raw))
        if isinstance(request, Unreadable):
            raise request.error
        return request

    async def _told(self, way: _Way, caller: GrpcCaller, ended: Ended) -> Any:
        """Return the reply of a call, or end the call with the status of its error."""
        if ended.error is None:
            return ended.reply
        # The call is over, but its status may have to wait behind an unread message.
        try:
            if ended.error == "late":
                await caller.context.abort(
                    grpc.StatusCode.DEADLINE_EXCEEDED, f"{way.name} did not end within its deadline"
                )
            else:
                await abort(caller.context, ended.error)
        except _GONE:
            raise asyncio.CancelledError from None

    async def _read_all(self, way: _Way, caller: GrpcCaller) -> AsyncIterator[Any]:
        """Yield the client's messages until the client closes its side."""
        tenant, context, turns = caller.principal.tenant, caller.context, self._answering.calls.turns
        charge = self._answering.receiving.charge(tenant)
        try:
            while True:
                if self._draining:
                    raise draining()
                try:
                    raw = await charge.next(context, way.limit, self._limits.stream_idle_s)
                except _GONE:
                    raise asyncio.CancelledError from None
                if raw is None:
                    return
                await turns.come_in(tenant)
                yield within(caller.principal, await self._parsed(way, context, raw))
        finally:
            charge.give_back()


def parser(parse: Callable[[bytes], Any], limit: int) -> Callable[[bytes], Any]:
    """Return a deserializer that never raises: gRPC would report an exception as INTERNAL.

    Errors become `Unreadable`.
    """

    def deserialize(raw: bytes) -> Any:
        if len(raw) > limit:
            return Unreadable(_too_long(len(raw), limit))
        try:
            return parse(raw)
        except DecodeError:
            return Unreadable(
                InvalidInput(
                    "the request is not a message of this call's type; compare the .proto", reason="NOT_PROTOBUF"
                )
            )

    return deserialize


def _carried(way: _Way, raw: bytes) -> Carrying | Unreadable | None:
    parts = split(raw, way.payload)
    if parts is None:
        return None
    try:
        fields.check(raw, way.bounds)
    except PSoupError as problem:
        return Unreadable(problem)
    rest = way.parse(parts.rest)
    return rest if isinstance(rest, Unreadable) else Carrying(rest, parts.payload)


def _parse_long(way: _Way, raw: bytes) -> Any:
    try:
        fields.check(raw, way.bounds)
    except PSoupError as problem:
        return Unreadable(problem)
    return way.parse(raw)


def _too_long(size: int, limit: int) -> ResourceExhausted:
    return ResourceExhausted(
        f"the request has {size:,} bytes; {limit:,} is the most for this call",
        reason="MESSAGE_TOO_LARGE",
        bytes=size,
        limit=limit,
    )
