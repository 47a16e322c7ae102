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

from psoup_proto.json_rows.decimals import of_texts
from psoup_proto.json_rows.numbers import exact, is_number

__all__ = ["PLACES", "are_near", "exact", "is_number", "of_decimals", "of_texts"]

PLACES = range(-20, 39)
"""The scales from which Arrow can rescale a number to a column's scale."""

_LONGEST = 40
"""The greatest length of a text with 38 digits, a sign and a point."""


def are_near(values: Iterable[Any]) -> bool:
    """Whether all numbers among some values have no exponent and at most 38 digits, so that Arrow may rescale them.

    O(values). A check of the text takes 0.15 us a value; `as_tuple` takes three times as long.
    """
    texts = [*map(str, values)]
    return max(map(len, texts), default=0) <= _LONGEST and "E" not in "".join(texts)


def of_decimals(array: pa.Array | pa.ChunkedArray, target: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Rescale decimals whose scale is at least `PLACES.start`.

    Raises ArrowException or ValueError for a value that is not exact in `target`.
    """
    if array.type.scale in PLACES:
        return array.cast(target)
    return pa.array([None if value is None else exact(value, target) for value in array.to_pylist()], target)
