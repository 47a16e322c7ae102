"""A cursor: a SELECT whose rows a client fetches in several statements.

    DECLARE ─> task: SELECT ─ batch ─> waits ── FETCH 100 ──> the next 100 rows
                                         └───── MOVE 100 ───> skips the next 100 rows

The SELECT runs as a task, at most one batch ahead of the client. That batch is charged while it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import pyarrow as pa

from psoup.errors import FailedPrecondition, NotFound
from psoup_service.pg.account import Account
from psoup_service.pg.contract import Argument, Column, Notice, Statement
from psoup_service.pg.rows_only import RowsOnly

Take = Callable[[pa.RecordBatch], Awaitable[None]]

_ENTRY_BYTES = 1_000
"""The bytes that a cursor is charged in addition to its text."""


class Cursor:
    """An open cursor. `text`: its statement. `with_hold`: it outlives its transaction. `position`: the rows read."""

    scrolls: ClassVar[bool] = False
    """Whether rows may be read again."""

    def __init__(self, name: str, text: str, account: Account, created: str, *, with_hold: bool) -> None:
        """`created`: the present time, as ISO 8601."""
        self.name = name
        self.text = text
        self.with_hold = with_hold
        self.created = created
        self.position = 0
        self._account = account
        self._size = 0
        self._feed = _Feed(account)
        self._task: asyncio.Task[str] | None = None
        self._rest: pa.RecordBatch | None = None
        self._usable = True
        self._ended = False

    @property
    def on_row(self) -> bool:
        """Whether the position is a row, and not before the first row or after the last one."""
        return self.position > 0 and not self._ended

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of its rows."""
        return self._feed.columns

    async def open(self, statement: Statement, arguments: Sequence[Argument]) -> None:
        """Begin the SELECT. Returns when its columns are known.

        Raises the error of the SELECT, and ResourceExhausted without room.
        """
        size = _ENTRY_BYTES + 4 * len(self.text)
        self._account.add(size)
        self._size = size
        self._task = asyncio.create_task(statement.run(arguments, self._feed))
        self._task.add_done_callback(self._feed.end)
        try:
            await self._feed.begun.wait()
            if self._task.done():
                self._task.result()
        except BaseException:
            await self.close()
            raise

    async def read(self, limit: int | None, take: Take) -> int:
        """Hand the next rows to `take`: at most `limit`, or all if it is None. Returns their number.

        Raises the error of the SELECT, and NotFound if the cursor is closed meanwhile: `take` of a portal may wait for
        its client. After an error the cursor cannot be read any more.
        """
        before = self.position
        async with self.reading():
            while limit is None or limit:
                rest = self._rest or await self._next()
                if rest is None:
                    self._ended = True
                    break
                rows = rest.slice(0, limit)
                rest = self._rest = rest.slice(rows.num_rows)
                await self.hand(rows, take)
                self.position += rows.num_rows
                limit = None if limit is None else limit - rows.num_rows
                if not rest.num_rows:
                    self._rest = None
                    self._feed.go_on()
        return self.position - before

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[None]:
        """The context of a FETCH or MOVE: after an error in it the cursor cannot be read any more.

        Raises FailedPrecondition if that has happened before.
        """
        if not self._usable:
            raise FailedPrecondition(
                f'cursor "{self.name[:63]}" cannot be read: an earlier FETCH or MOVE has failed; close it',
                reason="CURSOR_BROKEN",
            )
        self._usable = False
        yield
        self._usable = True

    async def hand(self, rows: pa.RecordBatch, take: Take) -> None:
        """Hand rows to `take`. Raises NotFound if the cursor is closed meanwhile."""
        await take(rows)
        if self._task is None:
            raise NotFound(f'cursor "{self.name[:63]}" was closed while it was read', reason="UNKNOWN_PORTAL")

    def fail(self) -> None:
        """Note that a FETCH or MOVE has failed, so that the cursor cannot be read any more."""
        self._usable = False

    def notices(self) -> list[Notice]:
        """The notices of the SELECT since the last call."""
        notices, self._feed.notices = self._feed.notices, []
        return notices

    def stop(self) -> None:
        """End the SELECT, and give back its memory. Does not wait until the SELECT has ended. Idempotent."""
        self._usable, self._rest = False, None
        self._feed.drop()
        size, self._size = self._size, 0
        self._account.give_back(size)
        if self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        """End the SELECT, and wait for its end."""
        self.stop()
        task, self._task = self._task, None
        if task is not None:
            await asyncio.wait((task,))

    async def _next(self) -> pa.RecordBatch | None:
        """The next batch; None at the end. Raises the error of the SELECT."""
        batch = await self._feed.next()
        if batch is None and self._task is not None:
            self._task.result()
        return batch


class _Feed(RowsOnly):
    """The sink of the SELECT: it holds one batch, until the client has read all rows of it. See `contract.Sink`."""

    def __init__(self, account: Account) -> None:
        self.rows = 0
        self.columns: tuple[Column, ...] = ()
        self.notices = list[Notice]()
        self.begun = asyncio.Event()
        self._account = account
        self._batch: pa.RecordBatch | None = None
        self._arrived = asyncio.Event()
        self._read = asyncio.Event()

    async def begin(self, columns: Sequence[Column]) -> None:
        """Take the columns."""
        self.columns = tuple(columns)
        self.begun.set()

    async def batch(self, rows: pa.RecordBatch) -> None:
        """Take a batch. Returns when the client has read it. Raises ResourceExhausted without room."""
        if not rows.num_rows:
            return
        size = int(rows.nbytes)
        self._account.add(size)
        try:
            self._batch = rows
            self._arrived.set()
            await self._read.wait()
            self._read.clear()
        finally:
            self._account.give_back(size)
        self.rows += rows.num_rows

    def notice(self, notice: Notice) -> None:
        """Keep a notice for the next FETCH."""
        self.notices.append(notice)

    async def next(self) -> pa.RecordBatch | None:
        """The next batch, which the client begins to read; None after `end`."""
        await self._arrived.wait()
        batch, self._batch = self._batch, None
        if batch is not None:
            self._arrived.clear()
        return batch

    def go_on(self) -> None:
        """Let the SELECT continue: the client has read the batch."""
        self._read.set()

    def drop(self) -> None:
        """Forget the batch: no client reads it any more."""
        self._batch = None

    def end(self, task: asyncio.Task[str]) -> None:
        """Note that the SELECT has ended. Its error is raised by the next FETCH, if there is one."""
        if not task.cancelled():
            task.exception()
        self.begun.set()
        self._arrived.set()
