"""Exact conversion of a number of JSON, or of a text with a number, to the value of a column.

DECIMAL(9,2)   12.5, "12.50"            12.505 has too many decimal places
BIGINT         12, 12.0, "12"           a text is exact in readers of JSON whose numbers are doubles
DOUBLE         12, 0.1, "NaN"           the nearest double; a whole number only if the double equals it
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pyarrow as pa

_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,9})?", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_DIGITS = 40
"""The greatest number of digits of a number that may be a BIGINT."""
_SHOWN = 80
_NAMED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
"""Texts for the doubles that JSON does not have, as answers in JSON write them."""


def exact(value: Decimal, target: pa.DataType) -> Decimal:
    """Return the number with few decimal places. Raises ValueError if `target` cannot hold it exactly. O(digits)."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError(f"{value} is not a valid number")
    if not any(digits):
        return Decimal(0)
    if value.adjusted() >= target.precision - target.scale:
        raise ValueError(f"it has more digits before the point than {target}")
    if value.adjusted() < -target.scale:
        raise ValueError(f"it has more decimal places than {target}")
    written = "".join(map(str, digits))
    significant = written.rstrip("0")
    exponent += len(written) - len(significant)
    if exponent < -target.scale:
        raise ValueError(f"it has more decimal places than {target}")
    return Decimal((sign, tuple(map(int, significant)), exponent))


def is_number(text: str) -> bool:
    """Whether a text is a decimal number, with an exponent or without; NaN and infinity are not."""
    return _NUMBER.fullmatch(text) is not None


def decimal_of_text(text: str, target: pa.DataType) -> Decimal:
    """Parse a text as a decimal. Raises ValueError if it is not a number, or if `target` cannot hold it exactly."""
    if not is_number(text):
        raise ValueError(f"{text[:100]!r} is not a valid number")
    return exact(Decimal(text), target)


def whole(value: int | float | Decimal) -> int:
    """Return the same number as an integer of 64 bits. Raises ValueError for any other number."""
    if isinstance(value, Decimal) and value and value.adjusted() > _DIGITS:
        raise ValueError("it is out of the range of 64 bits")
    integer = int(value)
    if integer != value or not -(2**63) <= integer < 2**63:
        raise ValueError("it is not a whole number of 64 bits")
    return integer


def whole_of_text(text: str) -> int:
    """Parse the digits of a whole number. Raises ValueError for another text, and beyond 64 bits."""
    if not _WHOLE.fullmatch(text):
        raise ValueError(f"{text[:100]!r} is not a whole number of 64 bits")
    return whole(int(text))


def double(value: Decimal) -> float:
    """Return the nearest float. Raises ValueError if that is infinite."""
    number = float(value)
    if math.isinf(number):
        raise ValueError(f'{shown(value)} is too large for a DOUBLE; write "Infinity" if it stands for that')
    return number


def double_of_text(text: str) -> float:
    """Return NaN or an infinity by its name. Raises ValueError for another text."""
    if text not in _NAMED:
        raise ValueError(f"{text[:100]!r} is not a number")
    return _NAMED[text]


def double_of_whole(value: int) -> float:
    """Return the same number as a float. Raises ValueError or OverflowError if no float equals it."""
    number = float(value)
    if number != value:
        raise ValueError("it is not exact")
    return number


def shown(value: Any) -> str:
    """Write a value for an error, in at most 80 characters."""
    text = str(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
