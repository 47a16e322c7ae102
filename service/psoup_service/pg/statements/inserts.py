"""INSERT … VALUES: constants and parameters as rows of a stream.

INSERT INTO trades (sym, price) VALUES ('A', 1.5), ($1, $2)   ─>   RecordBatch of two rows  ─>  `RowBuffer`
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import pyarrow as pa

from psoup.errors import InvalidInput, PSoupError, SqlError
from psoup.model import Attribute
from psoup.sql.source import StatementText
from psoup.values.kinds import arrow_type
from psoup_service.pg.contract import Argument, Description, Sink
from psoup_service.pg.statements.parameters import CASTS
from psoup_service.pg.statements.targets import Target, named_target
from psoup_service.pg.statements.words import Words
from psoup_service.pg.statements.writes import Writes
from psoup_service.pg.values import types
from psoup_service.pg.values.arguments import argument_value
from psoup_service.pg.values.readers import read_text
from psoup_service.pg.values.to_arrow import array_of, fitted
from psoup_service.pg.values.zones import Zone

_LONG = 16_384
"""The most characters of a statement that is read on the event loop."""
_LONGEST = 16 << 20
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PARAMETER = re.compile(r"\$(\d{1,5})")
_TIMES = (types.TIMESTAMP, types.TIMESTAMPTZ, types.DATE)
_MOST_DEPTH = 20
"""The most parentheses around a value."""
_DAY = timedelta(days=1) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in VALUES: its text, or the number of its parameter from 0. `place`: its offset in the statement."""

    text: str | None
    place: int
    number: int = -1


Row = tuple[Constant | None, ...]
"""The values of a row. None stands for DEFAULT, which is NULL."""


class Insert:
    """An INSERT. `types`: the OIDs of its parameters, 0 where the client names none."""

    def __init__(self, writes: Writes, words: Words, target: Target, rows: list[Row], types: Sequence[int]) -> None:
        self._writes = writes
        self._source = words.source
        self._target = target
        self._rows = rows
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
        zone = self._writes.zone
        if len(self._source.text) <= _LONG:
            batch = self._batch(arguments, wanted, zone)
        else:
            batch = await asyncio.to_thread(self._batch, arguments, wanted, zone)
        await self._writes.write(self._target.name, [batch])
        return f"INSERT 0 {batch.num_rows}"

    def _parameters(self) -> list[int]:
        """The type of each parameter: the client's, or the type of its first column."""
        by_number = dict[int, int]()
        for row in self._rows:
            for value, oid in zip(row, self._target.oids, strict=True):
                if value is not None and value.number >= 0:
                    by_number.setdefault(value.number, oid)
        count = max(by_number, default=-1) + 1
        declared = [*self._types, *[0] * count]
        return [declared[number] or by_number.get(number, types.TEXT_OID) for number in range(count)]

    def _batch(self, arguments: Sequence[Argument], oids: Sequence[int], zone: Zone) -> pa.RecordBatch:
        values = [argument_value(argument, at + 1, oids[at], zone) for at, argument in enumerate(arguments)]
        kinds = [argument.oid or oids[at] for at, argument in enumerate(arguments)]
        arrays = []
        for place, attribute in enumerate(self._target.attributes):
            oid, column = types.type_of(attribute.type)[0], list[Any]()
            for row in self._rows:
                value = row[place]
                if value is None:
                    column.append(None)
                    continue
                plain, kind = (
                    (values[value.number], kinds[value.number]) if value.number >= 0 else (value.text, types.TEXT_OID)
                )
                column.append(self._stored(plain, kind, attribute, zone, value.place))
            arrays.append(array_of(column, oid, arrow_type(attribute.type)))
        return pa.RecordBatch.from_arrays(arrays, [attribute.name for attribute in self._target.attributes])

    def _stored(self, value: Any, kind: int, attribute: Attribute, zone: Zone, place: int) -> Any:
        """A value as one of its column. Raises SqlError at its place."""
        oid = types.type_of(attribute.type)[0]
        try:
            stored = converted(value, kind, oid, zone)
            if oid == types.NUMERIC and stored is not None:
                return fitted(stored, attribute.type.precision, attribute.type.scale)
            return stored
        except PSoupError as problem:
            said = f'{problem.message} (column "{attribute.name}")'
            raise self._source.error(said, place, reason=problem.reason) from None


def converted(value: Any, kind: int, oid: int, zone: Zone) -> Any:
    """A plain value of one type as one of another. Raises InvalidInput if PostgreSQL assigns no such value."""
    if value is None or kind == oid:
        return value
    if isinstance(value, str):
        return read_text(oid, value, zone)
    if oid == types.TEXT_OID and isinstance(value, bool | int | float | Decimal) and kind not in _TIMES:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if kind in _TIMES and oid in _TIMES:
        return _time(value, kind, oid, zone)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and kind not in _TIMES:
        try:
            if oid == types.INT8:
                return int(Decimal(value).to_integral_value(ROUND_HALF_EVEN))
            if oid == types.FLOAT8:
                return float(value)
            if oid == types.NUMERIC:
                return Decimal(repr(value) if isinstance(value, float) else value)
        except (ArithmeticError, ValueError):
            raise InvalidInput(f"{value} is out of range for type {types.type_name(oid)}", reason="RANGE") from None
    raise InvalidInput(
        f"the column is of type {types.type_name(oid)} but the value is of type {types.type_name(kind)}",
        reason="DATATYPE_MISMATCH",
    )


