"""Prepared statements and portals of a connection: bounded in number, and their bytes are charged.

    Parse ─> Prepared ── Bind ─> Portal ── Execute ─> all rows, or some: the portal then waits for the next Execute

A portal with a row limit runs as a task of its own, which stops within its sink.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from psoup.errors import AlreadyExists, InvalidInput, NotFound, ResourceExhausted
from psoup_service.pg.account import Account
from psoup_service.pg.contract import TEXT, Argument, Column, Description, Statement
from psoup_service.pg.cursors.cursor import Take
from psoup_service.pg.messages import SUSPENDED, complete
from psoup_service.pg.sink import ClientSink, run_into

MOST_STATEMENTS = 1_000
"""The most prepared statements of a connection. JDBC keeps 256, asyncpg and psycopg 100."""

MOST_PORTALS = 100
"""The most open portals of a connection."""

_ENTRY_BYTES = 1_000
"""The bytes that a statement or portal is charged in addition to its text or arguments."""

_NUMBER_BYTES = 40
"""The bytes of a number in a tuple."""


class Prepared:
    """A prepared statement. `statement`: None for an empty text. `types`: the parameters' types that Parse named."""

    def __init__(self, text: str, statement: Statement | None, types: tuple[int, ...]) -> None:
        self.text = text
        self.statement = statement
        self.types = types
        self.size = _ENTRY_BYTES + 4 * len(text) + _NUMBER_BYTES * len(types)
        self._description: Description | None = None

    async def describe(self) -> Description:
        """The parameters and columns. The statement is described once. Raises a PSoupError."""
        if self._description is None:
            if self.statement is None:
                self._description = Description(self.types, None)
            else:
                self._description = await self.statement.describe()
        return self._description

    async def has_rows(self) -> bool:
        """Whether the statement returns rows. Tells the client nothing. Raises a PSoupError."""
        if self.statement is None:
            return False
        description = self._description or await self.statement.describe()
        return description.columns is not None

    def type_of(self, number: int) -> int:
        """The type of a parameter: as described, else as Parse named it, else 0."""
        types = self.types if self._description is None else self._description.parameters
        return types[number] if number < len(types) else 0

    def shown_columns(self) -> tuple[Column, ...] | None:
        """The columns in the last Describe; None without one."""
        return None if self._description is None else self._description.columns


