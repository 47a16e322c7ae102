"""Texts as values of number parameters: in new queries, the constant must equal the number in the text.

    'price >= ?'   '1e400'       refused: the DOUBLE would be infinity
    'qty >= ?'     '1e-5000'     refused: the constant would be 0
    'price >= ?'   'Infinity'    infinity, as written; 'NaN' is refused

`holes.literal_of` makes the constants. It accepts all these texts, because a log of earlier releases may have them.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from psoup.model import DataType, Kind
from psoup.sql.templates.holes import Wrong, exact_constant, shown

NAN = "NaN, which pandas has for a missing value: give None for NULL, or write CAST('nan' AS DOUBLE) in the statement"

_LONGEST = 5_000
"""The most characters of a number. No DOUBLE has so many digits. It also limits the work of parsing."""
_SHORT = re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?", re.ASCII)


def check_number_text(text: str, expected: DataType) -> None:
    """Raise Wrong if the constant of a text differs from the number in the text, or is NaN. O(length)."""
    if _SHORT.fullmatch(text):
        return
    if len(text) > _LONGEST:
        raise _wrong(f"{shown(text)} of {len(text):,} characters, but a number has at most {_LONGEST:,}", expected)
    if not text.isascii():
        raise _wrong(f"{shown(text)}, but {expected} is expected; write it in the digits 0 to 9", expected)
    try:
        number = float(text)
    except ValueError:  # NaN with digits after it
        number = math.nan
    if math.isnan(number):
        raise Wrong(NAN, reason="PARAMETER_TYPE")
    if "inf" in text.lower():
        return
    if expected.kind is not Kind.DOUBLE:
        exact_constant(_decimal(text, expected))
    elif math.isinf(number):
        sign = "-" if number < 0 else ""
        raise _wrong(
            f"{shown(text)}, which lies beyond the greatest DOUBLE, 1.8e308; write '{sign}Infinity' for infinity",
            expected,
        )


def _decimal(text: str, expected: DataType) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:
        raise _wrong(f"{shown(text)}, whose exponent is too large for {expected}", expected) from None


def _wrong(message: str, expected: DataType) -> Wrong:
    return Wrong(message, reason="PARAMETER_TYPE", expected=str(expected))
