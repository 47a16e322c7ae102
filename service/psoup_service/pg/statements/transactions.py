"""Transactions: BEGIN, COMMIT, ROLLBACK and savepoints.

BEGIN ──> T ──COMMIT──> I          a statement fails: T ──> E ──ROLLBACK, COMMIT──> I
          └──ROLLBACK─> I                                   └──ROLLBACK TO name──> T
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from psoup.errors import FailedPrecondition, InvalidInput
from psoup_service.host.reads.held_snapshots import HeldSnapshot
from psoup_service.pg.contract import Notice, Sink
from psoup_service.pg.cursors.cursors import Cursors
from psoup_service.pg.statements.settings import SessionSettings
from psoup_service.pg.statements.settings_statements import transaction_modes
from psoup_service.pg.statements.utility import Utility
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.row_buffer import Mark, RowBuffer

IDLE, OPEN, FAILED = b"I", b"T", b"E"
"""The states of a session: outside of a transaction, within one, within one that has failed."""

MOST_SAVEPOINTS = 1_000

_NAME = 63
"""The characters of a savepoint's name that count, as in PostgreSQL. Further ones are cut off."""


@dataclass(frozen=True, slots=True)
class Savepoint:
    """The state of a transaction at a SAVEPOINT. `cursors`: see `Cursors.mark`."""

    name: str
    rows: Mark
    cursors: int


@dataclass(slots=True)
class Transaction:
    """A transaction under way. `rows`: wait for COMMIT. `moment`: the snapshot of its reads.

    `savepoints`: each with the rows before it, the oldest first.
    """

    rows: RowBuffer
    moment: HeldSnapshot
    savepoints: list[Savepoint] = field(default_factory=list)


