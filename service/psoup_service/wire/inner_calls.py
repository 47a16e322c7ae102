"""Calls of the contract that the service makes for a client of another protocol, such as PostgreSQL's or MCP.

    client of a protocol ─> `InnerCalls.one("StatementService/Ask", request)` ─> `Answering` ─> servicer

These calls pass the same gate, limits and deadlines as calls over gRPC. So roles, quotas, the audit log and metrics are
the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from google.protobuf.message import Message

from psoup.errors import PermissionDenied, PSoupError, ResourceExhausted
from psoup_proto.v1 import server_pb2
from psoup_service.gate.audit import object_of
from psoup_service.gate.principal import STRANGER, Principal
from psoup_service.wire.call_steps import Answering, NamedCall
from psoup_service.wire.calls import Ended

PACKAGE = "psoup.v1."
_WATCHING = frozenset({"SyncService/Watch", "FollowService/Follow"})


class Client(Protocol):
    """The client of a connection, as its calls see it."""

    peer: str
    local: bool
    token: str
    """The client's access token; "" without one."""
    certificate_names: Sequence[str]
    certificate_ends: int


class InnerCaller:
    """The caller of one call, as `Answering` sees it. A subclass for each protocol has its name in `protocol`."""

    protocol: ClassVar[str]
    __slots__ = ("_client", "_request", "_trace", "_write", "principal", "request")

    def __init__(
        self,
        client: Client,
        request: Message,
        write: Callable[[Any], Awaitable[None]] | None = None,
        trace: str = "",
    ) -> None:
        """`write`: takes the replies of a call with many. `trace`: the value of `traceparent` that the client gave."""
        self._trace = trace
        self._client = client
        self._request = request
        self._write = write
        self.principal = STRANGER
        self.request: Any = None

    def peer(self) -> str:
        """The connection: "pg:127.0.0.1:40312"."""
        return self._client.peer

    def local(self) -> bool:
        """Whether the connection comes from this machine."""
        return self._client.local

    def certificate_names(self) -> Sequence[str]:
        """The names in the client's certificate."""
        return self._client.certificate_names

    def certificate_ends(self) -> int:
        """The end of the client's certificate, in microseconds since 1970."""
        return self._client.certificate_ends

    def authorization(self) -> str:
        """The access token as gRPC carries it; "" without a token."""
        return f"Bearer {self._client.token}" if self._client.token else ""

    def traceparent(self) -> str:
        """The value of `traceparent` that came with the request; "" without one."""
        return self._trace

    def about(self) -> str:
        """The subject of the request, for the audit log."""
        return "" if self.request is None else object_of(self.request)

    async def read(self) -> Message:
        """The request of the call."""
        return self._request

    def read_done(self) -> None:
        """Do nothing: the connection has charged its messages."""

    async def write(self, reply: Any) -> None:
        """Take a reply of a call with many."""
        assert self._write is not None, "a call with many replies has a receiver"
        await self._write(reply)


class InnerCalls:
    """The calls that a client may make. `serving`: the servicer of each service, by its full name."""

    caller: ClassVar[type[InnerCaller]]
    """The class of the callers: it names the protocol."""

    def __init__(self, answering: Answering, serving: Mapping[str, Any], client: Client) -> None:
        self.answering = answering
        self.client = client
        self.trace = ""
        """The value of `traceparent` for the next calls."""
        self._serving = serving

    async def sign_in(self) -> Principal:
        """Identify the client by a call that every role may make. Raises Unauthenticated, and Unavailable.

        A refusal is counted and logged as a refusal of any other call.
        """
        caller, name = self.caller(self.client, server_pb2.GetServerInfoRequest()), "ServerService/GetServerInfo"
        ended = await self.answering.one(NamedCall(name, False), caller, self.published(name), None)
        if not isinstance(ended.error, PermissionDenied):
            reply_of(name, ended)
        return caller.principal

    async def one(self, name: str, request: Message) -> Any:
        """Make a call with one reply. `name`: "Service/Method". Raises a PSoupError."""
        caller = self.caller(self.client, request, trace=self.trace)
        return reply_of(name, await self.answering.one(NamedCall(name, False), caller, self.behaviour(name), None))

    async def many(self, name: str, request: Message, write: Callable[[Any], Awaitable[None]]) -> None:
        """Make a call with many replies, and hand each to `write`. Raises a PSoupError."""
        call, caller = NamedCall(name, name in _WATCHING), self.caller(self.client, request, write, self.trace)
        reply_of(name, await self.answering.many(call, caller, self.behaviour(name)))

    def published(self, name: str) -> Any:
        """The function that serves a call over the published snapshot."""
        service, _, method = name.partition("/")
        return getattr(self._serving[PACKAGE + service], method)

    def behaviour(self, name: str) -> Any:
        """The function that serves a call of this client."""
        return self.published(name)


def reply_of(name: str, ended: Ended) -> Any:
    """The reply of a call that has ended. Raises its error."""
    if ended.error is None:
        return ended.reply
    if isinstance(ended.error, PSoupError):
        raise ended.error
    raise ResourceExhausted(f"{name} did not end within its deadline", reason="DEADLINE_EXCEEDED")
