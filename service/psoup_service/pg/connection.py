"""A connection of PostgreSQL's protocol, from its first byte to its end.

    start-up ─> session ─> ready ─┬─ Query                       simple
                                  └─ Parse, Bind, Execute, Sync  extended

Messages are read one at a time, and the length of each is checked first. A wrong length or kind ends the connection.
The error of a statement does not.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psoup.errors import Internal, PSoupError, ResourceExhausted, Unavailable
from psoup_service.gate.client_sockets import certificate_of, notice_vanished
from psoup_service.gate.listeners import is_loopback
from psoup_service.pg import errors, messages
from psoup_service.pg.account import Account
from psoup_service.pg.calls import Calls
from psoup_service.pg.cancellation import CancelKey, Cancelling
from psoup_service.pg.channel import Channel
from psoup_service.pg.contract import Session
from psoup_service.pg.extended_queries import SYNC, ExtendedQueries, OpenPortal
from psoup_service.pg.input import Input, Message
from psoup_service.pg.messages import malformed
from psoup_service.pg.sink import ClientSink, Exchange, run_into
from psoup_service.pg.startup import Encryption, first_packet, reason_of_refusal, sign_in
from psoup_service.pg.statement_texts import LONG, check_size, check_sizes
from psoup_service.wire.call_steps import Answering
from psoup_service.wire.decoders import Decoders

_PEACE = 64
"""The messages after which other connections get a turn."""

_COPY_LEFTOVERS = frozenset({b"d", b"c", b"f"})
"""Messages of a COPY that has failed. The client sent them before it read the error."""

_WITHOUT_REPLY = _COPY_LEFTOVERS | {b"H"}
"""Messages that get no reply. After them the client may still get notifications, as after ReadyForQuery."""

_EVER_S = 1e9
"""The seconds for which a connection with LISTEN may be idle: practically for ever."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a port that its connections share. `idle_in_transaction_s`: the longest pause in a transaction."""

    answering: Answering
    serving: dict[str, Any]
    encryption: Encryption
    cancelling: Cancelling
    encoders: Decoders
    idle_in_transaction_s: float
    session: Callable[[Calls, PgConnection, dict[str, str]], Session]


