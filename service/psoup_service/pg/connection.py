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
from collections.abc import Callable, Sequence
from contextlib import suppress

import pyarrow as pa

from psoup.errors import Internal, InvalidInput, NotSupported, PSoupError
from psoup_service.gate.listeners import is_loopback
from psoup_service.pg import errors, messages
from psoup_service.pg.contract import TEXT, Column, Notice, Session
from psoup_service.pg.messages import Body, malformed
from psoup_service.pg.values import data_rows, size_of

_STARTUP_BYTES = 10_000
_MESSAGE_BYTES = 16 << 20
_log = logging.getLogger(__name__)

_SETTINGS = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, MDY",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "is_superuser": "off",
}


class PgConnection:
    """A connection. `peer`: its name. `token`: the access token that came as the password."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        session: Callable[[PgConnection, dict[str, str]], Session],
        head_s: float,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._make_session = session
        self._head_s = head_s
        host, port = writer.get_extra_info("peername")[:2]
        self.peer = f"pg:{host}:{port}"
        self.local = is_loopback(host)
        self.token = ""
        self.certificate_names: Sequence[str] = ()
        self.certificate_ends = 0

    async def serve(self) -> None:
        """Serve the connection to its end."""
        try:
            async with asyncio.timeout(self._head_s):
                options = await self._start()
            if options is not None:
                await self._converse(self._make_session(self, options))
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            pass
        except PSoupError as problem:
            with suppress(ConnectionError):
                self._writer.write(messages.told(b"E", errors.fields_of(problem, severity="FATAL")))
                await self._writer.drain()
        finally:
            self._writer.close()

    async def _start(self) -> dict[str, str] | None:
        """Read the start-up packet, and let the client in. Returns its parameters; None for a cancel request."""
        while True:
            size = struct.unpack("!i", await self._reader.readexactly(4))[0]
            if not 8 <= size <= _STARTUP_BYTES:
                raise malformed(f"a start-up packet of {size} bytes")
            body = Body(await self._reader.readexactly(size - 4))
            code = body.int32()
            if code in (messages.TLS, messages.GSS):
                self._writer.write(b"N")
                continue
            if code == messages.CANCEL:
                return None
            if code >> 16 != 3:
                raise malformed(f"version {code >> 16}.{code & 0xFFFF}; this service speaks 3.0")
            options = _pairs(body)
            break
        self._writer.write(messages.authentication(0))
        for name, value in _SETTINGS.items():
            self._writer.write(messages.parameter_status(name, value))
        self._writer.write(messages.backend_key(0, 0) + messages.ready(b"I"))
        await self._writer.drain()
        return options

    async def _converse(self, session: Session) -> None:
        try:
            while True:
                kind = await self._reader.readexactly(1)
                size = struct.unpack("!i", await self._reader.readexactly(4))[0]
                if not 4 <= size <= _MESSAGE_BYTES:
                    raise malformed(f"a message of {size} bytes")
                body = Body(await self._reader.readexactly(size - 4))
                if kind == b"X":
                    return
                if kind == b"Q":
                    await self._query(session, body.text())
                else:
                    raise malformed(f"a message of kind {kind!r}")
        finally:
            await session.close()

    async def _query(self, session: Session, text: str) -> None:
        """Run the statements of the simple protocol, up to the first that fails."""
        part = text
        try:
            parts = session.split(text)
            if not parts:
                self._writer.write(messages.EMPTY_QUERY)
            for part in parts:
                statement = await session.read(part)
                if statement is None:
                    continue
                sink = ClientSink(self._writer, ())
                self._writer.write(messages.complete(await statement.run((), sink)))
        except PSoupError as problem:
            self._failed(session, problem, part)
        except Exception as defect:
            _log.exception("a defect ended a statement")
            self._failed(session, Internal(f"the statement failed by a defect ({type(defect).__name__})"), part)
        self._writer.write(messages.ready(session.status))
        await self._writer.drain()

    def _failed(self, session: Session, problem: PSoupError, text: str) -> None:
        session.failed()
        self._writer.write(messages.told(b"E", errors.fields_of(problem, text)))


class ClientSink:
    """The client as the receiver of rows."""

    def __init__(self, writer: asyncio.StreamWriter, formats: Sequence[int]) -> None:
        self._writer = writer
        self._formats = formats
        self._columns: Sequence[Column] = ()
        self.rows = 0

    async def begin(self, columns: Sequence[Column]) -> None:
        """Send the columns."""
        self._columns = columns
        formats = [TEXT] * len(columns)
        sizes = [size_of(column.oid) for column in columns]
        self._writer.write(messages.row_description(columns, sizes, formats))

    async def batch(self, rows: pa.RecordBatch) -> None:
        """Send rows."""
        self.rows += rows.num_rows
        self._writer.write(data_rows(rows, self._columns, [TEXT] * len(self._columns)))
        await self._writer.drain()

    def notice(self, notice: Notice) -> None:
        """Send a notice."""
        fields = {"S": notice.severity, "V": notice.severity, "C": notice.code, "M": notice.message}
        self._writer.write(messages.told(b"N", fields | {"D": notice.detail, "H": notice.hint}))

    async def copy_out(self, columns: Sequence[Column], copied_format: int) -> None:
        """Begin a COPY TO STDOUT."""
        raise NotSupported("COPY is not supported yet")

    async def copy_in(self, columns: int, copied_format: int) -> bytes:
        """Begin or go on with a COPY FROM STDIN."""
        raise NotSupported("COPY is not supported yet")


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