class Transactions:
    """The transactions of a session, one after the other. `status`: see `contract.Session`."""

    def __init__(
        self,
        settings: SessionSettings,
        report: Callable[[dict[str, str]], None],
        begin: Callable[[], Transaction],
        read: Callable[[HeldSnapshot | None], None],
        cursors: Cursors,
    ) -> None:
        """`report`: tells the client of the settings that differ from those given. `begin`: makes a transaction.

        `read`: sets the snapshot of the session's reads, None for the published one. `cursors`: end with a transaction.
        """
        self.status = IDLE
        self.current: Transaction | None = None
        self._settings = settings
        self._report = report
        self._make = begin
        self._read = read
        self._cursors = cursors

    def fail(self) -> None:
        """Note that a statement has failed."""
        if self.status == OPEN:
            self.status = FAILED

    def check(self) -> None:
        """Raise FailedPrecondition if a statement of the transaction has failed."""
        if self.status == FAILED:
            raise FailedPrecondition(
                "current transaction is aborted, commands ignored until end of transaction block",
                reason="TRANSACTION_FAILED",
            )

    async def abandon(self) -> None:
        """End the transaction without its effects, if there is one."""
        if self.current is not None:
            await self._end(success=False)

    # Statements -----------------------------------------------------------------------------------------------

    def read_begin(self, words: Words, tag: str) -> Utility:
        """BEGIN and START TRANSACTION, after their first word. Raises SqlError."""
        if tag == "START TRANSACTION":
            words.expect("TRANSACTION")
        elif not words.accept("TRANSACTION"):
            words.accept("WORK")
        modes = transaction_modes(words)

        async def run(sink: Sink) -> str:
            if self.status != IDLE:
                self._warn(sink, "25001", "there is already a transaction in progress")
                return tag
            self._begin(modes)
            return tag

        return Utility(run)

    def read_commit(self, words: Words) -> Utility:
        """COMMIT and END, after their first word. Raises SqlError."""
        if words.next() == "PREPARED":
            raise words.source.unsupported("COMMIT PREPARED", words.place)
        chained = _chained(words)

        async def run(sink: Sink) -> str:
            if self.status == IDLE:
                self._warn(sink, "25P01", "there is no transaction in progress")
                return "COMMIT"
            success = self.status == OPEN
            await self._end(success=success)
            if chained:
                self._begin({})
            return "COMMIT" if success else "ROLLBACK"

        return Utility(run)

    def read_rollback(self, words: Words) -> Utility:
        """ROLLBACK and ABORT, after their first word. Raises SqlError."""
        if words.next() == "PREPARED":
            raise words.source.unsupported("ROLLBACK PREPARED", words.place)
        if not words.accept("TRANSACTION"):
            words.accept("WORK")
        if words.accept("TO"):
            words.accept("SAVEPOINT")
            name = words.name()
            words.end()
            return self._back_to(name)
        chained = _chained(words)

        async def run(sink: Sink) -> str:
            if self.status == IDLE:
                self._warn(sink, "25P01", "there is no transaction in progress")
                return "ROLLBACK"
            await self._end(success=False)
            if chained:
                self._begin({})
            return "ROLLBACK"

        return Utility(run)

    def read_savepoint(self, words: Words) -> Utility:
        """SAVEPOINT, after its first word. Raises SqlError."""
        name = words.name()
        words.end()

        async def run(sink: Sink) -> str:
            current = self._within("SAVEPOINT")
            if len(current.savepoints) >= MOST_SAVEPOINTS:
                raise InvalidInput(f"a transaction has at most {MOST_SAVEPOINTS:,} savepoints")
            current.savepoints.append(Savepoint(name[:_NAME], current.rows.mark(), self._cursors.mark()))
            return "SAVEPOINT"

        return Utility(run)

    def read_release(self, words: Words) -> Utility:
        """RELEASE, after its first word. Raises SqlError."""
        words.accept("SAVEPOINT")
        name = words.name()
        words.end()

        async def run(sink: Sink) -> str:
            savepoints = self._within("RELEASE SAVEPOINT").savepoints
            del savepoints[_place(savepoints, name) :]
            return "RELEASE"

        return Utility(run)

    def _back_to(self, name: str) -> Utility:
        async def run(sink: Sink) -> str:
            current = self._within("ROLLBACK TO SAVEPOINT")
            place = _place(current.savepoints, name)
            await self._cursors.back_to(current.savepoints[place].cursors)
            await current.rows.back_to(current.savepoints[place].rows)
            del current.savepoints[place + 1 :]
            self.status = OPEN
            return "ROLLBACK"

        return Utility(run)

    # Inside ---------------------------------------------------------------------------------------------------

    def _begin(self, modes: dict[str, str]) -> None:
        self._settings.begin()
        for name, value in modes.items():
            self._settings.set(f"transaction_{name}", value)
        self.status, self.current = OPEN, self._make()
        self._read(self.current.moment)

    async def _end(self, *, success: bool) -> None:
        """End the transaction. Raises a PSoupError if its rows cannot be pushed; it has ended then, too."""
        assert self.current is not None, "a transaction is under way"
        rows, before = self.current.rows, self._settings.reported()
        self._read(None)
        self.current.moment.release()
        try:
            if success:
                await rows.push()
            else:
                await rows.forget()
        except BaseException:
            success = False
            raise
        finally:
            self._settings.end(success=success)
            self.status, self.current = IDLE, None
            self._report(before)
            await self._cursors.end_transaction(success=success)

    def _within(self, statement: str) -> Transaction:
        if self.current is None:
            raise FailedPrecondition(f"{statement} can only be used in transaction blocks", reason="NO_TRANSACTION")
        return self.current

    def _warn(self, sink: Sink, code: str, message: str) -> None:
        if self._settings.warnings:
            sink.notice(Notice("WARNING", code, message))


def _chained(words: Words) -> bool:
    """Whether the next words are AND CHAIN. Nothing follows. Raises SqlError."""
    if not words.accept("TRANSACTION"):
        words.accept("WORK")
    chained = words.accept("AND", "CHAIN")
    if not chained:
        words.accept("AND", "NO", "CHAIN")
    words.end()
    return chained


def _place(savepoints: list[Savepoint], name: str) -> int:
    """The place of the last savepoint with a name. Raises InvalidInput if there is none."""
    for place in reversed(range(len(savepoints))):
        if savepoints[place].name == name[:_NAME]:
            return place
    raise InvalidInput(f'savepoint "{name[:60]}" does not exist', reason="UNKNOWN_SAVEPOINT")
