"""INSERT … VALUES: constants and parameters as rows of a stream.

INSERT INTO trades (sym, price) VALUES ('A', 1.5), ($1, $2)   ─>   `RowReader`  ─>  RecordBatches  ─>  `RowBuffer`
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import TypeVar

import pyarrow as pa

from psoup.errors import InvalidInput
from psoup_service.pg.contract import Argument, Description, Sink
from psoup_service.pg.statements.present_times import Now
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writing.insert_rows import SHORT, Filling, Piece, RowReader
from psoup_service.pg.statements.writing.targets import Named, Target, named_target
from psoup_service.pg.statements.writing.writes import Writes
from psoup_service.pg.values import types
from psoup_service.pg.values.arguments import argument_value

_LONGEST = 16 << 20

T = TypeVar("T")


class Insert:
    """An INSERT. `types`: the OIDs of its parameters, 0 where the client names none."""

    def __init__(
        self, writes: Writes, target: Target, rows: RowReader, pieces: Sequence[Piece], types: Sequence[int]
    ) -> None:
        self._writes = writes
        self._target = target
        self._rows = rows
        self._pieces = pieces
        self._types = types

    async def describe(self) -> Description:
        """See `contract.Statement`. Parameters have the types of their columns."""
        return Description(tuple(self._parameters()), None)

    async def run(self, arguments: Sequence[Argument], sink: Sink) -> str:
        """See `contract.Statement`."""
        wanted = self._parameters()
        if len(arguments) != len(wanted):
            raise InvalidInput(
                f"the statement has {len(wanted)} parameters, and Bind gives {len(arguments)} arguments",
                reason="PROTOCOL",
            )
        await self._writes.write(self._target.name, self._batches(arguments, wanted))
        return f"INSERT 0 {sum(piece.rows for piece in self._pieces)}"

    def _parameters(self) -> list[int]:
        """The type of each parameter: the client's, or the type of its first column."""
        by_number = self._rows.parameters
        count = max(by_number, default=-1) + 1
        declared = [*self._types, *[0] * count]
        return [declared[number] or by_number.get(number, types.TEXT_OID) for number in range(count)]

    async def _batches(self, arguments: Sequence[Argument], oids: Sequence[int]) -> AsyncIterator[pa.RecordBatch]:
        """The rows of each piece, with the arguments in the places of parameters."""

        now = self._writes.now() if self._rows.present else Now(0, 0)

        def filling() -> Filling:
            zone, numbered = self._writes.zone, enumerate(zip(arguments, oids, strict=True), 1)
            values = [argument_value(argument, number, oid, zone) for number, (argument, oid) in numbered]
            kinds = [argument.oid or oid for argument, oid in zip(arguments, oids, strict=True)]
            return Filling(self._rows, values, kinds, zone, now)

        long = len(self._rows.text) > SHORT
        filled = await _done(filling, long and bool(arguments))
        rows = 0
        for piece in self._pieces:
            batch = await _done(lambda: filled.batch(piece), long and bool(piece.gaps))  # noqa: B023
            self._target.not_null.check(batch, rows)
            rows += batch.num_rows
            yield batch


async def read_insert(writes: Writes, text: str, oids: Sequence[int]) -> Insert:
    """An INSERT. Raises SqlError for anything but constants and parameters in VALUES."""
    long = len(text) > SHORT
    words, named, defaults = await _done(lambda: _read_head(text), long)
    target = await writes.target(words, named)
    rows, pieces = RowReader(words, named, target, writes.zone, defaults=defaults), list[Piece]()
    while rows.more:
        pieces.append(await _done(rows.piece, long))
    return Insert(writes, target, rows, pieces, oids)


async def _done(work: Callable[[], T], long: bool) -> T:
    """The result of some work. A thread does it if the statement is long."""
    return await asyncio.to_thread(work) if long else work()


def _read_head(text: str) -> tuple[Words, Named, bool]:
    """Read an INSERT up to VALUES. Also returns whether they are DEFAULT VALUES."""
    words = Words(text, _LONGEST)
    words.expect("INSERT")
    words.expect("INTO")
    named = named_target(words)
    place = words.place
    if named.columns is None and words.accept("DEFAULT", "VALUES"):
        return words, named, True
    if words.next() in ("SELECT", "WITH", "DEFAULT", "OVERRIDING", "AS", "("):
        feature = f"INSERT … {words.next()}" if words.next() != "(" else "INSERT … (SELECT …)"
        raise words.source.unsupported(feature, place, hint="write INSERT INTO stream (column, …) VALUES (value, …)")
    words.expect("VALUES")
    return words, named, False
