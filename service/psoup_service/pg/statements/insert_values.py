"""The values of a row in VALUES: constants, parameters and DEFAULT.

(-1.5, 'it''s', $2, CAST('2026-01-01' AS date), DEFAULT)   ─>   a `Constant` for each, None for DEFAULT
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from psoup.errors import SqlError
from psoup.sql.source import StatementText
from psoup_service.pg.statements.parameters import CASTS
from psoup_service.pg.statements.words import Words

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_PARAMETER = re.compile(r"\$(\d{1,5})")
_MOST_DEPTH = 20
"""The most parentheses around a value."""


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in VALUES: its text, or the number of its parameter from 0. `place`: its offset in the statement."""

    text: str | None
    place: int
    number: int = -1


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


def _value(words: Words, depth: int = 0, end: Sequence[str] = (",", ")", "")) -> Constant | None:
    """A constant, a parameter or DEFAULT, in `depth` parentheses. Raises SqlError for any other expression.

    `end`: the words that may follow.
    """
    place, word = words.place, words.next()
    if depth > _MOST_DEPTH:
        raise words.source.error("the value nests too deeply", place, hint="leave parentheses out")
    if words.accept("DEFAULT"):
        return None
    if words.accept("CAST", "("):
        value = _value(words, depth + 1, ("AS",))
        words.expect("AS")
        _cast(words)
        words.expect(")")
    elif word in ("DATE", "TIMESTAMP", "TIMESTAMPTZ"):
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
    if words.next() not in end:
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
