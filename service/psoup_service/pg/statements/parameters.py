"""Parameters of a SELECT: their types, and the statement with the constants of their values.

    WHERE sym = $1 AND n = ANY($2::int8[]) LIMIT $3     types: of the client, of casts, of LIMIT, else of Check
    WHERE sym = 'IBM' AND n IN (1, 2) LIMIT 10          the statement with values; the service knows its form

So a parameter is allowed wherever a constant is.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from sqlglot.tokenizer_core import Token

from psoup.errors import InvalidInput
from psoup.model import EPOCH
from psoup.sql.parser.guards import tokens_of
from psoup.sql.source import StatementText
from psoup.sql.templates.holes import find_holes
from psoup_service.pg.contract import Argument
from psoup_service.pg.statements.texts import Edit, Edited
from psoup_service.pg.values import types
from psoup_service.pg.values.arguments import argument_value
from psoup_service.pg.values.zones import Zone

CASTS = {
    "bool": types.BOOL,
    "boolean": types.BOOL,
    "smallint": types.INT2,
    "int2": types.INT2,
    "int": types.INT4,
    "integer": types.INT4,
    "int4": types.INT4,
    "bigint": types.INT8,
    "int8": types.INT8,
    "real": types.FLOAT4,
    "float4": types.FLOAT4,
    "double": types.FLOAT8,
    "double precision": types.FLOAT8,
    "float": types.FLOAT8,
    "float8": types.FLOAT8,
    "numeric": types.NUMERIC,
    "decimal": types.NUMERIC,
    "date": types.DATE,
    "timestamp": types.TIMESTAMP,
    "timestamp without time zone": types.TIMESTAMP,
    "timestamptz": types.TIMESTAMPTZ,
    "timestamp with time zone": types.TIMESTAMPTZ,
    "text": types.TEXT_OID,
    "varchar": types.TEXT_OID,
    "character varying": types.TEXT_OID,
}
"""The types of casts. A parameter with another cast is a text."""

ARRAYS = {element: array for array, element in types.ELEMENTS.items()}
"""The OID of the array type of each element type."""
_TYPE = re.compile(r"\s*([a-z_0-9]+(?: precision| varying| with(?:out)? time zone)?)(\s*\[\s*\])?", re.IGNORECASE)
_LENGTH = re.compile(r"(?:\s*\(\s*\d+\s*(?:,\s*\d+\s*)?\))?")
_CASTED = re.compile(r"\s*::")
_AS = re.compile(r"\s+AS\b", re.IGNORECASE)
_LIMIT = re.compile(r"\b(?:LIMIT|OFFSET|FETCH\s+FIRST|FETCH\s+NEXT)\s*\(?\s*$", re.IGNORECASE)
_ANY = re.compile(r"(?:(=)\s*(?:ANY|SOME)|(?:<>|!=)\s*ALL)\s*\(\s*(?:CAST\s*\(\s*)?$", re.IGNORECASE)
_CLOSE = re.compile(r"(?:\s*::\s*[\w ]+\[\s*\]|\s+AS\s+[\w ]+\[\s*\]\s*\))?\s*\)", re.IGNORECASE)
_OPERAND = re.compile(r'(?:(?:[\w$]+|"(?:[^"]|"")+")\s*\.\s*)*(?:[\w$]+|"(?:[^"]|"")+")\s*$')
_NEAR = 64
"""The characters before a parameter in which LIMIT, ANY or ALL is looked for."""
_SAMPLES = {
    types.BOOL: "BOOLEAN",
    types.INT2: "BIGINT",
    types.INT4: "BIGINT",
    types.INT8: "BIGINT",
    types.OID: "BIGINT",
    types.FLOAT4: "DOUBLE",
    types.FLOAT8: "DOUBLE",
    types.NUMERIC: "DECIMAL(18, 6)",
    types.DATE: "DATE",
    types.TIMESTAMP: "TIMESTAMP",
    types.TIMESTAMPTZ: "TIMESTAMP",
}


@dataclass(frozen=True, slots=True)
class Place:
    """A place of a parameter, text[start:stop], with its `number` from 0. `oid`: of its cast, or of LIMIT; else 0.

    `cast`: the cast that follows it, in PSoup's words; the place ends behind it. `negated`: whether the place is
    `<> ALL($1)`; None unless it is a comparison with all values of an array.
    """

    start: int
    stop: int
    number: int
    oid: int = 0
    limit: bool = False
    cast: str = ""
    negated: bool | None = None


@lru_cache(256)
def _short_places(text: str) -> tuple[Place, ...]:
    return _places(text)


def places_of(text: str) -> tuple[Place, ...]:
    """The places of parameters `$1`, … in a text. Raises SqlError."""
    return () if "$" not in text else _short_places(text) if len(text) <= 4_096 else _places(text)


def _places(text: str) -> tuple[Place, ...]:
    source = StatementText(text)
    tokens: list[Token] = tokens_of(source)
    _, holes = find_holes(source, tokens)
    if not holes.names or not holes.names[0]:
        return ()
    return tuple(_place(text, hole.start, hole.stop, hole.parameter) for hole in holes.places)


def _place(text: str, start: int, stop: int, number: int) -> Place:
    before = text[max(start - _NEAR, 0) : start]
    if _LIMIT.search(before):
        return Place(start, stop, number, types.INT8, limit=True)
    begin, oid = _CASTED.match(text, stop) or (_AS.match(text, stop) if "(" in before else None), 0
    named = begin and _TYPE.match(text, begin.end())
    if named:
        oid = CASTS.get(" ".join(named[1].lower().split()), types.TEXT_OID)
        oid = ARRAYS.get(oid, 0) if named[2] else oid
    listed, close = _ANY.search(before), _CLOSE.match(text, stop)
    if listed and close:
        first = start - len(before) + listed.start()
        return Place(first, close.end(), number, oid or ARRAYS[types.TEXT_OID], negated=listed[1] is None)
    end = named and _LENGTH.match(text, named.end())
    if end and _CASTED.match(text, stop) and oid in _SAMPLES | {types.TEXT_OID: "TEXT"}:
        name = _SAMPLES.get(oid, "TEXT") if oid != types.NUMERIC else text[stop : end.end()].strip(": ")
        return Place(start, end.end(), number, oid, cast=f"::{name}")
    return Place(start, stop, number, oid)


def operand_start(source: StatementText, stop: int) -> int:
    """The offset of the column that ends at `stop`, on the left of a comparison. Raises SqlError for other operands."""
    first = max(0, stop - 3 * _NEAR)
    column = _OPERAND.search(source.text[first:stop])
    if column is None:
        raise source.unsupported(
            "an expression that is compared with ALL of no values", stop, hint="leave out the comparison"
        )
    return first + column.start()


def count_of(places: Sequence[Place]) -> int:
    """The number of parameters."""
    return max((place.number for place in places), default=-1) + 1


def known_types(places: Sequence[Place], declared: Sequence[int]) -> list[int]:
    """The type of each parameter as the client or the text names it; 0 if neither does."""
    oids = [0] * count_of(places)
    for place in places:
        oids[place.number] = oids[place.number] or place.oid
    for number, oid in enumerate(declared[: len(oids)]):
        oids[number] = oid or oids[number]
    return oids


def with_samples(
    text: str, places: Sequence[Place], oids: Sequence[int], samples: Mapping[int, str] = MappingProxyType({})
) -> tuple[Edited, list[int]]:
    """The text in which each parameter with a type is NULL, and the numbers of the parameters without a type.

    The text counts these from $1 again. `samples`: constants instead of NULL, by number.
    """
    left = [number for number, oid in enumerate(oids) if not oid]
    order = {number: place + 1 for place, number in enumerate(left)}
    edits = []
    for place in places:
        if place.number in order:
            new = f"${order[place.number]}"
        elif place.limit:
            new = "1"
        elif place.number in samples:
            new = samples[place.number]
        elif place.negated is not None:
            new = _members(place, "NULL")
        else:
            new = f"CAST(NULL AS {_SAMPLES.get(oids[place.number], 'TEXT')})"
        edits.append(Edit(place.start, place.stop, new))
    return Edited(text, edits), left


def with_values(
    text: str, places: Sequence[Place], arguments: Sequence[Argument], oids: Sequence[int], zone: Zone
) -> Edited:
    """The text with the constants of all arguments. `oids`: the types of the parameters, 0 for unknown ones.

    Raises InvalidInput for a wrong argument, or another number of them.
    """
    count = count_of(places)
    if len(arguments) != count:
        raise InvalidInput(
            f"the statement has {count} parameters, and Bind gives {len(arguments)} arguments", reason="PROTOCOL"
        )
    kinds = [argument.oid or oids[number] for number, argument in enumerate(arguments)]
    values = [argument_value(argument, at + 1, kinds[at], zone) for at, argument in enumerate(arguments)]
    edits = []
    for place in places:
        value, kind = values[place.number], kinds[place.number]
        if place.limit:
            new = str(_whole(value, place.number))
        elif place.negated and value == []:
            edits.append(Edit(operand_start(StatementText(text), place.start), place.stop, "TRUE"))
            continue
        elif place.negated is not None:
            new = _members(place, _list(value, kind, zone, place.number))
        elif isinstance(value, list):
            raise InvalidInput(f"parameter ${place.number + 1} is an array; write = ANY(${place.number + 1})")
        else:
            new = constant(value, kind, zone) + place.cast
        edits.append(Edit(place.start, place.stop, new))
    return Edited(text, edits)


def constant(value: Any, oid: int, zone: Zone) -> str:
    """The constant of a plain value, as SQL. Raises InvalidInput for a time that has none."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str | bytes):
        text = value if isinstance(value, str) else "\\x" + value.hex()
        return "'" + text.replace("'", "''") + "'"
    if oid in (types.TIMESTAMP, types.TIMESTAMPTZ):
        micros = zone.instant(value) if oid == types.TIMESTAMP else value
        return f"TIMESTAMP '{_time(micros)}'"
    if oid == types.DATE:
        return f"DATE '{_time(value * 86_400_000_000)[:10]}'"
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return f"CAST('{value}' AS DOUBLE)"
    text = format(value, "f") if isinstance(value, Decimal) else repr(value)
    return f"({text})" if text.startswith("-") else text


def _time(micros: int) -> str:
    try:
        return (EPOCH + timedelta(microseconds=micros)).isoformat(" ")
    except OverflowError:
        raise InvalidInput(
            f"a time beyond the years {datetime.min.year} to {datetime.max.year} cannot be a constant"
        ) from None


def _members(place: Place, listed: str) -> str:
    return f"{' NOT' if place.negated else ''} IN ({listed})"


def _list(value: Any, kind: int, zone: Zone, number: int) -> str:
    if value is not None and not isinstance(value, list):
        raise InvalidInput(f"parameter ${number + 1} of ANY is not an array")
    element = types.ELEMENTS.get(kind, types.TEXT_OID)
    return ", ".join(constant(each, element, zone) for each in value or [None]) or "NULL"


def _whole(value: Any, number: int) -> int:
    try:
        whole = int(value)
    except (TypeError, ValueError):
        raise InvalidInput(f"parameter ${number + 1} of LIMIT or OFFSET must be a whole number") from None
    if not 0 <= whole < 2**63:
        raise InvalidInput(f"parameter ${number + 1} of LIMIT or OFFSET is {whole}; it must not be negative")
    return whole
