"""Twins of `psoup.kernels.paired`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.paired import CODE_SHIFT, SPREADING
from psoup.kernels.plain import Array
from psoup.kernels.plain.joined import gather_keys
from psoup.kernels.plain.located import write_rows

Place = tuple[Array, Array, int, int, Array, int]
Band = tuple[bool, bool, int, bool, int]


def choose_buckets(least: int, greatest: int, count: int) -> tuple[int, int, int, int, bool]:
    """See the kernel."""
    if greatest - least <= 2 * count:
        return least % 2**64, 1, 0, greatest - least + 1, True
    bits = max(count.bit_length(), 4)
    return 0, int(SPREADING), 64 - bits, 1 << bits, False


def _written(found: list[tuple[int, int]], left: Array, right: Array) -> int:
    if len(found) > len(left):
        return -1
    left[: len(found)], right[: len(found)] = np.array(found, np.int32).reshape(-1, 2).T
    return len(found)


def pair_keys(
    keys: Array,
    driving: Array,
    other: Array,
    others: Array,
    least: int,
    greatest: int,
    most: int,
    left: Array,
    right: Array,
) -> int:
    """See the kernel."""
    return _written([(r, p) for r in driving for p in others if keys[r] == other[p]], left, right)


def _side(kind: int, column: int, sources: Array, stride: int, rows: Array, stops: Array) -> tuple[Array, Array]:
    """The keys, and the rows that take part."""
    keys, kept = np.empty(len(rows), np.int64), np.arange(len(rows), dtype=np.int32)
    count, _, _ = gather_keys(kind, column, sources, stride, rows, stops, keys, kept)
    return keys, kept[:count]


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
    keys, driving = _side(kinds[0], columns[0], sources, stride, rows, stops)
    other, others = _side(kinds[1], columns[1], other_sources, other_stride, other_rows, other_stops)
    return pair_keys(keys, driving, other, others, 0, 0, most, left, right)


def pair_located(
    one: Place,
    other: Place,
    kinds: tuple[int, int],
    columns: tuple[int, int],
    band: Band,
    fitting: tuple[int, int, int, int],
    most: int,
    left: Array,
    right: Array,
) -> int:
    """See the kernel."""
    sides, codes = list[tuple[Array, Array]](), list[Array]()
    for kind, column, (located, chunks, slot, size, sources, stride) in zip(kinds, columns, (one, other), strict=True):
        rows, stops = np.empty(size, np.int32), located[:, 4].cumsum()
        write_rows(located, chunks, slot, rows)
        sides.append(_side(kind, column, sources, stride, rows, stops))
        codes.append(rows + (np.repeat(np.arange(len(stops)), located[:, 4]) << CODE_SHIFT))
    (keys, driving), (others_keys, others) = sides
    bounds = keys.min(), -keys.max(), others_keys.min(), -others_keys.max()
    if any(b < f for b, f in zip(bounds, (fitting[0], -fitting[1], fitting[2], -fitting[3]), strict=True)):
        return -2
    if band[0]:
        pairs = pair_keys(keys, driving, others_keys, others, 0, 0, most, left, right)
    elif (np.diff(others_keys[others]) < 0).any():
        return -2
    else:
        _, lower, low, upper, high = band
        low, high = (low if lower else -(2**62)), (high if upper else 2**62)
        near = [(r, p) for r in driving for p in others if low <= others_keys[p] - keys[r] <= high]
        pairs = _written(near, left, right)
    left[: max(pairs, 0)] = codes[0][left[: max(pairs, 0)]]
    right[: max(pairs, 0)] = codes[1][right[: max(pairs, 0)]]
    return pairs
