"""Constants of more than 18 digits: comparisons take their exact values, other functions the nearest DOUBLE.

    b > 9223372036854775806.5     b is a BIGINT             b > 9223372036854775806
    e = 0.00000000000000000001    e is a DECIMAL(18,4)      never true: e = 9223372036854775807
    d < 99999999999999999999      d is a DOUBLE             d < 1e20, the least DOUBLE that is not below the constant

A comparison gets another constant, of the type on the other side, with the same result. If the type has no such value,
the new constant is beyond all its values. If the constant has a decimal point, a DOUBLE is compared with the DOUBLE
nearest to the constant, as in DuckDB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

from psoup.expressions.tree import Expr, Literal, LongNumber
from psoup.model import BIGINT, DOUBLE, MAX_DECIMAL_PRECISION, MAX_WIDE_PRECISION, DataType, Kind, decimal, wide

MOST_PLACES = 1_100
"""The most decimal places of a constant that are kept; no DOUBLE has more. A single 1 replaces all further digits."""

FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""The same comparison with its sides swapped; = and <> do not change."""

_END = 2**63
_NOT_A_DOUBLE = Literal(BIGINT, 2**53 + 1)
"""A whole number that no DOUBLE equals, as comparisons with whole numbers are exact."""
_BEYOND_DECIMAL = _END - 1
_WIDE_END = 10**38


def exact_number(digits: int, places: int, fewest_places: int = 0) -> Literal:
    """The constant `digits / 10**places` without trailing zeros, but with at least `fewest_places` decimal places.

    Raises OverflowError if no DOUBLE is as large.
    """
    while places > fewest_places and not digits % 10:
        digits, places = digits // 10, places - 1
    if not places and -_END <= digits < _END:
        return Literal(BIGINT, digits)
    precision = max(len(str(abs(digits))), places + 1)
    if places and precision <= MAX_DECIMAL_PRECISION:
        return Literal(decimal(precision, places), digits)
    return LongNumber(DOUBLE, float(Fraction(digits, 10**places)), digits, places)


def compared(name: str, left: Expr, right: Expr) -> tuple[Expr, Expr]:
    """The sides of the comparison `name`, with a value of the other side's type in place of a `LongNumber`.

    One side is a `LongNumber`; the other is a number.
    """
    if isinstance(left, LongNumber):
        if isinstance(right, LongNumber):
            first, second = _exact(left), _exact(right)
            order = (first > second) - (first < second)
            return Literal(BIGINT, order), Literal(BIGINT, 0)
        return moved(left, right.type, FLIPPED.get(name, name)), right
    assert isinstance(right, LongNumber)
    return left, moved(right, left.type, name)


def plain(args: Sequence[Expr]) -> list[Expr]:
    """The arguments, with the nearest DOUBLE for each `LongNumber`."""
    return [Literal(arg.type, arg.value) if isinstance(arg, LongNumber) else arg for arg in args]


def summands(args: Sequence[Expr]) -> list[Expr]:
    """The arguments of + and -. If one is a sum of type WIDE, each `LongNumber` of up to 38 digits stays exact.

    Otherwise each `LongNumber` becomes the nearest DOUBLE.
    """
    if not any(arg.type.kind is Kind.WIDE for arg in args):
        return plain(args)
    exact = [
        Literal(wide(arg.places), arg.digits)
        if isinstance(arg, LongNumber) and abs(arg.digits) < _WIDE_END and arg.places <= MAX_WIDE_PRECISION
        else arg
        for arg in args
    ]
    return plain(exact)


def computed(name: str, args: Sequence[Expr]) -> Literal | None:
    """The exact sum, difference, product or negative of constants. Returns None for any other function or argument."""
    values = [_value(arg) for arg in args if isinstance(arg, Literal)]
    if len(values) < len(args) or None in values or name not in ("add", "sub", "mul", "neg"):
        return None
    first, *others = [value for value in values if value is not None]
    for other in others:
        first = first + other if name == "add" else first - other if name == "sub" else first * other
    if name == "neg":
        first = -first
    places = sum(arg.places if isinstance(arg, LongNumber) else arg.type.scale for arg in args)
    if places > MOST_PLACES:
        return None
    try:
        return exact_number(int(first * 10**places), places)
    except OverflowError:
        return None


def _exact(number: LongNumber) -> Fraction:
    return Fraction(number.digits, 10**number.places)


def _value(literal: Literal) -> Fraction | None:
    """The number of a constant. Returns None for NULL, and for a constant that is not an exact number."""
    if isinstance(literal, LongNumber):
        return _exact(literal)
    if literal.value is None or literal.type.kind not in (Kind.BIGINT, Kind.DECIMAL, Kind.WIDE):
        return None
    return Fraction(int(literal.value), 10**literal.type.scale)


def moved(number: LongNumber, other: DataType, name: str) -> Literal:
    """The constant of type `other` with which `x name constant` has the same result as with `number`."""
    exact = _exact(number)
    if other.kind is Kind.DOUBLE:
        return _among_doubles(number, exact, name)
    scaled = exact * 10**other.scale
    if scaled.denominator == 1:
        value = int(scaled)
    elif name in ("lt", "ge"):
        value = math.ceil(scaled)
    elif name in ("gt", "le"):
        value = math.floor(scaled)
    else:
        return _beyond(other, 1)
    if other.kind is Kind.BIGINT:
        return Literal(BIGINT, value) if -_END <= value < _END else _beyond(other, value)
    fits = abs(value) < (10**MAX_DECIMAL_PRECISION if other.kind is Kind.DECIMAL else _WIDE_END)
    return Literal(DataType(other.kind, _digits(other), other.scale), value) if fits else _beyond(other, value)


def _digits(other: DataType) -> int:
    return MAX_DECIMAL_PRECISION if other.kind is Kind.DECIMAL else other.precision


def _beyond(other: DataType, sign: int) -> Literal:
    """A constant above all values of an exact type, or below them if `sign` is negative."""
    if other.kind is Kind.DECIMAL:  # a DOUBLE would make the column a DOUBLE
        return Literal(BIGINT, _BEYOND_DECIMAL if sign > 0 else -_BEYOND_DECIMAL)
    return Literal(DOUBLE, math.copysign(math.inf, sign))


def _among_doubles(number: LongNumber, exact: Fraction, name: str) -> Literal:
    """The constant that compares with a DOUBLE like `number`.

    For a whole number this is a DOUBLE next to it, or a number that no DOUBLE equals. For a number with a point it is
    the nearest DOUBLE.
    """
    near = number.value
    assert isinstance(near, float)
    if number.places or Fraction(near) == exact:
        return Literal(DOUBLE, near)
    if name in ("lt", "ge"):
        return Literal(DOUBLE, near if Fraction(near) > exact else math.nextafter(near, math.inf))
    if name in ("gt", "le"):
        return Literal(DOUBLE, near if Fraction(near) < exact else math.nextafter(near, -math.inf))
    return _NOT_A_DOUBLE
