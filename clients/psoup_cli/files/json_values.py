"""The JSON value of a line. Numbers keep their digits until their column is known.

1.005            Decimal("1.005")          a double would be a slightly different number, wrong for a DECIMAL
1e500            Decimal("1E+500")         a double would be infinite
{"i":1,"i":2}    refused                   Python would take the last value
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from psoup_client import InvalidData
from psoup_client.columns.misfits import shown

_SHOWN = 64
"""The greatest number of characters of a name in a message."""

Decode = Callable[[str], Any]


def json_kind(value: Any) -> str:
    """Return the name of a JSON value's kind."""
    kinds = {dict: "an object", list: "an array", str: "a string", int: "a number", float: "a number"}
    kinds[Decimal] = "a number"
    return kinds.get(type(value)) or f"`{json.dumps(value)}`"


def json_value(line: bytes | str, *, shortest: bool = False) -> Any:
    """Parse the JSON value on a line of a file. Raises InvalidData that names the column of the fault.

    Numbers with a point or an exponent are Decimals. With `shortest`, such a number is a float if the float has the
    same text.
    """
    decode = _FLOATS if shortest else _DECIMALS
    try:
        return decode(line if isinstance(line, str) else line.decode())
    except json.JSONDecodeError as problem:
        reason = f"{problem.msg} at column {problem.colno}"
    except UnicodeDecodeError as problem:
        reason = f"byte {problem.object[problem.start : problem.end].hex(' ')} is not utf-8"
        raise InvalidData(f"{reason}; say what the file is in with --encoding, latin-1 for instance") from None
    except RecursionError:
        reason = "it is nested too deeply"
    except (ValueError, ArithmeticError):
        raise InvalidData("it has a number of more digits than any column holds; write fewer") from None
    raise InvalidData(f"it is not valid JSON: {reason}; write one object on each line")


def double(value: Decimal) -> float:
    """Return the nearest float. Raises InvalidData if that is infinite."""
    number = float(value)
    if math.isinf(number):
        raise InvalidData(f"{shown(value)} is too large for a DOUBLE; write Infinity if it stands for that")
    return number


def _shortest(text: str) -> float | Decimal:
    """Parse a number to a float if the float has the same text, else to a Decimal."""
    value = Decimal(text)
    number = double(value)
    return number if Decimal(repr(number)) == value else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object. Raises InvalidData for a name that occurs twice, because only one value could count."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidData(f"the name {twice[:_SHOWN]!r} comes twice in one object; give it once")
    return made


_DECIMALS: Decode = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=_once).decode
_FLOATS: Decode = json.JSONDecoder(parse_float=_shortest, object_pairs_hook=_once).decode
