"""Twins of `psoup.kernels.paired`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.paired import SPREADING
from psoup.kernels.plain import Array
from psoup.kernels.plain.joined import gather_keys


def choose_buckets(least: int, greatest: int, count: int) -> tuple[int, int, int, int, bool]:
    """See the kernel."""
    if greatest - least <= 2 * count:
        return least % 2**64, 1, 0, greatest - least + 1, True
    bits = max(count.bit_length(), 4)
    return 0, int(SPREADING), 64 - bits, 1 << bits, False


def pair_small(
    kinds: tuple[int, int],
    columns: tuple[int, int],
    sources: Array,
    stride: int,
    rows: Array,
    stops: Array,
    other_sources: Array,
    other_stride: int,
    other_rows: Array,
    other_stops: Array,
    most: int,
    left: Array,
    right: Array,
) -> int:
    """See the kernel."""
    sides = list[tuple[Array, Array]]()
    asked = (sources, stride, rows, stops), (other_sources, other_stride, other_rows, other_stops)
    for kind, column, own in zip(kinds, columns, asked, strict=True):
        keys, kept = np.empty(len(own[2]), np.int64), np.arange(len(own[2]), dtype=np.int32)
        count, _, _ = gather_keys(kind, column, *own, keys, kept)
        sides.append((keys, kept[:count]))
    (keys, driving), (other, others) = sides
    found = [(row, partner) for row in driving for partner in others if keys[row] == other[partner]]
    if len(found) > len(left):
        return -1
    left[: len(found)], right[: len(found)] = np.array(found, np.int32).reshape(-1, 2).T
    return len(found)
