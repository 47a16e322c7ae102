"""The rows that a FETCH or a MOVE takes of its cursor, read from the words of the statement.

    FORWARD 5     ──> the next 5 rows       RELATIVE 5 ──> skips 4 rows, then 1 row
    FORWARD ALL   ──> all later rows        BACKWARD 5 ──> the 5 rows before the present one

A cursor without SCROLL reads forward only. BACKWARD is an error there.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from psoup.errors import FailedPrecondition
from psoup_service.pg.cursors.cursor import Take
from psoup_service.pg.cursors.scroll_cursor import ScrollCursor
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
        """The number of rows that were read."""
        ...

    @property
    def on_row(self) -> bool:
        """Whether the position is a row, and not before the first row or after the last one."""
        ...

    def fail(self) -> None:
        """Note that a FETCH or MOVE has failed."""
        ...

    async def read(self, limit: int | None, take: Take) -> int:
        """Pass the next rows to `take`: at most `limit`, or all if it is None. Returns their number."""
        ...


class Way(enum.Enum):
    """The meaning of the number in a FETCH or a MOVE."""

    FORWARD = "FORWARD"
    BACKWARD = "BACKWARD"
    ABSOLUTE = "ABSOLUTE"
    RELATIVE = "RELATIVE"


@dataclass(frozen=True, slots=True)
class Steps:
    """The rows to take. FORWARD and BACKWARD: `count` rows, or all if it is None. A count of 0 is the present row.

    ABSOLUTE: the row with the number `count`, from the end if it is negative. RELATIVE: the row `count` rows after the
    present one, or before it if it is negative.
    """

    way: Way
    count: int | None

    async def fetch(self, cursor: Readable, take: Take) -> int:
        """Hand the rows to `take`. Returns their number. Raises FailedPrecondition for a step back without SCROLL."""
        if isinstance(cursor, ScrollCursor):
            return await self._scroll(cursor, take)
        skipped, count = self._forward(cursor)
        if skipped < 0 or (count == 0 and cursor.on_row):
            cursor.fail()
            raise FailedPrecondition(
                f'cursor "{cursor.name[:63]}" can only scan forward; declare it with SCROLL, or again to read from its'
                " first row",
                reason="CURSOR_FORWARD",
            )
        if skipped:
            await cursor.read(skipped, _leave_out)
        return await cursor.read(count, take)

    async def move(self, cursor: Readable) -> int:
        """Leave the rows out. Returns their number. Raises FailedPrecondition for a step back without SCROLL."""
        if isinstance(cursor, ScrollCursor):
            return await self._scroll(cursor, _leave_out)
        if self.count == 0 and self.way is not Way.ABSOLUTE:
            on_row = cursor.on_row
            return int(on_row) + await cursor.read(0, _leave_out)
        if self == _TO_START and not cursor.position:
            return await cursor.read(0, _leave_out)
        return await self.fetch(cursor, _leave_out)

    def _forward(self, cursor: Readable) -> tuple[int, int | None]:
        """The rows to leave out and the rows to take after them, both from the present position.

        The rows to leave out are negative for a step back.
        """
        count = self.count
        if self.way is Way.FORWARD or (count == 0 and self.way is not Way.ABSOLUTE):
            return 0, count
        if self.way is Way.BACKWARD or count is None or count < 0:
            return -1, 0
        skipped = max(0, count - 1) - (cursor.position if self.way is Way.ABSOLUTE else 0)
        return skipped, min(count, 1)

    async def _scroll(self, cursor: ScrollCursor, take: Take) -> int:
        count = self.count
        if self.way is Way.FORWARD:
            return await cursor.forward(count, take)
        if self.way is Way.BACKWARD or count is None:
            return await cursor.backward(count, take)
        if self.way is Way.ABSOLUTE:
            return await cursor.absolute(count, take)
        return await cursor.absolute(max(0, cursor.position + count), take)


_TO_START = Steps(Way.BACKWARD, None)
"""BACKWARD ALL. Without SCROLL, MOVE takes it only before the first row."""


def read_steps(words: Words) -> tuple[Steps, str]:
    """The rows, and the name of the cursor: the words of FETCH or MOVE up to the end. Raises SqlError."""
    steps = _steps(words) if _has_steps(words) else Steps(Way.FORWARD, 1)
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
    if words.accept("PRIOR"):
        return Steps(Way.BACKWARD, 1)
    if words.accept("FIRST"):
        return Steps(Way.ABSOLUTE, 1)
    if words.accept("LAST"):
        return Steps(Way.ABSOLUTE, -1)
    if words.accept("ABSOLUTE"):
        return Steps(Way.ABSOLUTE, _number(words))
    if words.accept("RELATIVE"):
        return Steps(Way.RELATIVE, _number(words))
    words.accept("NEXT")
    way, other = Way.FORWARD, Way.BACKWARD
    if not words.accept("FORWARD") and words.accept("BACKWARD"):
        way, other = other, way
    if words.accept("ALL"):
        return Steps(way, None)
    number = _number(words) if _NUMBER.fullmatch(words.next()) else 1
    return Steps(way if number >= 0 else other, abs(number))


def _number(words: Words) -> int:
    if not _NUMBER.fullmatch(words.next()) or len(words.next()) > _LONGEST:
        raise words.unexpected(f"a whole number of at most {_LONGEST} characters")
    return int(words.value())


async def _leave_out(rows: pa.RecordBatch) -> None:
    """Leave rows out."""
