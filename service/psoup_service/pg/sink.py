"""The client as the receiver of a statement's rows: DataRow messages, or the data of a COPY.

    batch ─> pieces of some PIECE_BYTES ─> messages, made on a thread ─> channel ─> client

A portal with a row limit stops between two rows, until the client asks for more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from psoup.errors import FailedPrecondition, InvalidInput, Unavailable
from psoup_service.pg import messages
from psoup_service.pg.account import Account
from psoup_service.pg.channel import Channel
from psoup_service.pg.contract import TEXT, Argument, Column, CopyEncoder, Notice, Statement
from psoup_service.pg.input import Input, Message
from psoup_service.pg.messages import malformed
from psoup_service.pg.values import data_rows, size_of
from psoup_service.pg.values.zones import Zone
from psoup_service.wire.decoders import Decoders

PIECE_BYTES = 256 * 1024
"""The approximate bytes of rows that are encoded at once."""

_SHORT_BYTES = 8 * 1024
"""The bytes of rows up to which the event loop encodes them. A thread encodes more."""

_SHOWN = 256
"""The most characters of a client's reason that an error repeats."""

_IGNORED = frozenset({b"d", b"H", b"S"})
"""Messages that have no effect within a COPY: empty data, Flush, and the Sync that libpq sends with Execute."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The parts of a connection that its statements use. `peer`: its name. `stalled_s`: the longest wait for data.

    `statement_bytes`: the most bytes of a statement that is not an INSERT.
    """

    channel: Channel
    input: Input
    account: Account
    encoders: Decoders
    peer: str
    stalled_s: float
    statement_bytes: int


