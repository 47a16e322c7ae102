"""Arguments for the kernels that find versions by key and time: several keys, some without a version."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.join import version_search

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_SECRET = np.uint64(0x5EED)
_ROWS, _VERSIONS = 50, 40


def number_keys(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    slots, names = np.full(128, -1, np.int32), np.zeros(_VERSIONS, np.int64)
    return rng.integers(-9, 9, _VERSIONS) << 40, _SECRET, slots, names, np.zeros(_VERSIONS, np.int64)


def find_numbers(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    keys, _, slots, names, numbers = number_keys(rng)
    version_search.number_keys(keys, int(_SECRET), slots, names, numbers)
    return rng.integers(-12, 12, _ROWS) << 40, _SECRET, slots, names, np.zeros(_ROWS, np.int64)


def meet_versions(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    times, begins = rng.integers(0, 24, _ROWS), rng.integers(0, 20, _VERSIONS)
    order = np.argsort(times, kind="stable").astype(np.int32)[int(rng.integers(0, 20)) :]
    rows = rng.integers(-5, 12, _ROWS), times, order
    order = np.argsort(begins, kind="stable").astype(np.int32)
    versions = rng.integers(-3, 9, _VERSIONS), begins, begins + rng.integers(0, 6, _VERSIONS), order
    table: Any = np.full((12, 2), -1, np.int64)
    return *rows, *versions, -3, table, np.full(_ROWS, -1, np.int32)
