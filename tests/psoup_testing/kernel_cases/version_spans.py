"""Arguments for the kernels that search versions by key and time: several keys, some of which the table lacks."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.join import version_search

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_SECRET = np.uint64(0x5EED)
_VERSIONS = 40


def _free(places: int = 128) -> Any:
    return np.full(places, -1, np.int32)


def _grouped(rng: Rng) -> tuple[Any, ...]:
    """The key and the number of each group, the groups of versions, and the sizes of the groups."""
    keys = rng.integers(-3, 9, _VERSIONS)
    names, groups = np.zeros(_VERSIONS, np.int64), np.zeros(_VERSIONS, np.int32)
    sizes: Any = np.zeros(_VERSIONS + 1, np.int32)
    count = version_search.group_versions(keys, _SECRET, _free(), names, groups, sizes)
    return names, count, groups, sizes


def _times(rng: Rng) -> tuple[Any, Any]:
    """The begins and ends of versions."""
    begins = np.sort(rng.integers(0, 20, _VERSIONS))
    return begins, begins + rng.integers(0, 6, _VERSIONS)


def group_versions(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    arrays = np.zeros(_VERSIONS, np.int64), np.zeros(_VERSIONS, np.int32), np.zeros(_VERSIONS + 1, np.int32)
    return rng.integers(-3, 9, _VERSIONS), _SECRET, _free(), *arrays


def place_groups(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    names, count, *_ = _grouped(rng)
    return names, count, _SECRET, _free(32)


def sort_versions(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    _, count, groups, sizes = _grouped(rng)
    spans = np.zeros((_VERSIONS, 2), np.int64)
    # the kernel leaves other values behind the last group
    return groups, count, *_times(rng), sizes[: count + 1], np.zeros(_VERSIONS, np.int32), spans


def find_versions(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    names, count, groups, starts = _grouped(rng)
    slots, order, spans = _free(32), np.zeros(_VERSIONS, np.int32), np.zeros((_VERSIONS, 2), np.int64)
    version_search.place_groups(names, count, _SECRET, slots)
    version_search.sort_versions(groups, count, *_times(rng), starts, order, spans)
    rows = rng.integers(-5, 12, 50), rng.integers(-2, 28, 50)
    return *rows, _SECRET, slots, names, starts, order, spans, np.zeros(50, np.int32)
