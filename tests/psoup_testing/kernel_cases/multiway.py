"""Arguments for the kernels of nested joins: trees of few sides, by buckets of one key and of many, from any state."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.join import hash_buckets as plain_buckets
from psoup.kernels.plain.join import multiway as plain
from psoup_testing.kernel_cases import range_pairs

Rng = np.random.Generator
Arguments = tuple[Any, ...]
_KEPT: list[Any] = []
"""The arrays that kernels are given by address."""


def _filled(rng: Rng, repeated: int = 1) -> Arguments:
    """Arguments and results of `fill_buckets`, with at least one row; keys beside the rows unless each bucket has
    one.
    """
    *ask, base, factor, shift, starts, _, _ = range_pairs.fill_buckets(rng)
    keys = np.repeat(ask[0], repeated)
    rows = np.arange(len(keys), dtype=np.int32)
    exact = factor == 1 and shift == 0
    filled = keys, rows, base, factor, shift, starts, np.zeros_like(rows), np.zeros(0 if exact else len(rows), np.int64)
    plain_buckets.fill_buckets(*filled)
    return filled


def keep_partnered(rng: Rng) -> Arguments:
    """Keys that have partners, and others; few of one bucket, or many; into the rows themselves, or not."""
    filled = _filled(rng, int(rng.choice([1, 1, 40])))
    keys = np.concatenate([filled[0], np.array([-(2**63), 2**63 - 1, -4, 12]), rng.integers(-9, 60, 9)])
    rows = np.sort(rng.permutation(len(keys))[: int(rng.integers(0, len(keys)))]).astype(np.int32)
    return keys, rows, *filled[2:6], filled[7], rows if rng.random() < 0.5 else np.zeros_like(rows)


def nest(rng: Rng) -> Arguments:
    """Between one and three steps, each from any earlier side; at the beginning, or where another call ended."""
    count, block = int(rng.integers(1, 4)), int(rng.choice([1, 3, 50]))
    steps = np.zeros((count, 11), np.int64)
    for level, step in enumerate(steps):
        keys, _, *bucket, starts, place_rows, place_keys = _filled(rng)
        other = np.where(rng.random(40) < 0.7, keys[rng.integers(0, len(keys), 40)], rng.integers(-9, 60, 40))
        _KEPT.append((other, starts, place_rows, place_keys))
        step[:3] = rng.integers(0, level + 1), other.ctypes.data, len(other)
        step[3:6] = np.array(bucket, np.uint64).view(np.int64)
        step[6:9] = starts.ctypes.data, len(starts), place_keys.ctypes.data if len(place_keys) else 0
        step[9:] = place_rows.ctypes.data, len(place_rows)
    rows = np.sort(rng.permutation(40)[: int(rng.integers(0, 40))]).astype(np.int32)
    room, limit = int(rng.choice([1, 7, 300])), int(rng.choice([1, 30, 10_000]))
    blocks, positions = np.zeros((count, count, block), np.int32), np.zeros((count, block), np.int64)
    ask = steps, rows, np.zeros((count + 1, 3), np.int64), 25, blocks, positions
    if rng.random() < 0.5:
        plain.nest(*ask, np.zeros(50, np.int32), np.zeros((count + 1, 5), np.int32), np.zeros((count, 4), np.int64))
    out = np.zeros(max(room, block), np.int32), np.zeros((count + 1, room), np.int32), np.zeros((count, 4), np.int64)
    return *ask[:3], limit, *ask[4:], *out


CASES = {"join.multiway.keep_partnered": keep_partnered, "join.multiway.nest": nest}
"""Part of `psoup_testing.kernel_cases.all_cases.CASES`."""
