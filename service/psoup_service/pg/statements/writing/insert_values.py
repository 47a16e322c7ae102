"""The values of a row in VALUES: constants, parameters, the present time and DEFAULT.

(-1.5, 'it''s', $2, CAST('2026-01-01' AS date), now(), DEFAULT)   ─>   a `Constant` for each, None for DEFAULT
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from psoup.errors import SqlError
from psoup.sql.source import StatementText
from psoup_service.pg.statements.parameters import CASTS
from psoup_service.pg.statements.present_times import CALLED, DATE, TIMES, PresentTime
from psoup_service.pg.statements.words import Words
from psoup_service.pg.values.types import DATE as DATE_OID
from psoup_service.pg.values.types import INT2, INT4, INT8, NUMERIC, TEXT_OID, TIMESTAMP, TIMESTAMPTZ

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_DATE_OF_TIME = re.compile(r"\s*(\d{1,4}-\d{1,2}-\d{1,2})[ T]+\d.*", re.DOTALL)
"""Matches a date with a time of day behind it."""
_FRACTION = re.compile(r"\.(\d+)")
_SMALL = re.compile(r"\d[eE]-")
"""Matches a number with a negative exponent."""
INTEGERS = (INT2, INT4, INT8)
"""The types of whole numbers."""
_PARAMETER = re.compile(r"\$(\d{1,5})")
_MOST_DEPTH = 20
"""The most parentheses around a value."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in VALUES: a text, the number of a parameter from 0, or a present time. Else it is NULL.

    `place`: its offset in the statement.
    """

    text: str | None
    place: int
    number: int = -1
    present: PresentTime | None = None


Row = tuple[Constant | None, ...]
"""The values of a row. None stands for DEFAULT, which is NULL."""


def read_row(words: Words, limit: int) -> Row:
    """A row in parentheses, or its first `limit` values. Raises SqlError for anything but constants and parameters."""
    words.expect("(")
    row = list[Constant | None]()
    while True:
        row.append(_value(words))
        if len(row) == limit:
            return tuple(row)
        if not words.accept(","):
            break
    words.expect(")")
    return tuple(row)


def _value(words: Words, depth: int = 0, end: str = ")") -> Constant | None:
    """A constant, a parameter, a present time or DEFAULT, in `depth` parentheses. Raises SqlError for anything else.

    `end`: the word that may follow it, apart from a comma.
    """
    place, word = words.place, words.next()
    if depth > _MOST_DEPTH:
        raise words.source.error("the value nests too deeply", place, hint="leave parentheses out")
    if words.accept("DEFAULT"):
        return None
    if words.accept("CAST", "("):
        value = _value(words, depth + 1, "AS")
        words.expect("AS")
        value = _cast(words, value)
        words.expect(")")
    elif word in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
        words.accept(word)
        if words.next()[-1:] != "'":
            raise _not_constant(words.source, place)
        value = _cast_text(words, Constant(words.value(), place), CASTS[word.lower()], place)
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
    elif (present := _present(words)) is not None:
        value = Constant(None, place, present=present)
    else:
        raise _not_constant(words.source, place)
    while words.accept(":", ":"):
        value = _cast(words, value)
    if words.next() not in (",", end, ""):
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


def _present(words: Words) -> PresentTime | None:
    """Take a name of the present time, with its parentheses; None for any other word. Raises SqlError."""
    name, digits = words.next().removeprefix("PG_CATALOG."), 6
    if name in CALLED:
        words.skip()
        words.expect("(", ")")
    elif name == DATE or name in TIMES:
        words.skip()
        if name != DATE and words.accept("("):
            digits = _digits(words)
            words.expect(")")
    else:
        return None
    return PresentTime.named(name, digits)


def _digits(words: Words) -> int:
    """Take the digits of a second's fraction, 0 to 6. More are 6, as in PostgreSQL. Raises SqlError."""
    if not re.fullmatch(r"\d{1,4}", words.next()):
        raise words.unexpected("the digits of a second's fraction, 0 to 6")
    return min(6, int(words.value()))


def _cast(words: Words, value: Constant | None) -> Constant | None:
    """Read the type of a cast, and return the value of the cast. Raises SqlError."""
    place, name = words.place, words.name()
    for more in ("PRECISION", "VARYING"):
        words.accept(more)
    if words.accept("WITH", "TIME", "ZONE"):
        name = "timestamptz" if name == "timestamp" else name
    words.accept("WITHOUT", "TIME", "ZONE")
    if name not in CASTS:
        raise words.source.unsupported(f"a cast to {name[:40]} in VALUES", place)
    if value is not None and value.present is not None:
        return replace(value, present=_cast_time(words, value.present, CASTS[name], place))
    sizes = list[str]()
    if words.accept("("):
        while words.next() not in (")", ""):
            sizes.append(words.value())
        words.expect(")")
    return _cast_text(words, value, CASTS[name], place, sizes)


def _cast_text(
    words: Words, value: Constant | None, oid: int, place: int, sizes: Sequence[str] = ()
) -> Constant | None:
    """The value of a cast of a constant, which keeps its text: it is read as its column's type.

    A date loses its time of day. Raises SqlError for any other cast that would change the value. `sizes`: the words in
    the parentheses of the type. `place`: of the type.
    """
    if value is None or value.text is None:
        return value
    if oid == DATE_OID and (day := _DATE_OF_TIME.fullmatch(value.text)):
        return replace(value, text=day[1])
    size = int(sizes[-1]) if sizes and sizes[-1].isdecimal() and len(sizes[-1]) < 6 else None
    digits = _FRACTION.search(value.text)
    fraction = len(digits[1].rstrip("0")) if digits else 0
    if oid == TEXT_OID:
        changes = size is not None and len(value.text) > size
    elif oid == NUMERIC:
        changes = fraction > (size if len(sizes) == 3 and size is not None else 0) if sizes else False
    elif oid in (TIMESTAMP, TIMESTAMPTZ):
        changes = size is not None and fraction > size
    else:
        changes = oid in INTEGERS and (fraction > 0 or _SMALL.search(value.text) is not None)
    if changes:
        raise words.source.unsupported(
            "a cast that changes the value in VALUES", place, hint="write the value as it is to be stored"
        )
    return value


def _cast_time(words: Words, present: PresentTime, oid: int, place: int) -> PresentTime:
    """The value of a cast of the present time. `place`: of the type, whose digits come next. Raises SqlError."""
    if oid not in (DATE_OID, TIMESTAMP, TIMESTAMPTZ):
        raise words.source.unsupported(
            "a cast of the present time to this type", place, hint="write a date, a timestamp or a timestamptz"
        )
    digits = 6
    if words.accept("("):
        digits = _digits(words)
        words.expect(")")
    return present.cast(oid, digits)


def _not_constant(source: StatementText, place: int) -> SqlError:
    return source.unsupported("an expression in VALUES", place, hint="write constants, now(), or parameters such as $1")
