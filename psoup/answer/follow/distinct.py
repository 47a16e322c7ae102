"""The distinct values of identifiers, which lie close together. They are counted, which is faster than sorting.

    ids                7 3 7 9 3
    distinct           3 7 9
    first places       1 0 3
    places of the ids  1 0 1 2 0

Identifiers that are far apart are sorted.
"""

from __future__ import annotations

import numpy as np

from psoup.values.columns import Array

_SPAN = 32
"""The greatest span of identifiers that are counted, as a multiple of their number."""


def _span(ids: Array) -> tuple[int, int]:
    """The lowest of some identifiers, and the number of values up to the greatest. 0 if they are to be sorted."""
    lowest = int(ids.min()) if len(ids) else 0
    span = int(ids.max()) - lowest + 1 if len(ids) else 0
    return lowest, span if span <= _SPAN * len(ids) else 0


def distinct_first(ids: Array) -> tuple[Array, Array]:
    """The distinct identifiers (int64[n]), ascending, and the first place of each. O(n + span)."""
    lowest, span = _span(ids)
    if not span:
        distinct, first = np.unique(ids, return_index=True)
        return distinct, first
    first_of: Array = np.full(span, -1, np.int64)
    first_of[ids[::-1] - lowest] = np.arange(len(ids) - 1, -1, -1)
    present = np.flatnonzero(first_of >= 0)
    return present + lowest, first_of[present]


def distinct_places(ids: Array) -> tuple[Array, Array]:
    """The distinct identifiers (int64[n]), ascending, and the place of each given one among them. O(n + span)."""
    lowest, span = _span(ids)
    if not span:
        distinct, places = np.unique(ids, return_inverse=True)
        return distinct, places
    present: Array = np.zeros(span, np.bool_)
    present[ids - lowest] = True
    places = np.cumsum(present) - 1
    return np.flatnonzero(present) + lowest, places[ids - lowest]
