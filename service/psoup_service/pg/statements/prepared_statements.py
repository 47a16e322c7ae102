"""PREPARE, EXECUTE and DEALLOCATE: prepared statements by the names that SQL gives them.

PREPARE hot (float8) AS SELECT … WHERE price > $1  ─>  EXECUTE hot (7.5)  ─>  as Parse, Bind and Execute
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from psoup.errors import InvalidInput, NotFound
from psoup.sql import first_word
from psoup_service.pg.contract import TEXT, Argument, Sink, Statement
from psoup_service.pg.statement_texts import QUERY_WORDS
from psoup_service.pg.statements.parameters import CASTS
from psoup_service.pg.statements.utility import Utility
from psoup_service.pg.statements.words import Words
from psoup_service.pg.values.types import TEXT_OID

MOST = 1_000
"""The most statements that PREPARE may make in a session."""
MOST_BYTES = 4 << 20
"""The most characters of their texts together."""

_PREPARED = QUERY_WORDS | {"INSERT"}
"""The first words of statements that PREPARE takes."""

Read = Callable[[str, Sequence[int]], Awaitable[Statement | None]]


class PreparedStatements:
    """The statements of PREPARE. `read`: reads a statement. `forget`: closes statements of the extended
    protocol, see `contract.Announcer`."""

    def __init__(self, read: Read, forget: Callable[[str | None], bool]) -> None:
        self._read = read
        self._forget = forget
        self._statements = dict[str, tuple[Statement, str]]()

    def forget_all(self) -> None:
        """Forget all statements, also of the extended protocol."""
        self._statements.clear()
        self._forget(None)

    def read_deallocate(self, words: Words) -> Utility:
        """DEALLOCATE, after its first word. Raises SqlError."""
        words.accept("PREPARE")
        name = None if words.accept("ALL") else words.name()
        words.end()

        async def run(sink: Sink) -> str:
            if name is None:
                self.forget_all()
                return "DEALLOCATE ALL"
            is_open = self._forget(name)
            if self._statements.pop(name, None) is None and not is_open:
                raise _missing(name)
            return "DEALLOCATE"

        return Utility(run)

    async def read_prepare(self, words: Words) -> Utility:
        """PREPARE. Raises SqlError, also for a fault of the statement in it."""
        words.expect("PREPARE")
        if words.next() == "TRANSACTION":
            raise words.source.unsupported("PREPARE TRANSACTION", words.place)
        name = words.name()
        oids = _types(words)
        words.expect("AS")
        text = words.rest
        if first_word(text) not in _PREPARED:
            raise words.unexpected("a SELECT or an INSERT")
        statement = await self._read(text, oids)

        async def run(sink: Sink) -> str:
            if name in self._statements:
                raise InvalidInput(f'prepared statement "{name[:60]}" already exists', reason="DUPLICATE_STATEMENT")
            characters = sum(len(other) + len(text) for other, (_, text) in self._statements.items())
            if len(self._statements) >= MOST or characters + len(name) + len(text) > MOST_BYTES:
                raise InvalidInput(
                    "the session has too many prepared statements; DEALLOCATE some", reason="TOO_MANY_OPEN"
                )
            assert statement is not None, "the text is not empty"
            self._statements[name] = (statement, text)
            return "PREPARE"

        return Utility(run)

    def read_execute(self, words: Words) -> Statement:
        """EXECUTE. Raises SqlError, and NotFound for an unknown name."""
        words.expect("EXECUTE")
        name, arguments = words.name(), list[Argument]()
        if words.accept("("):
            while True:
                null = words.accept("NULL")
                arguments.append(Argument(None if null else words.value().encode(), TEXT, 0))
                if not words.accept(","):
                    break
            words.expect(")")
        words.end()
        if name not in self._statements:
            raise _missing(name)
        return _Execution(self._statements[name][0], arguments)


def _types(words: Words) -> list[int]:
    """Read the types of parameters in parentheses, if there are any. A type that is not known is a text."""
    oids = list[int]()
    if not words.accept("("):
        return oids
    while True:
        name = words.name()
        while words.next() not in (",", ")", ""):
            name += f" {words.next().lower()}"
            words.skip()
        oids.append(CASTS.get(name, TEXT_OID))
        if not words.accept(","):
            break
    words.expect(")")
    return oids


class _Execution:
    """A prepared statement with its arguments."""

    def __init__(self, statement: Statement, arguments: Sequence[Argument]) -> None:
        self._statement = statement
        self._arguments = arguments
        self.describe = statement.describe

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        return await self._statement.run(self._arguments, sink)


def _missing(name: str) -> NotFound:
    return NotFound(f'prepared statement "{name[:60]}" does not exist', reason="UNKNOWN_STATEMENT")
