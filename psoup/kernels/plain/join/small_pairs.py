"""Twins of `psoup.kernels.join.small_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.join.arrays import PairQuestion
from psoup.kernels.join.small_pairs import SPREADING
from psoup.kernels.plain import Array
from psoup.kernels.plain.join.pair_columns import gather_keys

Keyed = tuple[Array, Array]
"""Keys, and the rows that take part."""


def choose_buckets(minimum: int, maximum: int, count: int) -> tuple[int, int, int, int, bool]:
    """See the kernel."""
    if maximum - minimum <= max(2 * count, min(16 * count, 131_072)):
        return minimum % 2**64, 1, 0, maximum - minimum + 1, True
    bits = max(count.bit_length(), 4)
    return 0, int(SPREADING), 64 - bits, 1 << bits, False


def _written(pairs: list[tuple[int, int]], left: Array, right: Array) -> int:
    if len(pairs) > len(left):
        return -1
    left[: len(pairs)], right[: len(pairs)] = np.array(pairs, np.int32).reshape(-1, 2).T
    return len(pairs)


def pair_keys(
    keys: Array,
    driving: Array,
    other: Array,
    partner_rows: Array,
    minimum: int,
    maximum: int,
    cap: int,
    left: Array,
    right: Array,
) -> int:
    """See the kernel."""
    return _written([(r, p) for r in driving for p in partner_rows if keys[r] == other[p]], left, right)


def _keyed(kind: int, column: int, sources: Array, stride: int, rows: Array, stops: Array) -> Keyed:
    """The keys of a side."""
    keys, valid_rows = np.empty(len(rows), np.int64), np.arange(len(rows), dtype=np.int32)
    count, _, _ = gather_keys(kind, column, sources, stride, rows, stops, keys, valid_rows)
    return keys, valid_rows[:count]


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
    cap: int,
    left: Array,
    right: Array,
) -> int:
    """See the kernel."""
    keys, driving = _keyed(kinds[0], columns[0], sources, stride, rows, stops)
    other, partner_rows = _keyed(kinds[1], columns[1], other_sources, other_stride, other_rows, other_stops)
    return pair_keys(keys, driving, other, partner_rows, 0, 0, cap, left, right)


def _pairs_by(question: PairQuestion, left_side: Keyed, right_side: Keyed, cap: int, left: Array, right: Array) -> int:
    """As `psoup.kernels.join.small_pairs._pair_by`, of keys and the rows that take part."""
    (keys, driving), (others_keys, partner_rows) = left_side, right_side
    if keys.min() < question.minimum or keys.max() > question.maximum:
        return -2
    if others_keys.min() < question.other_minimum or others_keys.max() > question.other_maximum:
        return -2
    if question.is_equality:
        return pair_keys(keys, driving, others_keys, partner_rows, 0, 0, cap, left, right)
    if (np.diff(others_keys[partner_rows]) < 0).any():
        return -2
    low, high = question.low if question.has_low else -(2**62), question.high if question.has_high else 2**62
    near = [(r, p) for r in driving for p in partner_rows if low <= others_keys[p] - keys[r] <= high]
    return _written(near, left, right)


def meet_chained(
    keys: Array, start: int, stop: int, minimum: int, heads: Array, following: Array, left: Array, right: Array
) -> int:
    """See the kernel."""
    pairs = list[tuple[int, int]]()
    for row in range(start, stop):
        at = int(keys[row]) - minimum
        partner = heads[at] if 0 <= at < len(heads) else 0
        while partner:
            pairs.append((row, partner - 1))
            partner = following[partner]
    if len(pairs) > len(left):
        return -1
    left[: len(pairs)], right[: len(pairs)] = np.array(pairs, np.int32).reshape(-1, 2).T
    return len(pairs)
