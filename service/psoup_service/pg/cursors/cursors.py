"""DECLARE, FETCH, MOVE and CLOSE: the cursors of a session by their names.

    BEGIN ─> DECLARE c CURSOR ─> FETCH 100 FROM c ─> FETCH 100 FROM c ─> COMMIT closes it
             DECLARE c CURSOR WITH HOLD ─> FETCH … ─> CLOSE closes it

A cursor reads forward only, unless it is declared with SCROLL.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from psoup.errors import AlreadyExists, FailedPrecondition, NotFound, ResourceExhausted
from psoup.sql import first_word
from psoup_service.pg.account import Account
from psoup_service.pg.contract import Argument, Column, Description, Sink, Statement
from psoup_service.pg.cursors.cursor import Cursor
from psoup_service.pg.cursors.cursor_steps import Readable, Steps, read_steps
from psoup_service.pg.cursors.scroll_cursor import ScrollCursor
from psoup_service.pg.statement_texts import QUERY_WORDS
from psoup_service.pg.statements.utility import Utility, waiting
from psoup_service.pg.statements.words import Words

MOST_CURSORS = 100
"""The most open cursors of a session. The limit of portals is the same."""

Read = Callable[[str, Sequence[int]], Awaitable[Statement]]


class Cursors:
    """The cursors of a session. `read`: reads a SELECT. `in_transaction`: whether one is under way.

    `portal`: returns the portal of the extended protocol with a name, or None. asyncpg skips rows of portals by MOVE.
    `moment`: returns the present time, as ISO 8601.
    """

    def __init__(
        self,
        read: Read,
        in_transaction: Callable[[], bool],
        portal: Callable[[str], Readable | None],
        account: Account,
        moment: Callable[[], str],
    ) -> None:
        self._portal = portal
        self._read = read
        self._in_transaction = in_transaction
        self._account = account
        self._moment = moment
        self._open = dict[str, Cursor]()
        self._of_transaction = dict[Cursor, int]()
        """The open cursors of the present transaction, in the order of DECLARE, each with its number."""
        self._declared = 0
        """The number of the next cursor of the transaction."""

    def columns(self, name: str) -> tuple[Column, ...] | None:
        """The columns of an open cursor; None if there is none with the name."""
        cursor = self._open.get(name)
        return None if cursor is None else cursor.columns

    def listed(self) -> Mapping[str, str]:
        """The facts for pg_cursors, by name: `t` or `f` for WITH HOLD and for SCROLL, the time, and the statement."""
        return {
            cursor.name: f"{'ft'[cursor.with_hold]}{'ft'[cursor.scrolls]} {cursor.created} {cursor.text}"
            for cursor in self._open.values()
        }

    def mark(self) -> int:
        """A mark of the cursors that are declared up to now, for `back_to`."""
        return self._declared

    async def back_to(self, mark: int) -> None:
        """Close the cursors that the transaction has declared since a mark."""
        await self._close(*[cursor for cursor, number in self._of_transaction.items() if number >= mark])

    async def end_transaction(self, *, success: bool) -> None:
        """Close the cursors that end with the transaction: all but those WITH HOLD, if it succeeds."""
        ended, self._of_transaction = self._of_transaction, {}
        await self._close(*[cursor for cursor in ended if not (success and cursor.with_hold)])

    async def close_all(self) -> None:
        """Close all cursors."""
        await self._close(*self._open.values())

    # Statements -----------------------------------------------------------------------------------------------

    async def read_declare(self, words: Words, types: Sequence[int]) -> Statement:
        """DECLARE, after its first word. `types`: OIDs of its parameters. Raises SqlError, also for the SELECT."""
        name = words.name()
        scroll = _scrolls(words)
        words.expect("CURSOR")
        with_hold = words.accept("WITH", "HOLD")
        if not with_hold:
            words.accept("WITHOUT", "HOLD")
        words.expect("FOR")
        if first_word(words.rest) not in QUERY_WORDS:
            raise words.unexpected("a SELECT")
        select, text = await self._read(words.rest_in_place, types), words.source.text

        async def declare(arguments: Sequence[Argument]) -> None:
            kind = ScrollCursor if scroll else Cursor
            cursor = kind(name, text, self._account, self._moment(), with_hold=with_hold)
            await self._declare(cursor, select, arguments)

        return _Declare(select, declare)

    def read_fetch(self, words: Words) -> Statement:
        """FETCH, after its first word. Raises SqlError."""
        steps, name = read_steps(words)
        return _Fetch(lambda: self._cursor(name), steps)

    def read_move(self, words: Words) -> Utility:
        """MOVE, after its first word. Raises SqlError."""
        steps, name = read_steps(words)

        async def run() -> str:
            portal = None if name in self._open else self._portal(name)
            return f"MOVE {await steps.move(portal or self._cursor(name))}"

        return waiting(run)

    def read_close(self, words: Words) -> Utility:
        """CLOSE, after its first word. Raises SqlError."""
        name = None if words.accept("ALL") else words.name()
        words.end()

        async def run() -> str:
            if name is None:
                await self.close_all()
                return "CLOSE CURSOR ALL"
            await self._close(self._cursor(name))
            return "CLOSE CURSOR"

        return waiting(run)

    # Inside ---------------------------------------------------------------------------------------------------

    async def _declare(self, cursor: Cursor, statement: Statement, arguments: Sequence[Argument]) -> None:
        name = cursor.name
        if not (cursor.with_hold or self._in_transaction()):
            raise FailedPrecondition(
                "DECLARE CURSOR can only be used in transaction blocks, unless it is WITH HOLD", reason="NO_TRANSACTION"
            )
        if name in self._open:
            raise AlreadyExists(f'cursor "{name[:63]}" already exists', reason="DUPLICATE_PORTAL")
        if len(self._open) >= MOST_CURSORS:
            raise ResourceExhausted(
                f'cursor "{name[:63]}" is one too many: {MOST_CURSORS:,} are open on this connection, which is the'
                " limit; close some of them",
                reason="TOO_MANY_OPEN",
                limit=MOST_CURSORS,
            )
        await cursor.open(statement, arguments)
        self._open[name] = cursor
        if self._in_transaction():
            self._of_transaction[cursor] = self._declared
            self._declared += 1

    def _cursor(self, name: str) -> Cursor:
        """The open cursor with a name. Raises NotFound."""
        cursor = self._open.get(name)
        if cursor is None:
            raise NotFound(f'cursor "{name[:63]}" does not exist', reason="UNKNOWN_PORTAL")
        return cursor

    async def _close(self, *cursors: Cursor) -> None:
        """Close cursors, and wait for the ends of their SELECTs. A cancel ends the wait; then all are closed, too."""
        for cursor in cursors:
            if self._open.get(cursor.name) is cursor:
                del self._open[cursor.name]
            self._of_transaction.pop(cursor, None)
            cursor.stop()
        for cursor in cursors:
            await cursor.close()


@dataclass(frozen=True, slots=True)
class _Declare:
    """DECLARE: it has the parameters of its SELECT, and no rows. See `contract.Statement`."""

    select: Statement
    declare: Callable[[Sequence[Argument]], Awaitable[None]]

    async def describe(self) -> Description:
        """The parameters."""
        return Description((await self.select.describe()).parameters, None)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Open the cursor."""
        await self.declare(arguments)
        return "DECLARE CURSOR"


@dataclass(frozen=True, slots=True)
class _Fetch:
    """FETCH: it has the columns of its cursor. See `contract.Statement`."""

    cursor: Callable[[], Cursor]
    steps: Steps

    async def describe(self) -> Description:
        """The columns. Raises NotFound if the cursor is not open."""
        return Description((), self.cursor().columns)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """Send the rows, and the notices of the SELECT."""
        cursor = self.cursor()
        await sink.begin(cursor.columns)
        count = await self.steps.fetch(cursor, sink.batch)
        for notice in cursor.notices():
            sink.notice(notice)
        return f"FETCH {count}"


def _scrolls(words: Words) -> bool:
    """Read the words between the name and CURSOR. Returns whether SCROLL is one of them. Raises SqlError."""
    scroll = False
    while words.next() != "CURSOR":
        place = words.place
        if words.accept("BINARY"):
            raise words.source.unsupported("BINARY CURSOR", place, hint="ask for binary rows by the protocol's Bind")
        if words.accept("SCROLL"):
            scroll = True
        elif not (words.accept("NO", "SCROLL") or words.accept("INSENSITIVE") or words.accept("ASENSITIVE")):
            raise words.unexpected("DECLARE name CURSOR FOR SELECT …")
    return scroll
