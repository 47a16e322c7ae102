"""Functions that never decrease with a time: a condition on the function becomes a condition on the time.

    year(t) = 2013           ->   t in [2013-01-01, 2014-01-01)
    CAST(t AS DATE) <= d     ->   t before the day after d

The predicate index usually has the time already. These functions never fail, so both conditions mean the same. For keys
see `psoup.sql.where.intervals`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.expressions.civil import DAY_MICROS, days_from_civil
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import DATE, TIMESTAMP, DataType
from psoup.plan.factors import Interval, Key
from psoup.sql.where.intervals import EVERYTHING, Intervals, normal

_FAR = 10_000_000
"""A year after every TIMESTAMP and DATE. Minus this year is before all of them."""


def followed_back(attribute: Expr, keys: Intervals) -> tuple[Expr, Intervals] | None:
    """The time that `attribute` is a function of, and the keys of the time for which `attribute` is in `keys`.

    None if `attribute` is another function.
    """
    if not isinstance(attribute, Call) or not keys:
        return None
    if attribute.name == "extract" and _is_year(attribute.args[0]):
        time = attribute.args[1]
        return time, _mapped(time.type, keys, lambda key: _first_of(int(key), time.type))
    if attribute.name == "cast" and attribute.type == DATE and attribute.args[0].type == TIMESTAMP:
        return attribute.args[0], _mapped(TIMESTAMP, keys, lambda key: int(key) * DAY_MICROS)
    return None


def grows(attribute: Expr) -> bool:
    """Whether a condition on `attribute` can become a condition on a time."""
    return followed_back(attribute, EVERYTHING) is not None


def _is_year(part: Expr) -> bool:
    return isinstance(part, Literal) and part.value == "year"


def _mapped(target: DataType, keys: Intervals, first: Callable[[Key], int]) -> Intervals:
    """The intervals of the time. Each end is the first key of the time for the end of an interval of `keys`."""
    return normal(target, [Interval(_end(i.low, first), _end(i.high, first)) for i in keys])


def _end(key: Key | None, first: Callable[[Key], int]) -> int | None:
    return None if key is None else first(key)


def _first_of(year: int, target: DataType) -> int:
    """The key of the first moment of a year, which may be before or after all times."""
    years, ones = np.array([min(max(year, -_FAR), _FAR)], np.int64), np.ones(1, np.int64)
    days = int(days_from_civil(years, ones, ones)[0])
    return days if target == DATE else days * DAY_MICROS
