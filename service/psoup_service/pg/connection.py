"""One connection of PostgreSQL's protocol, from its start-up packet to its end.

    start-up ─> TLS? ─> password ─> settings ─> ready ─┬─ Query                       simple
                                                       └─ Parse, Bind, Execute, Sync  extended

Messages are read one at a time, and each is measured before it is read. A fault of the protocol ends the connection;
the error of a statement does not.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Sequence

from psoup.errors import Internal, InvalidInput, PSoupError, Unavailable
from psoup_service.gate.listeners import is_loopback
from psoup_service.pg import errors, messages
from psoup_service.pg.channel import Channel
from psoup_service.pg.contract import Session
from psoup_service.pg.extended import SYNC, ExtendedQueries
from psoup_service.pg.input import Input, Message
from psoup_service.pg.messages import Body, malformed
from psoup_service.pg.portals import Account
from psoup_service.pg.sink import ClientSink
from psoup_service.wire.call_steps import Answering

_STARTUP_BYTES = 10_000
_PEACE = 64
"""Messages that are handled before other connections get a turn."""
_COPY_LEFTOVERS = frozenset({b"d", b"c", b"f"})
"""Messages of a COPY that has failed. The client sent them before it knew."""
_log = logging.getLogger(__name__)


class PgConnection:
    """A connection. `peer`: its name. `token`: the access token that came as the password."""

    def __init__(
        self, channel: Channel, answering: Answering, session: Callable[[PgConnection, dict[str, str]], Session]
    ) -> None:
        self._channel = channel
        self._answering = answering
        self._make_session = session
        self._input = Input(channel, answering)
        self._task = asyncio.current_task()
        self._running = False
        host, port = channel.extra("peername")[:2]
        self.peer = f"pg:{host}:{port}"
        self.local = is_loopback(host)
        self.token = ""
        self.certificate_names: Sequence[str] = ()
        self.certificate_ends = 0

    async def serve(self) -> None:
        """Serve the connection to its end."""
        channel = self._channel
        channel.left = self._left
        try:
            async with asyncio.timeout(self._answering.limits.handshake_s):
                session = await self._start()
            if session is not None:
                await self._converse(session)
        except (ConnectionError, TimeoutError):
            pass
        except asyncio.CancelledError:
            if not channel.lost:
                raise
        except PSoupError as problem:
            channel.write(messages.told(b"E", errors.fields_of(problem, severity="FATAL")))
        finally:
            channel.close()

    async def _start(self) -> Session | None:
        """Read the start-up packet, and let the client in. Returns its session; None for a cancel request."""
        channel, seconds = self._channel, self._answering.limits.handshake_s
        while True:
            await channel.need(4, seconds)
            size = struct.unpack("!i", channel.take(4))[0]
            if not 8 <= size <= _STARTUP_BYTES:
                raise malformed(f"a start-up packet of {size} bytes")
            await channel.need(size - 4, seconds)
            body = Body(channel.take(size - 4))
            code = body.int32()
            if code in (messages.TLS, messages.GSS):
                channel.write(b"N")
                continue
            if code == messages.CANCEL:
                return None
            if code >> 16 != 3:
                raise malformed(f"version {code >> 16}.{code & 0xFFFF}; this service speaks 3.0")
            session = self._make_session(self, _pairs(body))
            break
        channel.write(messages.authentication(0))
        for name, value in session.reported().items():
            channel.write(messages.parameter_status(name, value))
        channel.write(messages.backend_key(0, 0) + messages.ready(b"I"))
        return session

    async def _converse(self, session: Session) -> None:
        extended = ExtendedQueries(session, self._channel, self._input, Account(self._answering.receiving, ""))
        count = 0
        try:
            while True:
                message = await self._next(session)
                if message.kind == b"X":
                    return
                await self._handle(session, extended, message)
                count += 1
                if count % _PEACE == 0:
                    await asyncio.sleep(0)
        finally:
            self._input.release()
            await extended.close_all()
            await session.close()

    async def _next(self, session: Session) -> Message:
        """The next message. Raises Unavailable if none comes for a long time."""
        try:
            return await self._input.next(self._answering.limits.connection_idle_s)
        except TimeoutError:
            raise Unavailable(
                "the connection was idle for long, so it is closed; open a new one", reason="CONNECTION_IDLE"
            ) from None

    async def _handle(self, session: Session, extended: ExtendedQueries, message: Message) -> None:
        kind = message.kind
        if kind == SYNC:
            extended.skipping = False
            await extended.end_transaction()
            self._ready(session)
        elif extended.skipping or kind == b"H" or kind in _COPY_LEFTOVERS:
            pass
        elif kind == b"Q":
            await self._query(session, extended, message)
        elif extended.takes(kind):
            extended.skipping = not await self._guarded(
                session, lambda: extended.step(kind, message.body()), lambda: extended.text
            )
        else:
            raise malformed(f"a message of kind {kind!r}")

    async def _query(self, session: Session, extended: ExtendedQueries, message: Message) -> None:
        """Run the statements of the simple protocol, up to the first that fails."""
        part = ""

        async def run() -> None:
            nonlocal part
            extended.forget_unnamed()
            part = message.body().text()
            parts = session.split(part)
            if not parts:
                self._channel.write(messages.EMPTY_QUERY)
            for part in parts:
                statement = await session.read(part)
                if statement is not None:
                    sink = ClientSink(self._channel, self._input, session.zone)
                    self._channel.write(messages.complete(await statement.run((), sink)))

        await self._guarded(session, run, lambda: part)
        await extended.end_transaction()
        self._ready(session)

    async def _guarded(self, session: Session, work: Callable[[], Awaitable[None]], text: Callable[[], str]) -> bool:
        """Do the work of a message; tell the client its error. Returns whether it succeeded."""
        self._running = True
        try:
            await work()
            return True
        except PSoupError as problem:
            self._failed(session, problem, text())
        except (ConnectionError, TimeoutError):
            raise
        except Exception as defect:
            _log.exception("a defect ended a statement")
            self._failed(session, Internal(f"the statement failed by a defect ({type(defect).__name__})"), text())
        finally:
            self._running = False
        return False

    def _failed(self, session: Session, problem: PSoupError, text: str) -> None:
        session.failed()
        self._channel.write(messages.told(b"E", errors.fields_of(problem, text)))

    def _ready(self, session: Session) -> None:
        self._channel.write(messages.ready(session.status))

    def _left(self) -> None:
        """End the statement of a client that has left."""
        if self._running and self._task is not None:
            self._channel.abort()
            self._task.cancel()


def _pairs(body: Body) -> dict[str, str]:
    options = dict[str, str]()
    while body.left:
        name = body.text()
        if not name:
            break
        options[name] = body.text()
    if "user" not in options:
        raise InvalidInput("the start-up packet names no user", reason="PROTOCOL")
    return options
