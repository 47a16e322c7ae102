"""Exact decimals: conversion of numbers and texts to DECIMAL values, without loss of a digit.

    "1.50"  Decimal("1.5")      at most 38 decimal places, no exponent     Arrow converts
    "1e-5000"  1.5000…000       everything else                            one by one, in Python

Arrow rescales by a table of 39 powers of ten, without a check of the exponent. A number with a large exponent becomes
another number (0 for "1e-5000"), or crashes the process. So Arrow gets only numbers without an exponent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from psoup_proto.json_rows.numbers import decimal_of_text, exact, is_number

__all__ = ["PLACES", "are_near", "exact", "is_number", "of_decimals", "of_texts"]

PLACES = range(-20, 39)
"""The scales from which Arrow can rescale a number to a column's scale."""

_LONGEST = 40
"""The greatest length of a text with 38 digits, a sign and a point."""
_PLAIN = r"^[+-]?([0-9]{1,38}(\.[0-9]{0,38})?|\.[0-9]{1,38})$"


def are_near(values: Iterable[Any]) -> bool:
    """Whether all numbers among some values have no exponent and at most 38 digits, so that Arrow may rescale them.

    O(values). A check of the text takes 0.15 us a value; `as_tuple` takes three times as long.
    """
    texts = [*map(str, values)]
    return max(map(len, texts), default=0) <= _LONGEST and "E" not in "".join(texts)


def of_texts(texts: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Parse texts as decimals. Raises ArrowException or ValueError for a value that `target` cannot hold exactly.

    O(bytes). It takes a microsecond for each value if one of them has an exponent, or more than 38 digits in a row.
    """
    import pyarrow.compute as pc

    if pc.all(pc.match_substring_regex(texts, _PLAIN), min_count=0).as_py():
        return texts.cast(target)
    return pa.array([None if text is None else decimal_of_text(text, target) for text in texts.to_pylist()], target)


def of_decimals(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Rescale decimals whose scale is at least `PLACES.start`.

    Raises ArrowException or ValueError for a value that is not exact in `target`.
    """
    if array.type.scale in PLACES:
        return array.cast(target)
    return pa.array([None if value is None else exact(value, target) for value in array.to_pylist()], target)
