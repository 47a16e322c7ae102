"""Calls of the contract on behalf of a connection.

    statement ─> `Calls.one("StatementService/Ask", request)` ─> `Answering` (gate, limits, deadline) ─> servicer

Each statement makes the calls that a client of gRPC would make. So roles, quotas, the audit log and metrics are those
of the other protocols.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Protocol

from google.protobuf.message import Message

from psoup.errors import PermissionDenied, PSoupError, ResourceExhausted
from psoup_proto.v1 import server_pb2
from psoup_service.gate.audit import object_of
from psoup_service.gate.principal import STRANGER, Principal
from psoup_service.host.reads.held_snapshots import HELD, HeldSnapshot
from psoup_service.wire.call_steps import Answering, NamedCall
from psoup_service.wire.calls import Ended

PACKAGE = "psoup.v1."


class Client(Protocol):
    """The client of a connection, as its calls see it."""

    peer: str
    local: bool
    token: str
    """The access token that the client gave as password; "" without one."""
    certificate_names: Sequence[str]
    certificate_ends: int


class PgCaller:
    """The caller's side of one call: a carrier for `Answering`."""

    protocol: ClassVar[str] = "pg"
    __slots__ = ("_client", "_request", "_write", "principal", "request")

    def __init__(self, client: Client, request: Message, write: Callable[[Any], Awaitable[None]] | None = None) -> None:
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


class Calls:
    """The calls that a connection may make. `serving`: the servicer of each service, by its full name."""

    def __init__(self, answering: Answering, serving: Mapping[str, Any], client: Client) -> None:
        self.answering = answering
        self._serving = serving
        self._client = client
        self.moment: HeldSnapshot | None = None
        """The snapshot that all reads see; None for the published one."""

    async def sign_in(self) -> Principal:
        """Identify the client by a call that every role may make. So refusals are counted and logged as ever.

        Raises Unauthenticated, and Unavailable.
        """
        caller, name = PgCaller(self._client, server_pb2.GetServerInfoRequest()), "ServerService/GetServerInfo"
        ended = await self.answering.one(NamedCall(name, False), caller, self._behaviour(name), None)
        if not isinstance(ended.error, PermissionDenied):
            _reply(name, ended)
        return caller.principal

    async def one(self, name: str, request: Message) -> Any:
        """Make a call with one reply. `name`: "Service/Method". Raises a PSoupError."""
        caller = PgCaller(self._client, request)
        return _reply(name, await self.answering.one(NamedCall(name, False), caller, self._behaviour(name), None))

    async def present(self, name: str, request: Message) -> tuple[Any, Principal]:
        """Make a call with one reply over the published snapshot, within a transaction too. Raises a PSoupError.

        Returns the reply and the client's identity, as the gate found it.
        """
        caller, behaviour = PgCaller(self._client, request), self._published(name)
        ended = await self.answering.one(NamedCall(name, False), caller, behaviour, None)
        return _reply(name, ended), caller.principal

    async def many(self, name: str, request: Message, write: Callable[[Any], Awaitable[None]]) -> None:
        """Make a call with many replies, and hand each to `write`. Raises a PSoupError."""
        caller = PgCaller(self._client, request, write)
        watching = name in {"SyncService/Watch", "FollowService/Follow"}
        _reply(name, await self.answering.many(NamedCall(name, watching), caller, self._behaviour(name)))

    def _published(self, name: str) -> Any:
        service, _, method = name.partition("/")
        return getattr(self._serving[PACKAGE + service], method)

    def _behaviour(self, name: str) -> Any:
        behaviour, moment = self._published(name), self.moment
        if moment is None or name not in _READING:
            return behaviour
        return _streaming(behaviour, moment) if name in _STREAMS else _holding(behaviour, moment)


_STREAMS = frozenset({"StatementService/AskStream", "QueryService/InvokeStream"})
_READING = _STREAMS | {
    "StatementService/Ask",
    "QueryService/Invoke",
    "QueryService/GetQuery",
    "QueryService/Check",
    "StreamService/GetStream",
    "StreamService/ListStreams",
    "QueryService/ListQueries",
}
"""Calls that see the snapshot of a transaction."""


def _holding(behaviour: Any, moment: HeldSnapshot) -> Any:
    """A call with one reply, over a held snapshot. The gate before it sees the present one."""

    async def run(request: Any, caller: Any) -> Any:
        token = HELD.set(moment)
        try:
            return await behaviour(request, caller)
        finally:
            HELD.reset(token)

    return run


def _streaming(behaviour: Any, moment: HeldSnapshot) -> Any:
    """A call with many replies, over a held snapshot. Between two replies no code of the call runs."""

    async def run(request: Any, caller: Any) -> AsyncIterator[Any]:
        replies = behaviour(request, caller)
        try:
            while True:
                token = HELD.set(moment)
                try:
                    reply = await anext(replies, None)
                finally:
                    HELD.reset(token)
                if reply is None:
                    return
                yield reply
        finally:
            await replies.aclose()

    return run


def _reply(name: str, ended: Ended) -> Any:
    if ended.error is None:
        return ended.reply
    if isinstance(ended.error, PSoupError):
        raise ended.error
    raise ResourceExhausted(f"{name} did not end within its deadline", reason="DEADLINE_EXCEEDED")
