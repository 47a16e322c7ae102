"""The terms that the parts of this package share: columns, arguments, statements, and the sink of their rows.

    statement.describe() ──> parameters and columns, before any argument is known
    statement.run(arguments, sink) ──> sink.begin(columns), sink.batch(rows) …, and the tag of the command

`sink.batch` returns when the client has room for more rows. So a statement never runs far ahead of its client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

if TYPE_CHECKING:
    from psoup_service.pg.values.zones import Zone

TEXT, BINARY = 0, 1
"""The formats of values in the protocol."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a result. `oid`: its type in PostgreSQL. `modifier`: the type's modifier, -1 without one.

    `relation`: the OID of the stream or view whose column this is. `attribute`: its number there, from 1. Both are 0
    for the value of an expression.
    """

    name: str
    oid: int
    modifier: int = -1
    relation: int = 0
    attribute: int = 0


@dataclass(frozen=True, slots=True)
class Description:
    """The types of a statement's parameters, and its columns. `columns` is None if the statement returns no rows."""

    parameters: tuple[int, ...]
    columns: tuple[Column, ...] | None


@dataclass(frozen=True, slots=True)
class Argument:
    """A value of a parameter, as the client sent it. `raw` is None for NULL. `format`: TEXT or BINARY."""

    raw: bytes | None
    format: int
    oid: int


@dataclass(frozen=True, slots=True)
class Notice:
    """A message beside the rows. `code`: its SQLSTATE."""

    severity: str
    code: str
    message: str
    detail: str = ""
    hint: str = ""


class CopyEncoder(Protocol):
    """The encoder of a COPY TO STDOUT. Its bytes are complete messages of the protocol (CopyData)."""

    def head(self) -> bytes:
        """The messages before the first row."""
        ...

    def rows(self, rows: pa.RecordBatch) -> bytes:
        """The messages of rows, one for each."""
        ...

    def end(self) -> bytes:
        """The messages after the last row."""
        ...


class Sink(Protocol):
    """The receiver of one execution of a statement."""

    @property
    def rows(self) -> int:
        """The rows that the sink has taken."""
        ...

    async def begin(self, columns: Sequence[Column]) -> None:
        """Take the columns of the rows that follow."""
        ...

    async def batch(self, rows: pa.RecordBatch) -> None:
        """Take rows. Returns when the client has room for more."""
        ...

    def notice(self, notice: Notice) -> None:
        """Send a message beside the rows."""
        ...

    async def copy_out(self, columns: Sequence[Column], copied_format: int, encoder: CopyEncoder) -> None:
        """Begin a COPY TO STDOUT. `encoder` encodes the batches that follow."""
        ...

    async def copy_in(self, columns: int, copied_format: int) -> bytes:
        """Read data of a COPY FROM STDIN from the client. Returns the next piece, b"" at the end.

        The first call begins the COPY. A piece is valid until the next call. Raises a PSoupError if the client ends
        the COPY, or sends nothing for `stream_idle_s` seconds.
        """
        ...


class Announcer(Protocol):
    """The client of a session, outside of its statements."""

    def report(self, name: str, value: str) -> None:
        """Tell the client the value of a setting (ParameterStatus)."""
        ...

    async def notify(self, channel: str, payload: Callable[[], str]) -> None:
        """Send a notification. Returns when it is sent: between two statements, outside of a transaction.

        `payload` is called at that moment. So one notification covers all changes up to then.
        """
        ...

    def forget(self, name: str | None) -> bool:
        """Close a prepared statement of the extended protocol. None closes all. Returns whether there was one."""
        ...


class Statement(Protocol):
    """A statement that a session has read, and that runs any number of times."""

    async def describe(self) -> Description:
        """The types of its parameters and columns. Raises a PSoupError."""
        ...

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Run the statement; returns the tag of the command, such as "SELECT 3". Raises a PSoupError."""
        ...


class Session(Protocol):
    """The state that a connection keeps between statements."""

    @property
    def status(self) -> bytes:
        """b"I" outside of a transaction, b"T" within one, b"E" within one that has failed."""
        ...

    @property
    def listening(self) -> bool:
        """Whether the session listens to a query (LISTEN). Then its connection may be idle for any time."""
        ...

    @property
    def zone(self) -> Zone:
        """The session's TimeZone, for texts of timestamps."""
        ...

    def reported(self) -> Mapping[str, str]:
        """The settings that are sent to the client when the session begins, and when they change."""
        ...

    def cursor(self, name: str) -> Sequence[Column] | None:
        """The columns of the open cursor with a name; None if there is none."""
        ...

    def split(self, text: str) -> list[str]:
        """The statements of a text of the simple protocol. Raises a PSoupError. A thread may call it."""
        ...

    async def read(self, text: str, types: Sequence[int] = ()) -> Statement | None:
        """Read one statement; None for an empty text. `types`: OIDs of parameters, 0 where the client names none.

        Raises a PSoupError.
        """
        ...

    def failed(self) -> None:
        """Note that a statement has failed."""
        ...

    async def close(self) -> None:
        """End the session: its transaction, cursors and subscriptions."""
        ...
