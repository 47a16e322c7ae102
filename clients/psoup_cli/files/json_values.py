"""The JSON value of a line. Numbers keep their digits until their column is known.

1.005            Decimal("1.005")          a double is another number, and one of a DECIMAL perhaps
1e500            Decimal("1E+500")         a double is infinite
{"i":1,"i":2}    refused                   Python would take the last
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
"""Characters of a name in a message."""

Decode = Callable[[str], Any]


def json_kind(value: Any) -> str:
    """Name the kind of a JSON value."""
    kinds = {dict: "an object", list: "an array", str: "a string", int: "a number", float: "a number"}
    kinds[Decimal] = "a number"
    return kinds.get(type(value)) or f"`{json.dumps(value)}`"


def json_value(line: bytes | str, *, shortest: bool = False) -> Any:
    """Read the JSON value on a line of a file; raises InvalidData that names the column of the fault.

    Numbers with a point or an exponent are Decimals. With `shortest` they are floats, if the float is written in the
    same way.
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
    """Return the float that is nearest to a number; raises InvalidData if that is infinite."""
    number = float(value)
    if math.isinf(number):
        raise InvalidData(f"{shown(value)} is too large for a DOUBLE; write Infinity if it stands for that")
    return number


def _shortest(text: str) -> float | Decimal:
    """Return a number as a float if that is written with the same digits, else as a Decimal."""
    value = Decimal(text)
    number = double(value)
    return number if Decimal(repr(number)) == value else value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object; raises InvalidData for a name that comes twice, as both values cannot count."""
    made = dict(pairs)
    if len(made) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise InvalidData(f"the name {twice[:_SHOWN]!r} comes twice in one object; give it once")
    return made


_DECIMALS: Decode = json.JSONDecoder(parse_float=Decimal, object_pairs_hook=_once).decode
_FLOATS: Decode = json.JSONDecoder(parse_float=_shortest, object_pairs_hook=_once).decode
