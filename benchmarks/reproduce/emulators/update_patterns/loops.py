"""Query 2 of the update-pattern paper as one writes it by hand, for DISTINCT over one link and nothing else."""

from __future__ import annotations

import numpy as np
from numba import njit

from benchmarks.reproduce.emulators.update_patterns.buffers import Array


class DistinctLoop:
    """The last time of each key: a key leaves when the tuple that came at that time expires."""

    links = 1

    def __init__(self, keys: Array, window: int) -> None:
        self._keys, self._window, self._now = np.array(keys, np.int64), window, 0
        self._last = np.full(int(self._keys.max(initial=0)) + 1, -1, np.int64)

    def fill(self) -> None:
        """Take the tuples of the first window."""
        self.run(self._window)

    def run(self, stop: int) -> None:
        """Take the tuples up to, and without, the time `stop`."""
        _run(self._keys, self._window, self._last, self._now, stop)
        self._now = stop

    def rows(self) -> Array:
        """The keys in the view, int64[n, 1], ascending."""
        return np.flatnonzero(self._last >= 0)[:, None]

    @property
    def stored(self) -> int:
        """The tuples that it stores: the window, and a time for each key."""
        return self._window + int((self._last >= 0).sum())


@njit(cache=True)
def _run(keys, window, last, start, stop):  # type: ignore[no-untyped-def]
    for now in range(start, stop):
        old = now - window
        if old >= 0 and last[keys[old]] == old:
            last[keys[old]] = -1
        last[keys[now]] = now