class ClientSink:
    """The receiver of one execution. See `contract.Sink`.

    `full`: a future that is done when the row limit is reached, and the sink waits for `allow`.
    """

    def __init__(
        self,
        exchange: Exchange,
        zone: Zone,
        *,
        formats: Callable[[Sequence[Column]], list[int]] | None = None,
        described: Sequence[Column] | None = None,
    ) -> None:
        """`zone`: for texts of timestamps. `formats`: returns the format of each column; None in the simple protocol,
        which tells the columns with each result. `described`: the columns that the client was told before, if any.
        """
        self.rows = self.total = 0
        """The rows since the last `allow`, and all rows."""
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exchange = exchange
        self._channel = exchange.channel
        self._formats_of = formats
        self._described = described
        self._zone = zone
        self._columns: Sequence[Column] = ()
        self._formats: list[int] = []
        self._encoder: CopyEncoder | None = None
        self._copying = False
        self._left: int | None = None
        self._allowed: asyncio.Future[None] | None = None
        self.taker: Callable[[pa.RecordBatch], Awaitable[None]] | None = None
        """A function that takes the rows in place of the client, for MOVE; None without one."""

    async def begin(self, columns: Sequence[Column]) -> None:
        """Send the columns in the simple protocol. Raises FailedPrecondition if they differ from the described ones."""
        self._columns = columns
        if self._formats_of is None:
            self._formats = [TEXT] * len(columns)
            self._channel.write(row_description(columns, self._formats))
            return
        if self._described is not None and tuple(self._described) != tuple(columns):
            raise FailedPrecondition("cached plan must not change result type", reason="RESULT_TYPE")
        self._formats = self._formats_of(columns)

    async def batch(self, rows: pa.RecordBatch) -> None:
        """Send rows. Returns when the client has room for more, and wants more."""
        at, step = 0, _rows_of_a_piece(rows)
        while at < rows.num_rows:
            count = min(step, rows.num_rows - at)
            await self._room(int(rows.nbytes))
            if self._left is not None:
                count = min(count, self._left)
                self._left -= count
            if self.taker is not None:
                await self.taker(rows.slice(at, count))
            else:
                self._channel.write(await self._encoded(rows.slice(at, count)))
            self.rows += count
            self.total += count
            at += count
            await self._channel.spare()
        await self._room(0)

    def notice(self, notice: Notice) -> None:
        """Send a notice."""
        fields = {"S": notice.severity, "V": notice.severity, "C": notice.code, "M": notice.message}
        self._channel.write(messages.told(b"N", fields | {"D": notice.detail, "H": notice.hint}))

    async def copy_out(self, columns: Sequence[Column], copied_format: int, encoder: CopyEncoder) -> None:
        """Begin a COPY TO STDOUT."""
        self._left, self._encoder = None, encoder
        self._channel.write(messages.copy_response(b"H", copied_format, len(columns)) + encoder.head())

    async def copy_in(self, columns: int, copied_format: int) -> bytes:
        """Begin or go on with a COPY FROM STDIN. See `contract.Sink`."""
        if not self._copying:
            self._copying = True
            self._channel.write(messages.copy_response(b"G", copied_format, columns))
        while True:
            message = await self._next()
            if message.kind == b"d" and message.raw:
                return message.raw
            if message.kind == b"c":
                self._copying = False
                return b""
            if message.kind == b"f":
                why = message.body().text()[:_SHOWN]
                raise InvalidInput(f"the client has ended the COPY: {why}", reason="CANCELLED")
            if message.kind not in _IGNORED:
                raise malformed(f"its kind is {message.kind!r}, and a COPY waits for data")

    def end(self) -> None:
        """End a COPY TO STDOUT, if there is one."""
        if self._encoder is not None:
            self._channel.write(self._encoder.end() + messages.COPY_DONE)

    def allow(self, limit: int) -> None:
        """Let `limit` more rows pass; 0 for all. `rows` starts at 0 again, because each Execute has its own tag."""
        self._left, self.rows = limit or None, 0
        self.full = asyncio.get_running_loop().create_future()
        if self._allowed is not None and not self._allowed.done():
            self._allowed.set_result(None)

    async def _next(self) -> Message:
        """The next message of a COPY. Raises Unavailable if none comes for a long time."""
        seconds = self._exchange.stalled_s
        try:
            message = await self._exchange.input.next(seconds)
        except TimeoutError:
            raise Unavailable(
                f"no data of the COPY came for {seconds:g} s, so it is ended; send it again", reason="STREAM_IDLE"
            ) from None
        if message.problem is not None:
            raise message.problem
        return message

    async def _encoded(self, rows: pa.RecordBatch) -> bytes:
        """The messages of rows. A thread makes long ones."""
        exchange, size = self._exchange, int(rows.nbytes)
        if size <= _SHORT_BYTES:
            return self._messages(rows)
        return await exchange.encoders.run(exchange.peer, size, lambda: self._messages(rows))

    def _messages(self, rows: pa.RecordBatch) -> bytes:
        if self._encoder is not None:
            return self._encoder.rows(rows)
        return data_rows(rows, self._columns, self._formats, self._zone)

    async def _room(self, size: int) -> None:
        """Wait at the row limit until the client asks for more rows. `size`: the bytes to charge while rows wait."""
        if self._left != 0:
            return
        self._exchange.account.add(size)
        try:
            while self._left == 0:
                self._allowed = asyncio.get_running_loop().create_future()
                if not self.full.done():
                    self.full.set_result(None)
                await self._allowed
        finally:
            self._exchange.account.give_back(size)


async def run_into(sink: ClientSink, statement: Statement, arguments: Sequence[Argument]) -> bytes:
    """Run a statement. Returns the message of its end. Raises a PSoupError."""
    tag = await statement.run(arguments, sink)
    sink.end()
    return messages.complete(tag)


def row_description(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """The message with the columns of a result. `formats`: the format of each column."""
    return messages.row_description(columns, [size_of(column.oid) for column in columns], formats)


def _rows_of_a_piece(rows: pa.RecordBatch) -> int:
    """The number of rows to encode at once: about PIECE_BYTES, if all rows have the same size."""
    pieces = -(-int(rows.nbytes) // PIECE_BYTES)
    return -(-int(rows.num_rows) // max(1, pieces))
