"""Text as numbers and truth values, for CAST; whole columns at a time.

    '  -1_234.5678e2 '  ->  sign -, digits 12345678, with the point after 4 + 2 of them

A DECIMAL or BIGINT takes the digits before the point plus its scale, and rounds by the next digit: exact for any
length, halves away from zero. Arrow reads a DOUBLE, correctly rounded.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.expressions.frame import booleans, to_large_string
from psoup.model import TEXT, DataType, Kind
from psoup.values.columns import Array, Column
from psoup.values.from_arrow import column_from_arrow

_SPACE = r"[ \t\n\v\f\r]*"
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_NUMBER = (
    rf"\A{_SPACE}(?P<sign>[+-]?)(?P<whole>(?:{_DIGITS})?)(?:\.(?P<part>(?:{_DIGITS})?))?"
    rf"(?:[eE](?P<exponent>[+-]?{_DIGITS}))?{_SPACE}\z"
)
_SPECIAL = rf"(?i)\A{_SPACE}[+-]?(?:inf|infinity|nan){_SPACE}\z"
_MOST_EXPONENT = 32_767
_PLACES = 19
"""The number of decimal digits of 2**63. Every number with this many digits fits uint64."""


def to_boolean(column: Column, target: DataType) -> tuple[Array, Array]:
    """Read the texts true, t, yes, y, 1 and false, f, no, n, 0, in upper or lower case, without spaces."""
    text = pc.ascii_lower(to_large_string(column))
    yes = booleans(pc.is_in(text, value_set=pa.array(["true", "t", "yes", "y", "1"], pa.large_string())))
    no = booleans(pc.is_in(text, value_set=pa.array(["false", "f", "no", "n", "0"], pa.large_string())))
    return yes, ~(yes | no)


def to_exact(column: Column, target: DataType) -> tuple[Array, Array]:
    """Read texts as BIGINT, or as DECIMAL in the form of scaled int64. Returns the values, and flags of failures."""
    fields = pc.extract_regex(to_large_string(column), pattern=_NUMBER)
    sign, whole, part, exponent = (_field(fields, name) for name in ("sign", "whole", "part", "exponent"))
    digits = pc.binary_join_element_wise(whole, part, pa.scalar("", pa.large_string()))
    trimmed = column_from_arrow("digits", TEXT, pc.ascii_ltrim(digits, characters="0"))
    power, bad_power = _exponent(exponent)
    point = _lengths(whole) + power + target.scale - (_lengths(digits) - np.diff(trimmed.values))
    size, carry = _read(trimmed, point)
    size = size + carry
    negative = booleans(pc.equal(sign, "-"))
    if target.kind is Kind.DECIMAL:
        too_big = size >= np.uint64(10**target.precision)
    else:
        too_big = size > np.where(negative, np.uint64(2**63), np.uint64(2**63 - 1))
    too_big = too_big | ((point > _PLACES) & (np.diff(trimmed.values) > 0))
    malformed = ~booleans(fields.is_valid()) | (_lengths(digits) == 0) | bad_power
    values = size.astype(np.int64)
    return np.where(negative, -values, values), malformed | too_big


def _read(digits: Column, point: Array) -> tuple[Array, Array]:
    """The first `point` digits of each row as uint64 (padded with zeros), and 1 to round up, else 0."""
    assert digits.data is not None
    lengths = np.diff(digits.values)
    data = np.append(digits.data, np.uint8(48))
    value = np.zeros(len(lengths), np.uint64)
    for place in range(min(_PLACES, max(int(point.max(initial=0)), 0))):
        digit = np.where(place < lengths, data[np.minimum(digits.values[:-1] + place, len(data) - 1)] - 48, 0)
        value = np.where(place < point, value * np.uint64(10) + digit.astype(np.uint64), value)
    follows = (point >= 0) & (point < lengths)
    next_digit = data[np.where(follows, digits.values[:-1] + point, 0)]
    return value, (follows & (next_digit >= 53)).astype(np.uint64)


def _field(fields: pa.StructArray, name: str) -> pa.Array:
    """The text of a group of the pattern, without underscores; "" if the pattern does not match."""
    text = pc.fill_null(pc.struct_field(fields, name), "").cast(pa.large_string())
    return pc.replace_substring(text, pattern="_", replacement="")


def _lengths(text: pa.Array) -> Array:
    lengths: Array = pc.binary_length(text).to_numpy(zero_copy_only=False)
    return lengths


def _exponent(text: pa.Array) -> tuple[Array, Array]:
    """The exponents as int64, 0 for a text without one; and flags of exponents that are too large."""
    digits = pc.utf8_ltrim(text, characters="+-")
    too_long = _lengths(digits) > 9
    plain = pc.if_else(pa.array(too_long | (_lengths(digits) == 0)), pa.scalar("0", pa.large_string()), digits)
    values = plain.cast(pa.int64()).to_numpy(zero_copy_only=False)
    values = np.where(booleans(pc.starts_with(text, pattern="-")), -values, values)
    return values, too_long | (np.abs(values) > _MOST_EXPONENT)


def to_double(column: Column, target: DataType) -> tuple[Array, Array]:
    """Read a number, or inf, infinity or nan in upper or lower case.

    A number that is too large becomes infinite, a number that is too small becomes zero.
    """
    text = to_large_string(column)
    fields = pc.extract_regex(text, pattern=_NUMBER)
    some_digit = (_lengths(_field(fields, "whole")) > 0) | (_lengths(_field(fields, "part")) > 0)
    good = (booleans(fields.is_valid()) & some_digit) | booleans(pc.match_substring_regex(text, pattern=_SPECIAL))
    readable = pc.if_else(pa.array(good), text, pa.scalar("0", pa.large_string()))
    plain = pc.ascii_trim(pc.replace_substring(readable, pattern="_", replacement=""), characters=" \t\n\v\f\r")
    values: Array = plain.cast(pa.float64()).to_numpy(zero_copy_only=False)
    return values, ~good
