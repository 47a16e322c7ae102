"""Calls of the contract on behalf of a connection.

    statement ─> `Calls.one("StatementService/Ask", request)` ─> `Answering` (gate, limits, deadline) ─> servicer

Each statement makes the calls that a client of gRPC would make. So roles, quotas, the audit log and metrics work in the
same way as for the other protocols.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from google.protobuf.message import Message

from psoup_proto.v1 import queries_pb2
from psoup_service.gate.principal import Principal
from psoup_service.host.reads.held_snapshots import HELD, HeldSnapshot
from psoup_service.wire.call_steps import Answering, NamedCall
from psoup_service.wire.inner_calls import Client as Client
from psoup_service.wire.inner_calls import InnerCaller, InnerCalls, reply_of


class PgCaller(InnerCaller):
    """The caller's side of one call."""

    protocol: ClassVar[str] = "pg"
    __slots__ = ()


class Calls(InnerCalls):
    """The calls that a connection may make. `serving`: the servicer of each service, by its full name."""

    caller = PgCaller

    def __init__(self, answering: Answering, serving: Mapping[str, Any], client: Client) -> None:
        super().__init__(answering, serving, client)
        self.moment: HeldSnapshot | None = None
        """The snapshot of the open transaction. None outside of one: then reads see the newest snapshot."""
        self.written = 0
        """The last event of rows of this connection that all reads see. Reads wait until streams that derive from these
        rows show it, too."""

    async def seen(self, sequence: int) -> None:
        """Wait until all reads see an event of this connection. Raises a PSoupError."""
        await self.one("QueryService/WaitForSequence", queries_pb2.WaitForSequenceRequest(sequence=sequence))
        self.written = sequence

    async def present(self, name: str, request: Message) -> tuple[Any, Principal]:
        """Make a call with one reply over the newest snapshot, also within a transaction. Raises a PSoupError.

        Returns the reply, and the identity of the client that the gate has determined.
        """
        caller, behaviour = PgCaller(self.client, request, trace=self.trace), self.published(name)
        ended = await self.answering.one(NamedCall(name, False), caller, behaviour, None)
        return reply_of(name, ended), caller.principal

    def behaviour(self, name: str) -> Any:
        """The function that serves a call. A call that reads sees the snapshot of the transaction."""
        behaviour, moment = self.published(name), self.moment
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
    """A call with one reply over the transaction's snapshot. Its gate has run before, over the newest snapshot."""

    async def run(request: Any, caller: Any) -> Any:
        token = HELD.set(moment)
        try:
            return await behaviour(request, caller)
        finally:
            HELD.reset(token)

    return run


def _streaming(behaviour: Any, moment: HeldSnapshot) -> Any:
    """A call with many replies over the transaction's snapshot, which is set only while the call runs."""

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
