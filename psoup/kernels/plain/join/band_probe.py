"""Twins of `psoup.kernels.join.band_probe`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.arrays import BandBounds, KeyBuckets
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.pair_columns import _places_of


def probe_banded(
    keys: Array,
    rows: Array,
    buckets: KeyBuckets,
    near: Array,
    ordered: Array,
    bounds: BandBounds,
    at: int,
    inside: int,
    cap: int,
    left: Array,
    right: Array,
) -> tuple[int, int, int, int]:
    """See the kernel."""
    base, factor, shift, starts, place_keys, place_rows = buckets
    lower, low, upper, high = bounds
    n = looked = 0
    driving = rows if len(rows) else np.arange(len(keys))
    while at < len(driving) and looked < cap:
        row = driving[at]
        places = _places_of(keys[row : row + 1], base, factor, shift, starts)
        above = (ordered[places] >= near[row] + low) | (not lower)
        places = places[above & ((ordered[places] <= near[row] + high) | (not upper))][inside:]
        taken = places[: len(left) - n]
        if len(taken) < len(places) and n:
            break
        equal = taken[place_keys[taken] == keys[row]] if len(place_keys) else taken
        left[n : n + len(equal)], right[n : n + len(equal)] = row, place_rows[equal]
        n, looked = n + len(equal), looked + len(taken) + 1
        if len(taken) < len(places):
            inside += len(taken)
            break
        at, inside = at + 1, 0
    return at, inside, n, looked
