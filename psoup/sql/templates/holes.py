"""Parameters of a statement: the holes in its text, the values that they accept, and the constants of the values.

    WHERE sym = ? AND qty > ?     or $1, $2     or $symbol, $least          (as in DuckDB; one style in a statement)
                ('IBM', 7)        ->   'IBM' and 7, as constants and as text

A value becomes the constant that a user would write for it. So the query means the same as its text. If a number is
expected, a text with a number becomes a number.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from sqlglot.tokenizer_core import Token, TokenType

from psoup.errors import InvalidInput
from psoup.expressions.conversion import NUMBERS, TIMES, cast
from psoup.expressions.numbers.long_numbers import exact_number
from psoup.expressions.tree import Literal
from psoup.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    EPOCH,
    MAX_DECIMAL_PRECISION,
    TEXT,
    TIMESTAMP,
    DataType,
    Kind,
    decimal,
)
from psoup.phrases import counted, verb
from psoup.plan.standing_query import Parameter
from psoup.sql.source import StatementText

MAX_PARAMETERS = 1_000

_INT64 = 2**63
_MAX_PLACES = 1_100
"""The most digits after the point of a number, enough for every DOUBLE."""
_MAX_WHOLE_DIGITS = 309
"""The most digits before the point of a number, enough for every DOUBLE."""
_BEFORE = frozenset(
    {"=", "<", ">", "<=", ">=", "<>", "!=", "(", ",", "AND", "OR", "BETWEEN", "LIKE", "ILIKE", "~", "WHERE", "NOT"}
)
_AFTER = frozenset(
    {")", ",", "AND", "OR", "GROUP BY", "HAVING", "QUALIFY", "WINDOW", "BEGIN", "END", "ORDER", "LIMIT", "OFFSET", ""}
)


@dataclass(frozen=True, slots=True)
class Hole:
    """A hole: the part text[start:stop] of the statement, which is a parameter. `parameter`: its number, from 0.

    `bare`: whether a negative number can stand there without parentheses.
    """

    start: int
    stop: int
    parameter: int
    bare: bool


@dataclass(frozen=True, slots=True)
class Holes:
    """All holes of a statement, in the order of the text. `names`: the names of the parameters, "" for a parameter
    without a name."""

    places: tuple[Hole, ...]
    names: tuple[str, ...]


def find_holes(source: StatementText, tokens: list[Token]) -> tuple[list[Token], Holes]:
    """Find the parameters among `tokens`. Returns the tokens with a placeholder for each, and the holes. Raises
    SqlError."""
    parameters = [(at, token) for at, token in enumerate(tokens) if _is_parameter(token)]
    if len(parameters) > MAX_PARAMETERS:
        raise source.error(f"a statement has at most {MAX_PARAMETERS:,} parameters, not {len(parameters):,}")
    names = _names(source, [token for _, token in parameters])
    order = {name: position for position, name in enumerate(names)}
    replaced, places = list(tokens), []
    for count, (at, token) in enumerate(parameters):
        before = tokens[at - 1].text.upper() if at else ""
        after = tokens[at + 1].text.upper() if at + 1 < len(tokens) else ""
        parameter = count if token.text == "?" else order[token.text[1:].lower()]
        places.append(Hole(token.start, token.end + 1, parameter, before in _BEFORE and after in _AFTER))
        replaced[at] = Token(TokenType.PLACEHOLDER, "?", token.line, token.col, token.start, token.end)
    shown = ("",) * len(parameters) if any(t.text == "?" for _, t in parameters) else names
    return replaced, Holes(tuple(places), shown)


def _is_parameter(token: Token) -> bool:
    if token.token_type is TokenType.PLACEHOLDER:
        return True
    name = token.text[1:]
    return token.token_type is TokenType.VAR and token.text[0] == "$" and (name.isidentifier() or name.isdecimal())


def _names(source: StatementText, tokens: list[Token]) -> tuple[str, ...]:
    """The names of the parameters. Parameters `?` have none. Raises SqlError if the statement mixes the styles.

    Parameters `$1` are in the order of their numbers. Parameters `$name` are in the order of their first places.
    """
    texts = [token.text[1:].lower() for token in tokens]
    kinds = {"?" if not text else "$1" if text.isdecimal() else "$name" for text in texts}
    if len(kinds) > 1:
        raise source.error(
            "parameters are written in two ways here", tokens[0].start, hint="use only ?, or only $1, or only $name"
        )
    if kinds != {"$1"}:
        return tuple(dict.fromkeys(text for text in texts if text))
    numbers = sorted({int(text[:9]) for text in texts})
    for expected, number in enumerate(numbers, 1):
        if number != expected:
            raise source.error(f"there is ${number}, but no ${expected}", tokens[0].start, hint="count from $1 on")
    return tuple(str(number) for number in numbers)


_SHOWN_CHARACTERS = 64
"""The most characters of a name in a message."""
_SHOWN_NAMES = 20
"""The most names in a message."""


class Wrong(InvalidInput):
    """Raised for a value that does not fit. The caller adds the parameter to the message.

    `message`: the value, and the expected type.
    """


def in_order(holes: Holes, values: Sequence[Parameter] | Mapping[str, Parameter]) -> Sequence[Parameter]:
    """A value for each parameter, from a row or from a mapping by name. Raises InvalidInput for missing or extra
    values."""
    if isinstance(values, Mapping):
        return _by_name(holes, values)
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InvalidInput(f"parameters are a list or a mapping, not {type(values).__name__}", reason="PARAMETER_COUNT")
    if len(values) != len(holes.names):
        raise InvalidInput(
            f"{_counted(len(values))} given, but the statement takes {_taken(holes)}", reason="PARAMETER_COUNT"
        )
    return values


def _by_name(holes: Holes, values: Mapping[str, Parameter]) -> Sequence[Parameter]:
    if holes.names and not holes.names[0]:
        raise InvalidInput("the parameters are written ?, so they have no names; give a list", reason="PARAMETER_COUNT")
    by_name = {str(name).lower().lstrip("$"): value for name, value in values.items()}
    missing = [name for name in holes.names if name not in by_name]
    extra = [name for name in by_name if name not in holes.names]
    if missing or extra:
        problems = []
        if missing:
            few = verb(len(missing), "parameter", "parameters")
            problems.append(f"{few} {_listed(missing)} {verb(len(missing), 'is', 'are')} missing")
        if extra:
            problems.append(f"there is no parameter {_listed(extra, 'or')}")
        listed = _listed(holes.names) or "none"
        raise InvalidInput(f"{'; '.join(problems)}; the statement takes {listed}", reason="PARAMETER_COUNT")
    return [by_name[name] for name in holes.names]


def _listed(names: Sequence[str], last: str = "") -> str:
    """The names of parameters in a message, at most `_SHOWN_NAMES` of them. `last`: a word before the last name, or
    ""."""
    shown = [f"${name[:_SHOWN_CHARACTERS]}" for name in names[:_SHOWN_NAMES]]
    if last and len(shown) > 1 and len(names) <= _SHOWN_NAMES:
        shown[-2:] = [f"{shown[-2]} {last} {shown[-1]}"]
    return ", ".join(shown) + (f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else "")


def check_columns(holes: Holes, titles: Sequence[str]) -> None:
    """Raise InvalidInput if columns with names are more or fewer than the parameters."""
    if len(titles) == len(holes.names) or all(title.isdecimal() for title in titles):
        return
    columns = ", ".join(title[:_SHOWN_CHARACTERS] for title in titles[:_SHOWN_NAMES])
    raise InvalidInput(
        f"{_counted(len(titles))} given, the columns {columns}, but the statement takes {len(holes.names)}, in order;"
        " leave out what is not a parameter, or write parameters $name",
        reason="PARAMETER_COUNT",
    )


def _taken(holes: Holes) -> str:
    return str(len(holes.names)) if holes.names else "none: write ? or $name where a value goes"


def _counted(count: int) -> str:
    return f"{counted(count, 'parameter')} {verb(count, 'is', 'are')}"


# Values ----------------------------------------------------------------------------------------------------


def literal_of(value: Parameter, expected: DataType | None) -> tuple[Literal, str]:
    """The constant of `value`, and its text in SQL. `expected`: the type that is expected, or None for any type.

    If the text were parsed, the result would be the same constant. Raises Wrong.
    """
    kind = type(value)
    if kind is str:
        return _text(value, expected)  # type: ignore[arg-type]
    wanted = None if expected is None else expected.kind
    if kind is int and (wanted is None or wanted in NUMBERS):
        if not -_INT64 <= value < _INT64:  # type: ignore[operator]
            return exact_constant(Decimal(value), point=False)  # type: ignore[arg-type]
        return Literal(BIGINT, value), str(value)  # type: ignore[arg-type]
    if value is None:
        return Literal(BIGINT, None), "NULL"
    if kind is float and (wanted is None or wanted in NUMBERS):
        return _number(value, wanted)  # type: ignore[arg-type]
    return _rare(value, expected)


def _text(value: str, expected: DataType | None) -> tuple[Literal, str]:
    literal = Literal(TEXT, value)
    if expected is not None and expected is not TEXT and expected != TEXT:
        if expected.kind in NUMBERS:
            return _read_number(value, expected)
        try:
            cast(literal, expected)
        except InvalidInput:
            raise _unfit(value, expected) from None
    if "\0" in value or not value.isascii():
        _check_text(value)
    return literal, "'" + value.replace("'", "''") + "'"


def _read_number(value: str, expected: DataType) -> tuple[Literal, str]:
    """The constant of a number that is given as a text, for example from a file. Raises Wrong."""
    for read in (int, Decimal, float):
        try:
            number = read(value)
        except (ValueError, ArithmeticError):
            continue
        try:
            return literal_of(float(number) if expected == DOUBLE else number, expected)
        except (Wrong, ArithmeticError, ValueError):
            continue
    raise _unfit(value, expected)


def _check_text(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Wrong("a text with half of a surrogate pair", reason="PARAMETER_TYPE") from None
    if "\0" in value:
        raise Wrong("a text with a NUL character, which cannot be part of a statement", reason="PARAMETER_TYPE")


def _number(value: float, wanted: Kind | None) -> tuple[Literal, str]:
    """The constant of a float, as Python prints it. Beside exact numbers it is a DECIMAL, as in SQL, else a DOUBLE."""
    text = repr(value)
    if not math.isfinite(value):
        return Literal(DOUBLE, value), f"CAST('{text}' AS DOUBLE)"
    if wanted in (Kind.BIGINT, Kind.DECIMAL) and "e" not in text and len(text.lstrip("-")) <= MAX_DECIMAL_PRECISION:
        return exact_constant(Decimal(text))
    return Literal(DOUBLE, value), text if "e" in text else text + "e0"


def exact_constant(value: Decimal, point: bool = True) -> tuple[Literal, str]:
    """The constant of a decimal number, and its text. With more than 18 digits, zeros at the end of its fraction are
    dropped.

    `point`: whether a whole number has a point in its text, which makes it a DECIMAL. Raises Wrong.
    """
    if not value.is_finite():
        raise Wrong(f"{value}, which is not a DECIMAL; give a float", reason="PARAMETER_TYPE")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    if max(len(digits) + exponent, 1) - min(exponent, 0) > MAX_DECIMAL_PRECISION:
        digits, exponent = _without_zeros(digits, exponent)
    if exponent < -_MAX_PLACES or exponent + len(digits) > _MAX_WHOLE_DIGITS:
        raise Wrong(
            f"{_shortened(str(value))}, whose digits reach too far from the point: at most {_MAX_WHOLE_DIGITS} stand"
            f" before it, and {_MAX_PLACES:,} behind it",
            reason="PARAMETER_TYPE",
        )
    text = f"{Decimal((sign, digits, exponent)):f}"
    whole, _, fraction = text.lstrip("-").partition(".")
    scaled = int(whole + fraction) * (-1 if sign else 1)
    if len(whole) + len(fraction) > MAX_DECIMAL_PRECISION:
        try:
            if point and not fraction:
                return exact_number(10 * scaled, 1, 1), f"{text}.0"
            return exact_number(scaled, len(fraction), min(len(fraction), 1)), text
        except OverflowError:
            raise Wrong(f"{_shortened(text)}, which is too large for a DOUBLE", reason="PARAMETER_TYPE") from None
    return Literal(decimal(len(whole) + len(fraction), len(fraction)), scaled), text if fraction else text + "."


def _without_zeros(digits: tuple[int, ...], exponent: int) -> tuple[tuple[int, ...], int]:
    """The digits and the exponent of the same number, without zeros at the end of its fraction."""
    if not any(digits):
        return (0,), 0
    end = len(digits)
    while not digits[end - 1] and exponent < 0:
        end, exponent = end - 1, exponent + 1
    return digits[:end], exponent


def _shortened(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}..."


def _rare(value: object, expected: DataType | None) -> tuple[Literal, str]:
    """The constant of a decimal, a time or a boolean, and its text. A NumPy scalar counts as Python's. Raises Wrong."""
    wanted = None if expected is None else expected.kind
    if isinstance(value, bool) and wanted in (None, Kind.BOOLEAN):
        return Literal(BOOLEAN, value), str(value).upper()
    if isinstance(value, Decimal) and (wanted is None or wanted in NUMBERS):
        return exact_constant(value)
    if isinstance(value, datetime.datetime) and (wanted is None or wanted in TIMES):
        if getattr(value, "nanosecond", 0):  # a Timestamp of pandas
            raise Wrong(f"{shown(value)}, which has nanoseconds; round it to microseconds", reason="PARAMETER_TYPE")
        if value.tzinfo is not None:
            value = value.astimezone(datetime.UTC).replace(tzinfo=None)
        micros = (value - EPOCH) // datetime.timedelta(microseconds=1)
        return Literal(TIMESTAMP, micros), f"TIMESTAMP '{value.isoformat(sep=' ')}'"
    if isinstance(value, datetime.date) and not isinstance(value, datetime.datetime):
        if wanted is Kind.TIMESTAMP:
            return _rare(datetime.datetime.combine(value, datetime.time()), expected)
        if wanted in (None, Kind.DATE):
            return Literal(DATE, value.toordinal() - EPOCH.toordinal()), f"DATE '{value.isoformat()}'"
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        plain = value.item()
        if type(plain).__module__ != "numpy":
            return literal_of(plain, expected)
    if expected is None:
        raise Wrong(f"{shown(value)}, which is not a value of SQL", reason="PARAMETER_TYPE")
    raise _unfit(value, expected)


def _unfit(value: object, expected: DataType) -> Wrong:
    return Wrong(f"{shown(value)}, but {expected} is expected", reason="PARAMETER_TYPE", expected=str(expected))


_KINDS = {
    "bool": "a BOOLEAN",
    "int": "a whole number",
    "float": "a DOUBLE",
    "Decimal": "a DECIMAL",
    "str": "a text",
    "bytes": "bytes",
    "date": "a DATE",
    "datetime": "a TIMESTAMP",
}
"""The names of Python's types in messages. They are the names in SQL, because the values may come from files."""


def shown(value: object) -> str:
    """The text for a value in a message: its first characters, and its type."""
    text = repr(value)
    kind = type(value).__name__
    return f"{text[:40]}{'...' if len(text) > 40 else ''}, {_KINDS.get(kind, f'of the type {kind}')}"


def texts_between(text: str, holes: Holes) -> Iterator[str]:
    """Yield the pieces of the statement before, between and after its holes."""
    at = 0
    for hole in holes.places:
        yield text[at : hole.start]
        at = hole.stop
    yield text[at:]
