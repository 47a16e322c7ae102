"""Window functions that show the value of another row: its position is found first, then its value is taken.

    x            3 - 5 1            positions in order; - is NULL
    lag(x)       none 0 1 2         the row before
    any_value(x) 0 0 0 0            the first row with a value in the frame
    min(x)       0 0 0 3            the least value in the frame so far

The functions get their arguments over positions, or only a mask of the rows that count.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.aggregates.state import Rows
from psoup.execution.over.partitions import Partitions
from psoup.execution.rows.sort_keys import ranks
from psoup.kernels.fold.frame_extremes import frame_extremes
from psoup.plan.over import WindowFunction
from psoup.values.columns import Array, plain

NONE = -1
"""The position if there is no such row."""

Finder = Callable[[WindowFunction, Partitions, Rows], Array]
"""Finds for each position the position of the row to show, int64[n], or NONE.

The `Rows` are the arguments over positions, with a mask of the rows that count.
"""


def _shifted(direction: int) -> Finder:
    """The finder of lag (direction -1) and lead (direction 1)."""

    def finder(function: WindowFunction, rows: Partitions, ordered: Rows) -> Array:
        by = direction * (1 if function.number is None else function.number)
        by = min(max(by, -len(rows)), len(rows))
        places = _of_values(rows, ordered, by) if function.skips_nulls else rows.positions + by
        return np.where((places >= rows.starts) & (places < rows.ends), places, NONE)

    return finder


def _of_values(rows: Partitions, ordered: Rows, by: int) -> Array:
    """The position of the value that is `by` values after each position, or before it. Skips NULLs."""
    if not by:
        return rows.positions
    counted = _counts(rows, ordered)
    values = np.append(np.flatnonzero(counted), NONE)
    before = np.cumsum(counted) - (counted if by < 0 else 0)
    place = before + (by if by < 0 else by - 1)
    return values[np.where((place >= 0) & (place < len(values) - 1), place, -1)]


def _counts(rows: Partitions, ordered: Rows) -> Array:
    """Whether each row counts: bool[n]."""
    return ordered.mask.view(np.bool_) if len(ordered.mask) else np.ones(len(rows), np.bool_)


def _first(function: WindowFunction, rows: Partitions, ordered: Rows) -> Array:
    """The first row of the frame that counts."""
    low, high = rows.frame(function.frame)
    if len(ordered.mask):
        counts = np.where(_counts(rows, ordered), rows.positions, len(rows))
        following = np.append(np.minimum.accumulate(counts[::-1])[::-1], len(rows))
        low = following[low]
    return np.where(low < high, low, NONE)


def _last(function: WindowFunction, rows: Partitions, ordered: Rows) -> Array:
    """The last row of the frame that counts."""
    low, high = rows.frame(function.frame)
    last = high - 1
    if len(ordered.mask):
        counts = np.where(_counts(rows, ordered), rows.positions, NONE)
        last = np.append(np.maximum.accumulate(counts), NONE)[last]
    return np.where((last >= low) & (low < high), last, NONE)


def _nth(function: WindowFunction, rows: Partitions, ordered: Rows) -> Array:
    """The n-th row of the frame that counts."""
    low, high = rows.frame(function.frame)
    by = min((function.number or 1) - 1, len(rows))
    if not len(ordered.mask):
        return np.where(low + by < high, low + by, NONE)
    counted = _counts(rows, ordered)
    values = np.append(np.flatnonzero(counted), len(rows))
    before = np.append(0, np.cumsum(counted))[low]
    places = values[np.minimum(before + by, len(values) - 1)]
    return np.where(places < high, places, NONE)


def _extreme(greatest: bool) -> Finder:
    """The finder of the row with the least or the greatest key in the frame. The key is the last argument."""

    def finder(function: WindowFunction, rows: Partitions, ordered: Rows) -> Array:
        low, high = rows.frame(function.frame)
        places: Array = np.empty(len(rows), np.int64)
        queue: Array = np.empty(len(rows), np.int64)
        keys = plain(ranks(ordered.args[-1]))
        frame_extremes(keys, plain(ordered.mask), plain(low), plain(high), greatest, queue, places)
        return places

    return finder


SHOWING = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
"""The finders that read no argument, only the mask of rows that count."""

POSITIONS: dict[str, Finder] = {
    "lag": _shifted(-1),
    "lead": _shifted(1),
    **dict.fromkeys(("first_value", "first", "any_value"), _first),
    **dict.fromkeys(("last_value", "last"), _last),
    "nth_value": _nth,
    **dict.fromkeys(("min", "arg_min"), _extreme(greatest=False)),
    **dict.fromkeys(("max", "arg_max"), _extreme(greatest=True)),
}
"""The finder of each function that shows the value of another row."""