class PgConnection:
    """A connection. `peer`: its name. `token`: the access token that came as the password."""

    def __init__(self, channel: Channel, surroundings: Surroundings) -> None:
        self._channel = channel
        self._around = surroundings
        self._limits = surroundings.answering.limits
        self._input = Input(channel, surroundings.answering)
        self._task = asyncio.current_task()
        self._key = CancelKey(0, b"")
        self._running = self._resting = self._idle = self._draining = False
        self._cause: PSoupError | None = None
        self._extended: ExtendedQueries | None = None
        self._notes: list[tuple[str, Callable[[], str], asyncio.Future[None]]] = []
        self.peer, self.local = _peer(channel)
        self.token = ""
        self.certificate_names: Sequence[str] = ()
        self.certificate_ends = 0
        self.account: Account
        """The bytes that are kept for the client, once it is let in."""
        self.refused = ""
        """The reason for which the connection was refused at its start: one of `pg_connections.REASONS`, or ""."""

        self._session: Session | None = None
        notice_vanished(channel.extra("socket"))

    async def serve(self, refusal: PSoupError | None) -> None:
        """Serve the connection to its end. `refusal`: the error for a connection that is one too many."""
        channel = self._channel
        channel.left = self._left
        try:
            async with asyncio.timeout(self._limits.handshake_s):
                session = self._session = await self._start(refusal)
            if session is not None:
                await self._converse(session)
        except OSError as problem:  # the client has left, is late, or has failed in the handshake of TLS
            self._refuse(problem)
        except asyncio.CancelledError:
            self._fatal(_shutting_down())
            if not channel.lost:
                raise
        except PSoupError as problem:
            self._refuse(problem)
            self._fatal(problem)
        except Exception as defect:
            _log.exception("a defect ended a connection")
            self._fatal(Internal(f"the connection failed by a defect ({type(defect).__name__})"))
        finally:
            self._around.cancelling.remove(self._key.number)
            for _, _, sent in self._notes:
                sent.cancel()
            channel.close(self._limits.handshake_s)

    def cancel(self) -> None:
        """End the present statement, if one runs."""
        self._end_statement(
            ResourceExhausted("the statement was cancelled, as its client has asked", reason="CANCELLED")
        )

    def drain(self) -> None:
        """End the connection as soon as no statement runs."""
        self._draining = True
        if self._idle:
            self._channel.interrupt(_shutting_down())

    def report(self, name: str, value: str) -> None:
        """Tell the client the value of a setting."""
        self._channel.write(messages.parameter_status(name, value))

    @property
    def state(self) -> str:
        """The state of the connection: one of `pg_connections.STATES`. Any thread may ask for it."""
        session = self._session
        if session is None:
            return "starting"
        if self._running:
            return "active"
        return "idle" if session.status == b"I" else "idle in transaction"

    @property
    def number(self) -> int:
        """The number of the connection, with which the client asks for a cancellation."""
        return self._key.number

    @property
    def tenant(self) -> str:
        """The tenant of the client's token."""
        return self._input.tenant

    def forget(self, name: str | None) -> bool:
        """Close prepared statements. See `contract.Announcer`."""
        return self._extended is not None and self._extended.forget(name)

    def portal(self, name: str) -> OpenPortal | None:
        """The open portal with a name; None if there is none."""
        return None if self._extended is None else self._extended.portal(name)

    async def notify(self, channel: str, payload: Callable[[], str]) -> None:
        """Send a notification between two statements. See `contract.Announcer`."""
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._notes.append((channel, payload, sent))
        if self._idle and self._resting:
            self._send_notes()
        await sent
        await self._channel.drain()

    async def _start(self, refusal: PSoupError | None) -> Session | None:
        """Identify the client, and begin its session. Returns None after a cancel request."""
        channel, around, seconds = self._channel, self._around, self._limits.handshake_s
        packet = await first_packet(channel, Encryption() if channel.on_unix else around.encryption, seconds)
        if isinstance(packet, CancelKey):
            around.cancelling.cancel(packet)
            return None
        if refusal is not None:
            raise refusal
        self.certificate_names, self.certificate_ends = certificate_of(channel.extra("ssl_object"))
        calls = Calls(around.answering, around.serving, self)
        self._input.tenant = (await sign_in(calls, self, channel, seconds)).tenant
        self.account = Account(around.answering.receiving, self.tenant)
        session = around.session(calls, self, packet)
        self._key = around.cancelling.add(self.cancel)
        channel.write(messages.authentication(messages.AUTHENTICATED))
        for name, value in session.reported().items():
            self.report(name, value)
        channel.write(messages.backend_key(self._key.number, self._key.key))
        self._ready(session)
        return session

    async def _converse(self, session: Session) -> None:
        exchange = Exchange(
            self._channel,
            self._input,
            self.account,
            self._around.encoders,
            self.peer,
            self._limits.stream_idle_s,
            self._limits.statement_bytes,
        )
        self._extended = extended = ExtendedQueries(session, exchange)
        count = 0
        try:
            while (message := await self._next(session)).kind != b"X":
                await self._handle(session, exchange, extended, message)
                count += 1
                await self._pause(count)
        finally:
            self._input.release()
            try:
                await extended.close_all()
            finally:
                await session.close()

    async def _next(self, session: Session) -> Message:
        """The next message. Raises Unavailable if none comes for a long time, or if the service ends."""
        if self._draining and not self._channel.waiting:
            raise _shutting_down()
        within = session.status != b"I"
        self._idle = True
        try:
            longest = _EVER_S if session.listening else self._limits.connection_idle_s
            return await self._input.next(self._around.idle_in_transaction_s if within else longest)
        except TimeoutError:
            raise _idle(within) from None
        finally:
            self._idle = False

    async def _handle(self, session: Session, exchange: Exchange, extended: ExtendedQueries, message: Message) -> None:
        kind = message.kind
        self._resting &= kind in _WITHOUT_REPLY
        if kind == SYNC:
            extended.skipping = False
            await extended.end_transaction()
            self._ready(session)
        elif extended.skipping or kind in _WITHOUT_REPLY:
            pass
        elif kind == b"Q":
            await self._query(session, exchange, extended, message)
        elif extended.takes(kind):
            work = extended.step(message)
            extended.skipping = not await self._guarded(session, work, lambda: extended.text)
        elif kind == b"F":
            self._failed(session, errors.unsupported("the message FunctionCall; send a SELECT"), "")
            self._ready(session)
        else:
            raise malformed(f"its kind is {kind!r}")

    async def _query(self, session: Session, exchange: Exchange, extended: ExtendedQueries, message: Message) -> None:
        """Run the statements of the simple protocol, up to the first that fails."""
        part, limit = "", self._limits.statement_bytes

        async def run() -> None:
            nonlocal part
            extended.forget_unnamed()
            raw = message.body().text_bytes()
            check_size(raw, limit)
            text = messages.decoded(raw)
            if len(text) > LONG:
                parts = await exchange.encoders.run(self.peer, len(text), lambda: _statements(session, text, limit))
            else:
                parts = _statements(session, text, limit)
            empty = True
            for number, part in enumerate(parts, 1):
                statement = await session.read(part)
                if statement is not None:
                    empty = False
                    self._channel.write(await run_into(ClientSink(exchange, session.zone), statement, ()))
                await self._pause(number)
            if empty:
                self._channel.write(messages.EMPTY_QUERY)

        await self._guarded(session, run(), lambda: part)
        await extended.end_transaction()
        self._ready(session)

    async def _pause(self, count: int) -> None:
        """Give other connections a turn after some work, and wait for a client that does not read its replies."""
        if self._channel.full:
            await self._channel.drain()
        elif count % _PEACE == 0:
            await asyncio.sleep(0)

    async def _guarded(self, session: Session, work: Awaitable[None], text: Callable[[], str]) -> bool:
        """Do the work of a message, and send its error if it fails. Returns whether it succeeded."""
        self._running = True
        try:
            await work
            return True
        except asyncio.CancelledError:
            if self._cause is None or self._task is None:
                raise
            self._task.uncancel()
            self._failed(session, self._cause, text())
        except PSoupError as problem:
            self._failed(session, problem, text())
        except OSError:
            raise
        except Exception as defect:
            _log.exception("a defect ended a statement")
            self._failed(session, Internal(f"the statement failed by a defect ({type(defect).__name__})"), text())
        finally:
            self._running, self._cause = False, None
        return False

    def _failed(self, session: Session, problem: PSoupError, text: str) -> None:
        session.failed()
        self._channel.write(messages.told(b"E", errors.fields_of(problem, text)))

    def _refuse(self, problem: PSoupError | OSError) -> None:
        """Note why a connection ends before its session begins, for the metric of refused connections."""
        if self._session is None:
            self.refused = reason_of_refusal(problem)

    def _fatal(self, problem: PSoupError) -> None:
        self._channel.write(messages.told(b"E", errors.fields_of(problem, severity="FATAL")))

    def _ready(self, session: Session) -> None:
        if session.status == b"I":
            self._send_notes()
            self._resting = True
        self._channel.write(messages.ready(session.status))

    def _send_notes(self) -> None:
        notes, self._notes = self._notes, []
        for channel, payload, sent in notes:
            if not sent.done():
                self._channel.write(messages.notification(self._key.number, channel, payload()))
                sent.set_result(None)

    def _end_statement(self, cause: PSoupError) -> None:
        if self._running and self._cause is None and self._task is not None:
            self._cause = cause
            self._task.cancel(cause)

    def _left(self) -> None:
        """End the statement of a client that has disconnected."""
        if self._running and self._task is not None:
            self._channel.abort()
            self._task.cancel()


def _peer(channel: Channel) -> tuple[str, bool]:
    """The name of a connection, and whether its client is on this machine. Each open connection has its own name."""
    if channel.on_unix:
        return f"pg:unix:{channel.extra('socket').fileno()}", True
    host, port = channel.extra("peername")[:2]
    return f"pg:{host}:{port}", is_loopback(host)


def _statements(session: Session, text: str, limit: int) -> list[str]:
    """The statements of a text. Raises ResourceExhausted if one is too long."""
    parts = session.split(text)
    check_sizes(parts, limit)
    return parts


def _shutting_down() -> Unavailable:
    return Unavailable("the service is shutting down; connect again when it is back", reason="DRAINING")


def _idle(within: bool) -> Unavailable:
    if within:
        return Unavailable(
            "the transaction was idle for long (pg_idle_in_transaction_s), so the connection is closed and the"
            " transaction is undone; open a new one",
            reason="TRANSACTION_IDLE",
        )
    return Unavailable(
        "the connection was idle for long (connection_idle_s), so it is closed; open a new one",
        reason="CONNECTION_IDLE",
    )
