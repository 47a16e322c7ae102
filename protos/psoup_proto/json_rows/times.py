"""Texts of times and dates, converted by Arrow where it reads them as the contract does."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from psoup_proto.csv_rows.times import INSTANT

_FIRST_DAY = -719_162
"""The first day of the year 1, in days since 1970. Python has no earlier year."""
_FIRST = _FIRST_DAY * 86_400_000_000


class FormUnknown(Exception):
    """Raised for values that Arrow may read differently from the contract."""


def instants_of(texts: pa.Array) -> pa.Array:
    """Instants of texts in ISO 8601: all with a zone, or all without one, which is UTC. O(values).

    Raises ArrowInvalid or FormUnknown for other texts.
    """
    try:
        instants = texts.cast(INSTANT)
    except pa.ArrowInvalid:
        instants = texts.cast(pa.timestamp("us")).cast(INSTANT)
    return _checked(instants, pa.int64(), _FIRST)


def dates_of(texts: pa.Array) -> pa.Array:
    """Dates of texts such as 2024-05-01. Raises ArrowInvalid or FormUnknown for other texts. O(values)."""
    if pc.any(pc.not_equal(pc.binary_length(texts), 10)).as_py():
        raise FormUnknown
    return _checked(texts.cast(pa.date32()), pa.int32(), _FIRST_DAY)


def _checked(array: pa.Array, numbers: pa.DataType, first: int) -> pa.Array:
    minimum = pc.min(array.view(numbers)).as_py()
    if minimum is not None and minimum < first:
        raise FormUnknown
    return array
