"""The version of a table that each row meets: a sweep over rows and versions (`psoup.kernels.join.version_search`).

    keys        in a small range as they are; sparse ones as numbers
    order       rows and versions of streams come in the order of time, mostly; what does not is sorted
    threads     each has a part of the rows, and the versions before its first row

A version that holds from the beginning comes first.
"""

from __future__ import annotations

import secrets
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from psoup.kernels.join import version_search
from psoup.values.columns import Array, plain
from psoup.work.runner import Runner, serial, threads_of

_SECRET = np.uint64(secrets.randbits(64))
"""The secret of the hash. Nothing keeps the hashes."""
_DENSE = 2
"""Keys are as dense as needed if their range has at most so many values for each version."""
_SHARED_FROM = 65_536
"""The least number of rows for each thread."""
_LEAST_TIME = np.iinfo(np.int64).min


class Spans(NamedTuple):
    """Versions in the order of their entries: int64[m] each. `ends`: the time from which a version does not hold."""

    keys: Array
    begins: Array
    ends: Array


def versions_met(keys: Array, times: Array, spans: Spans, run: Runner = serial) -> Array:
    """The version that holds for each key at its time, or -1: int32[n]. O(n + m) expected, if both are in order.

    `keys`, `times`: int64[n]. `run`: the threads that may search.
    """
    met: Array = np.full(len(keys), -1, np.int32)
    if not len(keys) or not len(spans.keys):
        return met
    lowest, highest = int(spans.keys.min()), int(spans.keys.max())
    version_keys = spans.keys
    if highest - lowest >= _DENSE * len(spans.keys):
        keys, version_keys, highest = _numbered(keys, spans.keys)
        lowest = 0
    rows, versions = _by_time(times), _by_time(spans.begins)
    inputs = plain(version_keys), plain(spans.begins), plain(spans.ends), versions, lowest
    keys, times = plain(keys), plain(times)
    parts = max(1, min(threads_of(run), len(keys) // _SHARED_FROM))
    ends = [len(keys) * part // parts for part in range(parts + 1)]

    def sweep(first: int, stop: int) -> None:
        table = np.full((highest - lowest + 1, 2), -1, np.int64)
        table[:, 1] = _LEAST_TIME
        version_search.meet_versions(keys, times, rows[first:stop], *inputs, table, met)

    run([partial(sweep, first, stop) for first, stop in pairwise(ends)])
    return met


def _numbered(keys: Array, version_keys: Array) -> tuple[Array, Array, int]:
    """Keys as numbers from 0 on, keys of versions as well, and the greatest number. A key without a version is -1."""
    slots: Array = np.full(1 << (2 * len(version_keys)).bit_length(), -1, np.int32)
    names, numbers = np.empty(len(version_keys), np.int64), np.empty(len(version_keys), np.int64)
    count = version_search.number_keys(plain(version_keys), _SECRET, slots, names, numbers)
    key_numbers: Array = np.empty(len(keys), np.int64)
    version_search.find_numbers(plain(keys), _SECRET, slots, names, key_numbers)
    return key_numbers, numbers, count - 1


def _by_time(times: Array) -> Array:
    """The order of times: int32[n]. Equal times stay in their order."""
    if (times[1:] >= times[:-1]).all():
        return np.arange(len(times), dtype=np.int32)
    first = times == _LEAST_TIME
    rest = np.flatnonzero(~first)
    if (times[rest[1:]] < times[rest[:-1]]).any():
        rest = rest[np.argsort(times[rest], kind="stable")]
    return np.concatenate([np.flatnonzero(first), rest]).astype(np.int32)