def _time(value: int, kind: int, oid: int, zone: Zone) -> int:
    micros = value * _DAY if kind == types.DATE else value
    if oid == types.DATE:
        return micros // _DAY
    return micros if kind == types.TIMESTAMPTZ else zone.instant(micros)


async def read_insert(writes: Writes, text: str, oids: Sequence[int]) -> Insert:
    """An INSERT. Raises SqlError for anything but constants and parameters in VALUES."""
    if len(text) <= _LONG:
        words, named, rows = _read(text)
    else:
        words, named, rows = await asyncio.to_thread(_read, text)
    target = await writes.target(words, named)
    for row in rows:
        if len(row) != len(target.attributes):
            more = "more" if len(row) > len(target.attributes) else "fewer"
            raise words.source.error(
                f"INSERT has {more} expressions than target columns", named.place, reason="COLUMN_COUNT"
            )
    return Insert(writes, words, target, rows, oids)


def _read(text: str) -> Any:
    words = Words(text, _LONGEST)
    words.expect("INSERT")
    words.expect("INTO")
    named = named_target(words)
    place = words.place
    if words.next() in ("SELECT", "WITH", "DEFAULT", "OVERRIDING", "AS", "("):
        feature = f"INSERT … {words.next()}" if words.next() != "(" else "INSERT … (SELECT …)"
        raise words.source.unsupported(feature, place, hint="write INSERT INTO stream (column, …) VALUES (value, …)")
    words.expect("VALUES")
    rows = list[Row]()
    while True:
        rows.append(_row(words))
        if not words.accept(","):
            break
    if words.next() in ("ON", "RETURNING"):
        feature = "ON CONFLICT" if words.next() == "ON" else "RETURNING"
        hint = "a row of a table replaces the row with the same key" if feature == "ON CONFLICT" else ""
        raise words.source.unsupported(feature, words.place, hint=hint)
    words.end()
    return words, named, rows


def _row(words: Words) -> Row:
    words.expect("(")
    row = list[Constant | None]()
    while True:
        row.append(_value(words))
        if not words.accept(","):
            break
    words.expect(")")
    return tuple(row)


def _value(words: Words, depth: int = 0) -> Constant | None:
    """A constant, a parameter or DEFAULT, in `depth` parentheses. Raises SqlError for any other expression."""
    place, word = words.place, words.next()
    if depth > _MOST_DEPTH:
        raise words.source.error("the value nests too deeply", place, hint="leave parentheses out")
    if words.accept("DEFAULT"):
        return None
    if words.accept("CAST", "("):
        value = _value(words, depth + 1)
        words.expect("AS")
        _cast(words)
        words.expect(")")
        return value
    if word in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
        words.accept(word)
        if words.next()[-1:] != "'":
            raise _not_constant(words.source, place)
        value = Constant(words.value(), place)
    elif words.accept("NULL"):
        value = Constant(None, place)
    elif words.accept("TRUE") or words.accept("FALSE"):
        value = Constant(word.lower(), place)
    elif word[-1:] == "'" and len(word) > 1:
        value = Constant(words.value(), place)
    elif words.accept("(") or words.accept("-", "("):
        value = _bracketed(words, place, depth + 1, negative=word == "-")
    elif match := _PARAMETER.fullmatch(word):
        words.value()
        number = int(match[1]) - 1
        if number < 0:
            raise words.source.error("there is no parameter $0", place)
        value = Constant(None, place, number)
    elif _NUMBER.fullmatch(word):
        value = Constant(words.value(), place)
    else:
        raise _not_constant(words.source, place)
    while words.accept(":", ":"):
        _cast(words)
    if words.next() not in (",", ")", ""):
        raise _not_constant(words.source, place)
    return value


def _bracketed(words: Words, place: int, depth: int, *, negative: bool) -> Constant | None:
    """A value in parentheses, after the first of them. `negative`: a minus stands before them."""
    value = _value(words, depth)
    words.expect(")")
    if not negative:
        return value
    if value is None or value.text is None:
        raise _not_constant(words.source, place)
    return Constant(f"-{value.text}", place)


def _cast(words: Words) -> None:
    """Read the type of a cast. The value is then read as its column's type anyway."""
    place, name = words.place, words.name()
    for more in ("PRECISION", "VARYING"):
        words.accept(more)
    for with_zone in ("WITH", "WITHOUT"):
        words.accept(with_zone, "TIME", "ZONE")
    if name not in CASTS:
        raise words.source.unsupported(f"a cast to {name[:40]} in VALUES", place)
    if words.accept("("):
        while words.next() not in (")", ""):
            words.value()
        words.expect(")")


def _not_constant(source: StatementText, place: int) -> SqlError:
    return source.unsupported("an expression in VALUES", place, hint="write constants, or parameters such as $1")
