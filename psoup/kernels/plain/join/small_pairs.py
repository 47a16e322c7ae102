"""Twins of `psoup.kernels.join.small_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.arrays import PairQuestion
from psoup.kernels.join.small_pairs import SPREADING
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.pair_columns import gather_keys

Keyed = tuple[Array, Array]
"""Keys, and the rows that take part."""


def choose_buckets(least: int, greatest: int, count: int) -> tuple[int, int, int, int, bool]:
    """See the kernel."""
    if greatest - least <= max(2 * count, min(16 * count, 131_072)):
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


def _keyed(kind: int, column: int, sources: Array, stride: int, rows: Array, stops: Array) -> Keyed:
    """The keys of a side."""
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
    keys, driving = _keyed(kinds[0], columns[0], sources, stride, rows, stops)
    other, others = _keyed(kinds[1], columns[1], other_sources, other_stride, other_rows, other_stops)
    return pair_keys(keys, driving, other, others, 0, 0, most, left, right)


def _pairs_by(question: PairQuestion, one: Keyed, other: Keyed, most: int, left: Array, right: Array) -> int:
    """As `psoup.kernels.join.small_pairs._pair_by`, of keys and the rows that take part."""
    (keys, driving), (others_keys, others) = one, other
    if keys.min() < question.least or keys.max() > question.greatest:
        return -2
    if others_keys.min() < question.other_least or others_keys.max() > question.other_greatest:
        return -2
    if question.is_equality:
        return pair_keys(keys, driving, others_keys, others, 0, 0, most, left, right)
    if (np.diff(others_keys[others]) < 0).any():
        return -2
    low, high = question.low if question.has_low else -(2**62), question.high if question.has_high else 2**62
    near = [(r, p) for r in driving for p in others if low <= others_keys[p] - keys[r] <= high]
    return _written(near, left, right)


def meet_chained(
    keys: Array, start: int, stop: int, least: int, heads: Array, following: Array, left: Array, right: Array
) -> int:
    """See the kernel."""
    found = list[tuple[int, int]]()
    for row in range(start, stop):
        at = int(keys[row]) - least
        partner = heads[at] if 0 <= at < len(heads) else 0
        while partner:
            found.append((row, partner - 1))
            partner = following[partner]
    if len(found) > len(left):
        return -1
    left[: len(found)], right[: len(found)] = np.array(found, np.int32).reshape(-1, 2).T
    return len(found)
