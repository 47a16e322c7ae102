"""The value of a JSON text. Numbers keep their digits until their column is known.

1.005            Decimal("1.005")          a double would be a slightly different number, wrong for a DECIMAL
1e500            Decimal("1E+500")         a double would be infinite
{"i":1,"i":2}    refused                   Python would take the last value
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from psoup_proto.json_rows.numbers import double, shown

_SHOWN = 64
"""The greatest number of characters of a name in a message."""

FAULTS = (ValueError, ArithmeticError, RecursionError)
"""The errors of a decoder."""

Decode = Callable[[str], Any]


class JsonFault(ValueError):
    """Raised for a text that is not JSON, or that is ambiguous. Its message names the fault."""


class NotUtf8(JsonFault):
    """Raised for bytes that are not UTF-8. `byte`: the first of them."""

    def __init__(self, message: str, byte: int) -> None:
        super().__init__(message)
        self.byte = byte


def json_kind(value: Any) -> str:
    """Return the name of a JSON value's kind."""
    kinds = {dict: "an object", list: "an array", str: "a string", int: "a number", float: "a number"}
    kinds[Decimal] = "a number"
    return kinds.get(type(value)) or f"`{json.dumps(value)}`"


def json_value(text: bytes | str, *, shortest: bool = False, strict: bool = False) -> Any:
    """Parse a JSON text. Raises JsonFault that names the place of the fault.

    Numbers with a point or an exponent are Decimals. With `shortest`, such a number is a float if the float has the
    same text. With `strict`, NaN and Infinity are refused as numbers, because JSON does not have them.
    """
    try:
        return decoder(shortest=shortest, strict=strict)(text if isinstance(text, str) else text.decode())
    except FAULTS as problem:
        raise fault(problem) from None


def decoder(*, shortest: bool = False, strict: bool = False) -> Decode:
    """Return the function that parses a text as `json_value` does. It raises one of FAULTS; `fault` says what is wrong.

    For loops over many short texts.
    """
    return _DECODERS[shortest, strict]


def fault(problem: Exception) -> JsonFault:
    """Convert an error of a decoder, or of decoding UTF-8, to a JsonFault that names the place of the fault."""
    match problem:
        case JsonFault():
            return problem
        case json.JSONDecodeError():
            line = f"line {problem.lineno}, " if problem.lineno > 1 else ""
            return JsonFault(f"it is not valid JSON: {problem.msg} at {line}column {problem.colno}")
        case UnicodeDecodeError():
            found = problem.object[problem.start : problem.end]
            return NotUtf8(f"byte {found.hex(' ')} is not utf-8", found[0])
        case RecursionError():
            return JsonFault("it is not valid JSON: it is nested too deeply")
    return JsonFault("it has a number of more digits than any column holds; write fewer")


def _shortest(text: str) -> float | Decimal:
    """Parse a number to a float if the float has the same text, else to a Decimal."""
    value = Decimal(text)
    try:
        number = double(value)
    except ValueError:
        raise JsonFault(f"{shown(value)} is too large for a DOUBLE") from None
    return number if Decimal(repr(number)) == value else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises JsonFault for a name that occurs twice, because only one value could count."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise JsonFault(f"the name {twice[:_SHOWN]!r} comes twice in one object; give it once")
    return made


def _no_constant(name: str) -> Any:
    raise JsonFault(f'{name} is not a number of JSON; for a DOUBLE write it as a text: "{name}"')


def _decoder(shortest: bool, strict: bool) -> Decode:
    read = _shortest if shortest else Decimal
    constant = _no_constant if strict else None
    return json.JSONDecoder(parse_float=read, object_pairs_hook=_once, parse_constant=constant).decode


_DECODERS = {(shortest, strict): _decoder(shortest, strict) for shortest in (False, True) for strict in (False, True)}
