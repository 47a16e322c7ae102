"""The search for the values that cannot be converted, by bisection."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

REFUSALS = (pa.ArrowException, TypeError, ValueError, ArithmeticError)
"""The errors that Arrow, Python and the readers raise for a value that cannot be converted."""


def failing(count: int, attempt: Callable[[int, int], object], most: int | None = None) -> list[int]:
    """Find the values, among `count`, for which `attempt` raises. `attempt(start, stop)` tries a range of them.

    `most`: the search ends with so many of them, the first ones. O(failing * log(count)) calls.
    """
    places, ranges = list[int](), [(0, count)] if count else []
    while ranges and len(places) != most:
        low, high = ranges.pop()
        try:
            attempt(low, high)
        except REFUSALS:
            middle = (low + high) // 2
            if high - low == 1:
                places.append(low)
            else:
                ranges += [(middle, high), (low, middle)]
    return places
