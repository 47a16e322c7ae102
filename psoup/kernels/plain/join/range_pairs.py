"""Twins of `psoup.kernels.join.range_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array

_SEARCHED = ("left", "right", "right", "left")
_COMPARED = (np.equal, np.less, np.less_equal, np.greater, np.greater_equal)


def narrow_ranges(ordered: Array, keys: Array, relation: int, begin: Array, end: Array) -> int:
    """See the kernel."""
    left = 0
    for i, key in enumerate(keys):
        if begin[i] >= end[i]:
            continue
        place = begin[i] + np.searchsorted(ordered[begin[i] : end[i]], key, _SEARCHED[relation])  # type: ignore[call-overload]
        (begin if relation < 2 else end)[i] = place
        left += int(end[i]) - int(begin[i])
    return left


def emit_pairs(
    begin: Array,
    end: Array,
    keys: Array,
    place_keys: Array,
    place_rows: Array,
    at: int,
    inside: int,
    cap: int,
    left: Array,
    right: Array,
) -> tuple[int, int, int, int]:
    """See the kernel."""
    n = looked = 0
    while at < len(begin) and looked < cap:
        places = np.arange(begin[at] + inside, end[at])
        taken = places[: len(left) - n]
        if len(taken) < len(places) and n:
            break
        looked, inside = looked + len(taken), inside + len(taken)
        if len(place_keys):
            taken = taken[place_keys[taken] == keys[at]]
        left[n : n + len(taken)], right[n : n + len(taken)] = at, place_rows[taken]
        n += len(taken)
        if begin[at] + inside < end[at]:
            break
        at, inside = at + 1, 0
    return at, inside, n, looked


def keep_pairs(left_keys: Array, right_keys: Array, operator: int, left: Array, right: Array, pairs: int) -> int:
    """See the kernel."""
    places = np.flatnonzero(_COMPARED[operator](left_keys[left[:pairs]], right_keys[right[:pairs]]))
    left[: len(places)], right[: len(places)] = left[places], right[places]
    return len(places)
