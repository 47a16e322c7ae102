"""Values that are near one another, at places that are far apart: where codes of fewer bits than a value may be equal.

BIGINT      5 6 9 …                2^40 + 5, 2^40 + 6, …       identifiers: milliseconds << 22, numbers within them
TIMESTAMP   a year, + 1 us, …      another year, + 1 us, …
DOUBLE      a power of two, the next doubles …                 all exponents
TEXT        texts with equal hashes (`COLLIDING`)
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from decimal import Decimal

from psoup.model import DataType, Kind
from psoup_testing.histories.values import YEAR_1, YEAR_9999, Value

FAR = 1 << 40
COLLIDING = (
    ("u9l", "k82914"),
    ("k92357", "k110286"),
    ("k123121", "k197011"),
    ("k101707", "k107379"),
    ("k8452", "k154996"),
    ("k93091", "k204209"),
)
"""Pairs of texts of which `psoup.kernels.search.key_index.number_texts` makes one number."""
NEIGHBOURS = (
    ("k94679", "k206407"),
    ("k67180", "k236212"),
    ("25r", "k23096"),
    ("k17383", "k140761"),
    ("k65008", "k92074"),
    ("2wo", "k109241"),
)
"""Pairs of texts whose numbers differ by 1 or 2."""
IDENTIFIER = 400_000_000_000 << 22 | 7 << 12
"""An identifier of 63 bits: milliseconds, a machine, a number within the millisecond."""
_WHOLE = (0, FAR, -FAR, IDENTIFIER, IDENTIFIER + (1 << 22), IDENTIFIER + FAR, 2**62, -(2**62))
_YEAR, _MONTH = 31_557_600_000_000, 2_629_800_000_000
_TIMES = tuple(1_577_836_800_000_000 + years * _YEAR for years in (-900, -30, 0, 1, 2, 700))
_DAYS = (-700_000, -1, 18_262, 18_993, 2_900_000)
_EACH = 3
"""Values at a place, if there are many places."""


def near_and_far(data_type: DataType, source: random.Random, count: int) -> list[Value]:
    """About `count` values of a type: near one another at two places far apart, or a few at each of many places."""
    kind = data_type.kind
    if kind is Kind.TEXT:
        some = (*COLLIDING, *NEIGHBOURS)
        pairs = source.sample(some, min(len(some), max(2, count // 3)))
        others = [f"k{source.randrange(9 * count)}" for _ in range(count // 3)]
        return [text for pair in pairs for text in pair] + others
    if kind is Kind.BOOLEAN:
        return [True, False]
    if kind is Kind.DOUBLE:
        return _doubles(source, count)
    low, high, seen, step = _range(data_type, count)
    places = source.sample(seen, 2)
    if source.random() < 0.5:
        first = source.choice(seen)
        places = [first + step * at for at in source.sample(range(9 * count), max(2, count // _EACH))]
    each = max(1, count // len(places))
    wholes = [place + offset for place in places for offset in source.sample(range(2 * each), each)]
    wholes_in_range = [min(max(whole, low), high) for whole in wholes]
    return (
        [Decimal(n).scaleb(-data_type.scale) for n in wholes_in_range]
        if kind is Kind.DECIMAL
        else list(wholes_in_range)
    )


def _range(data_type: DataType, count: int) -> tuple[int, int, Sequence[int], int]:
    """The least and greatest whole numbers of a type, places among them, and the distance between places."""
    if data_type.kind is Kind.BIGINT:
        return -(2**63), 2**63 - 1, _WHOLE, 1 << 22
    if data_type.kind is Kind.TIMESTAMP:
        return YEAR_1, YEAR_9999, _TIMES, _MONTH
    if data_type.kind is Kind.DATE:
        return -719_162, 2_932_896, _DAYS, 731
    top = 10**data_type.precision - 1
    return -top, top, (0, top - 3 * count, 3 * count - top), max(1, top // (20 * count))


def _doubles(source: random.Random, count: int) -> list[Value]:
    """Doubles of any exponent, some of them with the next ones."""
    values: list[Value] = []
    while len(values) < count:
        value = math.ldexp(source.choice((1.0, -1.0, 1.5)), source.randrange(-1_074, 1_023))
        for _ in range(source.choice((1, 1, 4))):
            values.append(value)
            value = math.nextafter(value, math.inf)
    return values