class Portal:
    """A statement with arguments. `formats`: the formats of its columns, as Bind gave them."""

    def __init__(self, prepared: Prepared, arguments: Sequence[Argument], formats: Sequence[int], size: int) -> None:
        self.prepared = prepared
        self.size = _ENTRY_BYTES + size + 8 * len(formats)
        self._arguments = arguments
        self._formats = formats
        self._sink: ClientSink | None = None
        self._task: asyncio.Task[bytes] | None = None
        self._ended = False

    def column_formats(self, columns: Sequence[Column]) -> list[int]:
        """The format of each column. Raises InvalidInput if Bind gave another number of formats."""
        if len(self._formats) <= 1:
            return [self._formats[0] if self._formats else TEXT] * len(columns)
        if len(self._formats) != len(columns):
            raise InvalidInput(
                f"Bind gives {len(self._formats)} formats for the columns, and the statement has {len(columns)}",
                reason="PROTOCOL",
            )
        return list(self._formats)

    async def execute(self, sink: ClientSink, limit: int) -> bytes:
        """Run the statement, or go on with it, for at most `limit` rows; 0 for all. Returns the last message.

        Raises a PSoupError. CancelledError ends the statement.
        """
        statement = self.prepared.statement
        assert statement is not None, "an empty text is not executed"
        if self._ended:
            return complete("SELECT 0")
        if self._task is None and not limit:
            self._ended = True
            return await run_into(sink, statement, self._arguments)
        if self._task is None or self._sink is None:
            sink.allow(limit)
            self._sink, self._task = sink, asyncio.create_task(run_into(sink, statement, self._arguments))
        else:
            self._sink.allow(limit)
        return await self._advance(self._sink, self._task)

    @property
    def position(self) -> int:
        """The number of rows that were sent or skipped."""
        return 0 if self._sink is None else self._sink.total

    @property
    def on_row(self) -> bool:
        """Whether the position is a row, and not before the first row or after the last one."""
        return self.position > 0 and not self._ended

    async def read(self, sink: ClientSink, limit: int | None, take: Take) -> int:
        """Hand the next rows to `take` instead of the client: at most `limit`, None for all. Returns their number.

        `sink`: receives the rows of a portal that has not run yet. Raises as `execute` does.
        """
        if limit == 0:
            return 0
        sink = self._sink = self._sink or sink
        before, sink.taker = sink.total, take
        try:
            await self.execute(sink, limit or 0)
        finally:
            sink.taker = None
        return sink.total - before

    async def close(self, cause: object = None) -> None:
        """End the statement, if it runs. `cause`: the error that ends it."""
        task, self._task, self._ended = self._task, None, True
        if task is not None and not task.done():
            task.cancel(cause)
            await asyncio.wait((task,))
        if task is not None and not task.cancelled():
            task.exception()  # else asyncio logs the error of a statement that its client does not go on with

    async def _advance(self, sink: ClientSink, task: asyncio.Task[bytes]) -> bytes:
        try:
            await asyncio.wait((task, sink.full), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError as ending:
            await self.close(*ending.args)
            raise
        if not task.done():
            return SUSPENDED
        self._ended = True
        return task.result()


Entry = TypeVar("Entry", Prepared, Portal)


class Named(Generic[Entry]):
    """The statements or the portals of a connection, by name. The unnamed one is replaced without being closed."""

    def __init__(self, kind: str, limit: int, account: Account) -> None:
        self._kind = kind
        self._limit = limit
        self._account = account
        self._entries: dict[str, Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def check(self, name: str) -> None:
        """Raise the error if no entry may be added with that name."""
        if name in self._entries and name:
            code = "DUPLICATE_STATEMENT" if self._kind == "prepared statement" else "DUPLICATE_PORTAL"
            raise AlreadyExists(f"{self._kind} {name[:63]!r} already exists; close it first", reason=code)
        if len(self._entries) >= self._limit and name not in self._entries:
            raise ResourceExhausted(
                f"{self._kind} {name[:63]!r} is one too many: {self._limit:,} are open on this connection, which is the"
                " limit; close some of them",
                reason="TOO_MANY_OPEN",
                limit=self._limit,
            )

    def add(self, name: str, entry: Entry) -> None:
        """Add an entry, whose name was checked, and charge it. Raises ResourceExhausted without room."""
        self._account.add(_size(name, entry))
        self._entries[name] = entry

    def get(self, name: str) -> Entry:
        """The entry with a name. Raises NotFound."""
        entry = self.find(name)
        if entry is None:
            shown = f"{self._kind} {name[:63]!r}" if name else f"unnamed {self._kind}"
            code = "UNKNOWN_STATEMENT" if self._kind == "prepared statement" else "UNKNOWN_PORTAL"
            raise NotFound(f"{shown} does not exist", reason=code)
        return entry

    def find(self, name: str) -> Entry | None:
        """The entry with a name; None if there is none."""
        return self._entries.get(name)

    def remove(self, name: str) -> Entry | None:
        """Remove the entry with a name, and return it; None if there is none."""
        entry = self._entries.pop(name, None)
        if entry is not None:
            self._account.give_back(_size(name, entry))
        return entry

    def names(self) -> list[str]:
        """The names of all entries."""
        return list(self._entries)


def _size(name: str, entry: Prepared | Portal) -> int:
    """The bytes of an entry and of its name, which a client may make as long as a message."""
    return 4 * len(name) + entry.size
