"""Rows of INSERT and COPY: a session pushes them at once, or at COMMIT."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable

import pyarrow as pa

from psoup.errors import FailedPrecondition
from psoup_service.pg.account import Account
from psoup_service.pg.statements.present_times import Now
from psoup_service.pg.statements.settings import SessionSettings
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.row_buffer import Pushing, RowBuffer
from psoup_service.pg.statements.writing.targets import Named, Target, target_of
from psoup_service.pg.values.zones import Zone


class Writes:
    """Takes rows of INSERT and COPY. `waiting`: the rows of the present transaction; None outside of one.

    `now`: returns the present time.
    """

    def __init__(
        self,
        calls: Pushing,
        settings: SessionSettings,
        account: Account,
        waiting: Callable[[], RowBuffer | None],
        now: Callable[[], Now],
    ) -> None:
        self.now = now
        self._calls = calls
        self._settings = settings
        self._account = account
        self._waiting = waiting

    @property
    def zone(self) -> Zone:
        """The session's zone, for times without one."""
        return self._settings.zone

    async def target(self, words: Words, named: Named) -> Target:
        """The stream that a statement writes. Raises SqlError."""
        return await target_of(self._calls.one, words, named)

    def check(self, statement: str) -> None:
        """Raise FailedPrecondition if the transaction must not write. `statement`: its name."""
        if self._settings.read_only:
            raise FailedPrecondition(f"cannot execute {statement} in a read-only transaction", reason="READ_ONLY")

    def rows(self) -> RowBuffer:
        """A new buffer, for the rows of one statement outside of a transaction."""
        return RowBuffer(self._calls, self._account)

    async def write(self, stream: str, batches: AsyncIterable[pa.RecordBatch]) -> None:
        """Take the rows of an INSERT. Raises a PSoupError."""
        self.check("INSERT")
        waiting = self._waiting()
        rows = self.rows() if waiting is None else waiting
        try:
            async for batch in batches:
                await rows.add(stream, batch)
            if waiting is None:
                await rows.push()
        except BaseException:
            if waiting is None:
                await rows.forget()
            raise

    def begun(self) -> RowBuffer | None:
        """The rows of the present transaction; None outside of one."""
        return self._waiting()
