"""Twins of `psoup.kernels.fold.segments`."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from psoup.kernels.plain import Array


def place_rows(which: Array, free: Array, places: Array) -> None:
    """See the kernel."""
    for i, clause in enumerate(which.tolist()):
        places[i] = free[clause]
        free[clause] += 1


def put_values(values: Array, offsets: Array, places: Array, out: Array) -> int:
    """See the kernel."""
    out[places] = values[offsets]
    return int(values[::8].sum()) if 16 * len(offsets) > len(values) else 0


def order_within(keys: Array, starts: Array, rows: Array) -> None:
    """See the kernel."""
    for low, high in pairwise(starts.tolist()):
        rows[low:high] = sorted(rows[low:high].tolist(), key=lambda row: int(keys[row]))


def group_within(keys: Array, starts: Array, groups: Array, group_keys: Array, counts: Array, ends: Array) -> int:
    """See the kernel."""
    first = 0
    for segment, (low, high) in enumerate(pairwise(starts.tolist())):
        part, places, rows = np.unique(keys[low:high], return_inverse=True, return_counts=True)
        ends[segment], last = first, first + len(part)
        group_keys[first:last], counts[first:last] = part, rows
        if len(groups):
            groups[low:high] = first + places
        first = last
    ends[-1] = first
    return first


def cut_within(starts: Array, skip: int, limit: int, rows: Array, ends: Array) -> int:
    """See the kernel."""
    remaining = [rows[low:high][skip : skip + limit].copy() for low, high in pairwise(starts.tolist())]
    ends[:] = np.cumsum([0, *map(len, remaining)])
    rows[: ends[-1]] = np.concatenate(remaining)
    return int(ends[-1])


def count_rows(which: Array, counts: Array) -> None:
    """See the kernel."""
    np.add.at(counts, which, 1)


def spread_names(names: Array, starts: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = np.repeat(names, np.diff(starts))
