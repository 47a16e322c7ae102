"""Arguments for the kernels of tables: keys that meet in the hash table, and rows with and without a successor."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.data.chunk_versions import bits_of
from psoup.kernels.plain.names import newest_versions

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_PLACES = 64
_LEFT: Any = np.zeros(8, np.uint16)
_LINKED = [[np.zeros(size, np.int64) for _ in range(4)] for size in (20, len(_LEFT), 20)]
"""The arrays whose addresses are arguments of `link_versions`."""


def _keys(rng: Rng, count: int) -> Any:
    """Lanes. Some are equal, and some only begin at the same place of a table."""
    return np.stack([rng.integers(0, 40, count), rng.integers(0, 2, count)], axis=1).astype(np.uint64)


def _table(rng: Rng) -> Any:
    """A table with the newest versions of some keys. Some keys have no version any more."""
    slots = np.zeros(newest_versions.SLOT * _PLACES, np.uint64)
    keys = _keys(rng, int(rng.integers(0, 24)))
    newest_versions.put_newest(keys, 0, slots, np.zeros(len(keys), np.int64))
    newest_versions.leave_newest(keys[rng.random(len(keys)) < 0.3], slots)
    return slots


def put_newest(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    keys = _keys(rng, 24)
    return keys, 100, _table(rng), np.zeros(len(keys), np.int64)


def find_newest(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    keys = _keys(rng, 24)
    return keys, _table(rng), np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)


def leave_newest(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    return _keys(rng, 24), _table(rng)


def move_newest(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    return _table(rng), np.zeros(2 * newest_versions.SLOT * _PLACES, np.uint64)


def link_versions(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name: three chunks of 20 places. The second chunk is thinned."""
    _LEFT[:] = np.sort(rng.choice(20, len(_LEFT), replace=False))
    places = np.array([[*(each.ctypes.data for each in part), 0, 0] for part in _LINKED], np.int64)
    places[1, 4:] = _LEFT.ctypes.data, len(_LEFT)
    earlier = np.concatenate([np.arange(20), 20 + _LEFT.astype(np.int64)])
    before = np.where(rng.random(15) < 0.3, -1, rng.permutation(earlier)[:15])
    return 40, rng.integers(0, 99, 15), before, np.array([0, 20, 40]), places, np.zeros(3, np.int64)


def _rows(rng: Rng) -> tuple[Any, ...]:
    count = 40
    times = np.sort(rng.integers(0, 10, count)).astype(np.int64)
    successors = np.where(rng.random(count) < 0.5, rng.integers(1, 60, count), 0).astype(np.int64)
    ends = np.where(successors > 0, times + rng.integers(0, 4, count), 0).astype(np.int64)
    offsets = np.flatnonzero(rng.random(count) < 0.7).astype(np.int64)
    return offsets, times, rng.random(count) < 0.2, rng.random(count) < 0.2, successors, ends


def open_rows(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    rows = _rows(rng)
    return *rows, int(rng.integers(0, 12)), int(rng.integers(30, 60)), bool(rng.integers(2)), np.zeros(40, np.int64)


def latest_rows(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    offsets, _, _, deleted, successors, _ = _rows(rng)
    some = deleted if rng.integers(2) else deleted[:0]
    return offsets, some, bits_of(successors != 0), successors, int(rng.integers(30, 60)), np.zeros(40, np.int64)


def ever_open_rows(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    return *_rows(rng), int(rng.integers(30, 60)), bool(rng.integers(2)), np.zeros(40, np.int64)
