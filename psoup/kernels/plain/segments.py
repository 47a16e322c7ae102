"""Twins of `psoup.kernels.segments`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from psoup.kernels.plain import Array


def place_rows(which: Array, free: Array, places: Array) -> None:
    """See the kernel."""
    for i, clause in enumerate(which.tolist()):
        places[i] = free[clause]
        free[clause] += 1


def put_values(values: Array, offsets: Array, places: Array, out: Array) -> None:
    """See the kernel."""
    out[places] = values[offsets]


def order_within(keys: Array, starts: Array, rows: Array) -> None:
    """See the kernel."""
    for low, high in pairwise(starts.tolist()):
        rows[low:high] = sorted(rows[low:high].tolist(), key=lambda row: int(keys[row]))


def group_within(
    keys: Array, starts: Array, rows: Array, groups: Array, group_keys: Array, counts: Array, ends: Array
) -> int:
    """See the kernel."""
    group = -1
    for segment, (low, high) in enumerate(pairwise(starts.tolist())):
        ends[segment] = group + 1
        for key in dict.fromkeys(keys[rows[low:high]].tolist()):
            some = [row for row in rows[low:high].tolist() if keys[row] == key]
            group += 1
            groups[some], group_keys[group], counts[group] = group, key, len(some)
    ends[-1] = group + 1
    return group + 1


def cut_within(starts: Array, skip: int, limit: int, rows: Array, ends: Array) -> int:
    """See the kernel."""
    kept = [rows[low:high][skip : skip + limit].copy() for low, high in pairwise(starts.tolist())]
    ends[:] = np.cumsum([0, *map(len, kept)])
    rows[: ends[-1]] = np.concatenate(kept)
    return int(ends[-1])
