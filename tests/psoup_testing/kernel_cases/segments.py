"""Cases of the kernels `segments` and `last_of_group`: rows of a few clauses, some without a row and some with many."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _counts(rng: Rng) -> Any:
    return rng.integers(0, 7, 9) * rng.choice([0, 1, 1, 12], 9)


def _starts(counts: Any) -> Any:
    return np.append(0, np.cumsum(counts)).astype(np.int64)


def _place_rows(rng: Rng) -> Arguments:
    counts = _counts(rng)
    which = rng.permutation(np.repeat(np.arange(9), counts))
    return which, _starts(counts)[:-1].copy(), np.zeros(len(which), np.int64)


def _count_rows(rng: Rng) -> Arguments:
    return rng.integers(0, 9, 30), rng.integers(0, 5, 9)


def _put_values(rng: Rng) -> Arguments:
    offsets, places = rng.integers(0, 50, 30), rng.permutation(40)[:30]
    return rng.integers(-9, 9, 50), offsets, places, np.zeros(40, np.int64)


def _order_within(rng: Rng) -> Arguments:
    """Few keys, so that rows of equal keys visibly keep their order, which differs from the order of row numbers."""
    starts = _starts(_counts(rng))
    rows = np.concatenate([np.zeros(0, np.int64), *map(rng.permutation, np.split(np.arange(starts[-1]), starts[1:-1]))])
    return rng.integers(-3, 4, starts[-1]) * int(rng.choice([1, 2**61])), starts, rows


def _group_within(rng: Rng) -> Arguments:
    """The groups of rows are wanted, or not."""
    keys, starts, _ = _order_within(rng)
    room = [np.zeros(len(keys), np.int64) for _ in range(2)]
    return keys, starts, np.zeros(len(keys) if rng.random() < 0.5 else 0, np.int32), *room, np.zeros_like(starts)


def _spread_names(rng: Rng) -> Arguments:
    starts = _starts(_counts(rng))
    return rng.integers(0, 99, 9), starts, np.zeros(starts[-1], np.int64)


def _cut_within(rng: Rng) -> Arguments:
    starts = _starts(_counts(rng))
    skip, limit = int(rng.integers(0, 4)), int(rng.choice([0, 1, 3, 2**62]))
    return starts, skip, limit, rng.permutation(starts[-1]), np.zeros_like(starts)


def _keep_last(rng: Rng) -> Arguments:
    """Some groups are full already, and some have no row."""
    numbers = rng.integers(0, int(rng.choice([1, 5, 40])), int(rng.integers(0, 60))).astype(np.int32)
    left = rng.integers(0, 6, 40).astype(np.int32)
    return numbers, left, rng.integers(0, 2, len(numbers)).astype(np.uint8)


CASES = {
    "fold.last_of_group.keep_last": _keep_last,
    "fold.segments.count_rows": _count_rows,
    "fold.segments.place_rows": _place_rows,
    "fold.segments.put_values": _put_values,
    "fold.segments.order_within": _order_within,
    "fold.segments.group_within": _group_within,
    "fold.segments.spread_names": _spread_names,
    "fold.segments.cut_within": _cut_within,
}
