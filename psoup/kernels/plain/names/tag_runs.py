"""Twins of `psoup.kernels.names.tag_runs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def find_names(wanted: Array, high: Array, low: Array, last_places: Array) -> None:
    """See the kernel."""
    places = {name: at for at, name in enumerate(zip(high.tolist(), low.tolist(), strict=True))}
    for i, (first, two) in enumerate(wanted.tolist()):
        last_places[i] = places.get((first, two), -1)


def merge_names(
    high: Array,
    low: Array,
    ids: Array,
    later_high: Array,
    later_low: Array,
    later_ids: Array,
    out_high: Array,
    out_low: Array,
    out_ids: Array,
) -> int:
    """See the kernel."""
    exact = len(out_low) > 0
    highs, all_ids = np.concatenate([high, later_high]), np.concatenate([ids, later_ids])
    lows = np.concatenate([low, later_low]) if exact else np.zeros(len(highs), np.uint64)
    order = np.lexsort((np.arange(len(highs)), lows, highs))
    if exact:
        same = (highs[order[:-1]] == highs[order[1:]]) & (lows[order[:-1]] == lows[order[1:]])
        order = order[np.append(~same, True)[: len(order)]]
        out_low[: len(order)] = lows[order]
    out_high[: len(order)], out_ids[: len(order)] = highs[order], all_ids[order]
    return len(order)
