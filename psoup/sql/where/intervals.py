"""Sets of order keys as sorted, disjoint, half-open intervals, and the cuts of constants among the keys of a type.

    BIGINT a > 2.5       2.5 lies between 2 and 3: cut (3, 3)     ->  [3, inf)
    TEXT   t <= 'ab'     the keys equal to 'ab': cut (ab, ab\\0)   ->  (-inf, ab\\0)

The *cut* of a constant c is two keys: the least key that is not less than c, and the least key greater than c. The two
keys are equal if no value of the type equals c. The cut decides all comparisons exactly, for all pairs of types.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np

from psoup.expressions.tree import Literal
from psoup.model import DataType, Kind
from psoup.plan.factors import Interval, Key
from psoup.values.columns import float_keys
from psoup.values.kinds import BEYOND, LEAST, ends

Intervals = tuple[Interval, ...]

EVERYTHING: Intervals = (Interval(None, None),)
NOTHING: Intervals = ()

ENDS: dict[str, tuple[int | None, int | None]] = {
    "eq": (0, 1),
    "lt": (None, 0),
    "le": (None, 1),
    "gt": (1, None),
    "ge": (0, None),
}
"""For each operator, the index in a constant's cut at which the interval begins, and that at which it ends. None:
open."""

FLIPPED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
"""For each operator, the operator with the same meaning after its sides are exchanged."""


def float_key(value: float) -> int:
    """The order key of one DOUBLE."""
    return int(float_keys(np.array([value], np.float64))[0])


def cut(data_type: DataType, literal: Literal) -> tuple[Key, Key]:
    """The cut of a constant (not NULL) among the keys of `data_type`. Integer keys may be beyond int64.

    The types are equal, or are numbers that evaluation compares exactly (see `conversion.comparable`).
    """
    value, kind = literal.value, data_type.kind
    if kind is Kind.TEXT:
        key = str(value).encode()
        return key, key + b"\0"
    if kind is Kind.DOUBLE:
        return _double_cut(literal)
    if literal.type.kind is Kind.DOUBLE:
        return _whole_cut(data_type.scale, float(value))  # type: ignore[arg-type]
    assert isinstance(value, int | float)
    return _rational_cut(Fraction(int(value) * 10**data_type.scale, 10**literal.type.scale))


def _rational_cut(value: Fraction) -> tuple[int, int]:
    return math.ceil(value), math.floor(value) + 1


def _whole_cut(scale: int, value: float) -> tuple[int, int]:
    """The cut of a DOUBLE constant among integer keys. NaN is above all of them."""
    if math.isnan(value) or value == math.inf:
        return BEYOND, BEYOND
    if value == -math.inf:
        return LEAST, LEAST
    return _rational_cut(Fraction(value) * 10**scale)


def _double_cut(literal: Literal) -> tuple[int, int]:
    """The cut of a constant among the keys of DOUBLE. It is exact even for integers that equal no DOUBLE."""
    assert isinstance(literal.value, int | float)
    if literal.type.kind is Kind.DOUBLE:
        key = float_key(float(literal.value))
        return key, key + 1
    exact = Fraction(int(literal.value), 10**literal.type.scale)
    near = float(exact)
    key = float_key(near)
    if Fraction(near) == exact:
        return key, key + 1
    return (key, key) if Fraction(near) > exact else (key + 1, key + 1)


def compared(operator: str, data_type: DataType, literal: Literal) -> Intervals:
    """The keys k with `k operator literal` for eq, ne, lt, le, gt, ge. The literal is not NULL."""
    keys = cut(data_type, literal)
    if operator == "ne":
        return normal(data_type, [Interval(None, keys[0]), Interval(keys[1], None)])
    low, high = ENDS[operator]
    return normal(data_type, [Interval(None if low is None else keys[low], None if high is None else keys[high])])


def prefixed(prefix: str) -> Intervals:
    """The keys of the texts that begin with `prefix`, which is not empty."""
    low = prefix.encode()
    return (Interval(low, low[:-1] + bytes([low[-1] + 1])),)  # no byte of UTF-8 is 0xFF


def normal(data_type: DataType, intervals: Iterable[Interval]) -> Intervals:
    """The union of the intervals in canonical form: sorted, disjoint, and open at the ends of the type.

    Equal sets have equal forms.
    """
    first, beyond = ends(data_type)
    clean = []
    for interval in intervals:
        low, high = interval.low, interval.high
        if low is not None and low <= first:  # type: ignore[operator]
            low = None
        if high is not None and beyond is not None and high >= beyond:  # type: ignore[operator]
            high = None
        empty = (low is not None and beyond is not None and low >= beyond) or (  # type: ignore[operator]
            high is not None and high <= first  # type: ignore[operator]
        )
        if not empty and (low is None or high is None or low < high):  # type: ignore[operator]
            clean.append(Interval(low, high))
    return union(clean)


def union(intervals: Iterable[Interval]) -> Intervals:
    """The union of the intervals, sorted and disjoint. O(n log n)."""
    ordered = sorted(intervals, key=lambda i: (i.low is not None, i.low))
    merged: list[Interval] = []
    for interval in ordered:
        last = merged[-1] if merged else None
        if last is None or (last.high is not None and interval.low is not None and interval.low > last.high):  # type: ignore[operator]
            merged.append(interval)
        elif last.high is not None and (interval.high is None or interval.high > last.high):  # type: ignore[operator]
            merged[-1] = Interval(last.low, interval.high)
    return tuple(merged)


def complement(intervals: Intervals) -> Intervals:
    """The keys that are in none of the intervals. O(n)."""
    if not intervals:
        return EVERYTHING
    gaps = [Interval(interval.high, following.low) for interval, following in pairwise(intervals)]
    if intervals[0].low is not None:
        gaps.insert(0, Interval(None, intervals[0].low))
    if intervals[-1].high is not None:
        gaps.append(Interval(intervals[-1].high, None))
    return tuple(gaps)


def intersection(left: Sequence[Interval], right: Sequence[Interval]) -> Intervals:
    """The keys that are in both sets. Each set is sorted and disjoint. O(n + m)."""
    common: list[Interval] = []
    i = j = 0
    while i < len(left) and j < len(right):
        a, b = left[i], right[j]
        low = a.low if b.low is None or (a.low is not None and a.low > b.low) else b.low  # type: ignore[operator]
        a_ends = b.high is None or (a.high is not None and a.high < b.high)  # type: ignore[operator]
        high = a.high if a_ends else b.high
        if low is None or high is None or low < high:  # type: ignore[operator]
            common.append(Interval(low, high))
        if a_ends:
            i += 1
        else:
            j += 1
    return tuple(common)
