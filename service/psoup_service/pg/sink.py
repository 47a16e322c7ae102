"""The client as the receiver of a statement's rows: DataRow messages, or the data of a COPY.

batch ─> pieces of some PIECE_BYTES ─> messages ─> channel, which waits for the client
           └── a portal with a row limit stops between two rows, until the client asks for more
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import pyarrow as pa

from psoup.errors import FailedPrecondition, NotSupported
from psoup_service.pg import messages
from psoup_service.pg.channel import Channel
from psoup_service.pg.contract import TEXT, Column, CopyEncoder, Notice
from psoup_service.pg.input import Input
from psoup_service.pg.values import data_rows, size_of
from psoup_service.pg.values.zones import Zone

PIECE_BYTES = 256 * 1024
"""The approximate bytes of rows that are encoded at once."""


class ClientSink:
    """The receiver of one execution. See `contract.Sink`.

    `described`: the columns that the client was told before, if any; then it is not told again. `formats`: returns the
    format of each column. `full`: is done while the sink waits for `allow`.
    """

    def __init__(
        self,
        channel: Channel,
        input: Input,
        zone: Zone,
        *,
        formats: Callable[[Sequence[Column]], list[int]] | None = None,
        described: Sequence[Column] | None = None,
    ) -> None:
        """`zone`: for texts of timestamps. `formats`: None in the simple protocol, which always tells the columns."""
        self.rows = 0
        self.full: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._channel = channel
        self._input = input
        self._formats_of = formats
        self._described = described
        self._zone = zone
        self._columns: Sequence[Column] = ()
        self._formats: list[int] = []
        self._encoder: CopyEncoder | None = None
        self._copying_in = False
        self._left: int | None = None
        self._allowed: asyncio.Future[None] | None = None

    async def begin(self, columns: Sequence[Column]) -> None:
        """Tell the client the columns, unless it knows them. Raises FailedPrecondition if they are not as described."""
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
            await self._room()
            if self._left is not None:
                count = min(count, self._left)
                self._left -= count
            piece = rows.slice(at, count)
            if self._encoder is not None:
                self._channel.write(self._encoder.rows(piece))
            else:
                self._channel.write(data_rows(piece, self._columns, self._formats, self._zone))
            self.rows += count
            at += count
            await self._channel.drain()
        await self._room()

    def notice(self, notice: Notice) -> None:
        """Send a notice."""
        fields = {"S": notice.severity, "V": notice.severity, "C": notice.code, "M": notice.message}
        self._channel.write(messages.told(b"N", fields | {"D": notice.detail, "H": notice.hint}))

    async def copy_out(self, columns: Sequence[Column], copied_format: int, encoder: CopyEncoder) -> None:
        """Begin a COPY TO STDOUT."""
        self._left, self._encoder = None, encoder
        self._channel.write(messages.copy_response(b"H", copied_format, len(columns)) + encoder.head())

    async def copy_in(self, columns: int, copied_format: int) -> bytes:
        """Begin or go on with a COPY FROM STDIN."""
        raise NotSupported("COPY is not supported yet")

    def allow(self, limit: int) -> None:
        """Let `limit` more rows through; 0 for all."""
        self._left = limit or None
        self.full = asyncio.get_running_loop().create_future()
        if self._allowed is not None and not self._allowed.done():
            self._allowed.set_result(None)

    async def _room(self) -> None:
        """Wait until the client wants more rows."""
        while self._left == 0:
            self._allowed = asyncio.get_running_loop().create_future()
            if not self.full.done():
                self.full.set_result(None)
            await self._allowed


def row_description(columns: Sequence[Column], formats: Sequence[int]) -> bytes:
    """The message with the columns of a result. `formats`: the format of each column."""
    return messages.row_description(columns, [size_of(column.oid) for column in columns], formats)


def _rows_of_a_piece(rows: pa.RecordBatch) -> int:
    """The rows that are encoded at once: about PIECE_BYTES, if all rows have the same size."""
    pieces = -(-int(rows.nbytes) // PIECE_BYTES)
    return -(-int(rows.num_rows) // max(1, pieces))
