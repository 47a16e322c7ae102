"""Twins of `psoup.kernels.pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array

_SEARCHED = ("left", "right", "right", "left")
_COMPARED = (np.equal, np.less, np.less_equal, np.greater, np.greater_equal)


def narrow_ranges(ordered: Array, keys: Array, kept: int, begin: Array, end: Array) -> int:
    """See the kernel."""
    left = 0
    for i, key in enumerate(keys):
        if begin[i] >= end[i]:
            continue
        place = begin[i] + np.searchsorted(ordered[begin[i] : end[i]], key, _SEARCHED[kept])  # type: ignore[call-overload]
        (begin if kept < 2 else end)[i] = place
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
    most: int,
    left: Array,
    right: Array,
) -> tuple[int, int, int, int]:
    """See the kernel."""
    n = looked = 0
    while at < len(begin) and looked < most:
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


def pairs_of_sets(
    left_of: Array,
    right_of: Array,
    left_starts: Array,
    left_rows: Array,
    right_starts: Array,
    right_rows: Array,
    left_keys: Array,
    right_keys: Array,
    out: Array,
) -> int:
    """See the kernel."""
    at = 0
    for number, (left, right) in enumerate(zip(left_of.tolist(), right_of.tolist(), strict=True)):
        firsts = left_rows[left_starts[left] : left_starts[left + 1]]
        seconds = right_rows[right_starts[right] : right_starts[right + 1]]
        own, other = np.nonzero(left_keys[firsts][:, None] == right_keys[seconds][None, :])
        room = min(len(own), out.shape[1] - at)
        out[:, at : at + room] = np.full(room, number), firsts[own[:room]], seconds[other[:room]]
        if room < len(own):
            return -1
        at += room
    return at
