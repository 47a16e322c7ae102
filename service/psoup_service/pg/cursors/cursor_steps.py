"""The rows that a FETCH or a MOVE takes of its cursor, read from the words of the statement.

    FORWARD 5     ──> 5 rows                RELATIVE 5 ──> leaves out 4 rows, then 1 row
    FORWARD ALL   ──> all rows              BACKWARD 5 ──> refused

Cursors read forward only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from psoup.errors import FailedPrecondition
from psoup_service.pg.cursors.cursor import Take
from psoup_service.pg.statements.words import Words

_NUMBER = re.compile(r"[+-]?\d+")
_LONGEST = 18
"""The most characters of a number."""
_DIRECTIONS = frozenset(
    {"NEXT", "PRIOR", "FIRST", "LAST", "ABSOLUTE", "RELATIVE", "ALL", "FORWARD", "BACKWARD", "FROM", "IN"}
)


class Readable(Protocol):
    """A cursor, or a portal of the extended protocol."""

    name: str

    @property
    def position(self) -> int:
        """The rows that are read."""
        ...

    @property
    def on_row(self) -> bool:
        """Whether a row was read last, and neither the begin nor the end of the rows."""
        ...

    def fail(self) -> None:
        """Note that a FETCH or MOVE has failed."""
        ...

    async def read(self, limit: int | None, take: Take) -> int:
        """Hand the next rows to `take`: at most `limit`, or all if it is None. Returns their number."""
        ...


@dataclass(frozen=True, slots=True)
class Steps:
    """The rows to take: `count` rows, or all if it is None, after `skipped` rows. `backward`: before the present row.

    `absolute`: `skipped` counts from the first row of the cursor, and not from its present position.
    """

    count: int | None
    skipped: int = 0
    absolute: bool = False
    backward: bool = False

    async def fetch(self, cursor: Readable, take: Take) -> int:
        """Hand the rows to `take`. Returns their number. Raises FailedPrecondition for rows that were read before."""
        skipped = self.skipped - (cursor.position if self.absolute else 0)
        if self.backward or skipped < 0 or (self.count == 0 and cursor.on_row):
            cursor.fail()
            raise FailedPrecondition(
                f'cursor "{cursor.name[:63]}" can only scan forward; declare it again to read from its first row',
                reason="CURSOR_FORWARD",
            )
        if skipped:
            await cursor.read(skipped, _leave_out)
        return await cursor.read(self.count, take)

    async def move(self, cursor: Readable) -> int:
        """Leave the rows out. Returns their number. Raises FailedPrecondition for rows that were read before."""
        if self.count == 0 and not self.absolute:
            on_row = cursor.on_row
            return int(on_row) + await cursor.read(0, _leave_out)
        if self == _TO_START and not cursor.position:
            return await cursor.read(0, _leave_out)
        return await self.fetch(cursor, _leave_out)


_TO_START = Steps(None, backward=True)
"""BACKWARD ALL. MOVE takes it before the first row."""


def read_steps(words: Words) -> tuple[Steps, str]:
    """The rows, and the name of the cursor: the words of FETCH or MOVE up to the end. Raises SqlError."""
    steps = _steps(words) if _has_steps(words) else Steps(1)
    if not words.accept("FROM"):
        words.accept("IN")
    name = words.name()
    words.end()
    return steps, name


def _has_steps(words: Words) -> bool:
    """Whether a direction comes next. A direction as the only word is the name of a cursor."""
    word = words.next()
    return bool(_NUMBER.fullmatch(word)) or (word in _DIRECTIONS and words.has(2))


def _steps(words: Words) -> Steps:
    if words.accept("PRIOR") or words.accept("LAST"):
        return Steps(1, backward=True)
    if words.accept("FIRST"):
        return Steps(1, absolute=True)
    absolute = words.accept("ABSOLUTE")
    if absolute or words.accept("RELATIVE"):
        number = _number(words)
        return Steps(min(abs(number), 1), max(0, number - 1), absolute, backward=number < 0)
    words.accept("NEXT")
    back = not words.accept("FORWARD") and words.accept("BACKWARD")
    if words.accept("ALL"):
        return _TO_START if back else Steps(None)
    number = _number(words) if _NUMBER.fullmatch(words.next()) else 1
    return Steps(abs(number), backward=number < 0 if not back else number >= 0)


def _number(words: Words) -> int:
    if not _NUMBER.fullmatch(words.next()) or len(words.next()) > _LONGEST:
        raise words.unexpected(f"a whole number of at most {_LONGEST} characters")
    return int(words.value())


async def _leave_out(rows: pa.RecordBatch) -> None:
    """Leave rows out."""
