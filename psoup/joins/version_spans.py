"""The versions of a table by key, for searches by key and time (`psoup.kernels.join.version_search`).

VersionSpans(keys, begins, ends)    sorts the versions by key, in the order of their entries
spans.at(keys, times)               the version of each key that holds at its time
"""

from __future__ import annotations

import secrets
from functools import partial
from itertools import pairwise

import numpy as np

from psoup.kernels.join import version_search
from psoup.values.columns import Array, plain
from psoup.work.runner import Runner, serial, threads_of

_SECRET = np.uint64(secrets.randbits(64))
"""The secret of the hash. Nothing keeps the hashes."""
_SHARED_FROM = 65_536
"""The least number of rows for each thread."""


class VersionSpans:
    """Versions of a table, sorted by key."""

    def __init__(self, keys: Array, begins: Array, ends: Array) -> None:
        """`keys`, `begins`, `ends`: int64[m], in the order of the entries. O(m) expected."""
        count = len(keys)
        wide = _slots(count)
        names, groups = np.empty(count, np.int64), np.empty(count, np.int32)
        self._starts: Array = np.zeros(count + 1, np.int32)
        self._order, self._spans = np.empty(count, np.int32), np.empty((count, 2), np.int64)
        distinct = version_search.group_versions(plain(keys), _SECRET, wide, names, groups, self._starts)
        table = self._starts, self._order, self._spans
        version_search.sort_versions(groups, distinct, plain(begins), plain(ends), *table)
        self._names = names
        self._slots = wide
        if 2 * distinct < count:  # a small table stays in the processor's cache
            self._slots = _slots(distinct)
            version_search.place_groups(names, distinct, _SECRET, self._slots)

    def at(self, keys: Array, times: Array, run: Runner = serial) -> Array:
        """The version that holds for each key at its time, or -1: int32[n].

        `keys`, `times`: int64[n]. `run`: the threads that may search. O(n log(versions of a key)) expected.
        """
        found: Array = np.empty(len(keys), np.int32)
        keys, times = plain(keys), plain(times)
        parts = max(1, min(threads_of(run), len(keys) // _SHARED_FROM))
        ends = [len(keys) * part // parts for part in range(parts + 1)]

        def task(first: int, stop: int) -> None:
            table = _SECRET, self._slots, self._names, self._starts, self._order, self._spans
            version_search.find_versions(keys[first:stop], times[first:stop], *table, found[first:stop])

        run([partial(task, first, stop) for first, stop in pairwise(ends)])
        return found


def _slots(keys: int) -> Array:
    """An empty hash table for `keys` keys, at most half full."""
    return np.full(1 << max(2 * keys, 1).bit_length(), -1, np.int32)
