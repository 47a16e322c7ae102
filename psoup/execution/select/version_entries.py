"""The entries of a table in a range of tuple IDs, each with the entry of its key before it.

    entry       7   8   9      9 is not stored: it ended long ago, and has left its chunk
    before      3  -1   ?      key of 8: no entry before

An entry ends the version before it. So the entries since an instant tell which versions have ended since.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np

from psoup.data.versions import versions_of
from psoup.published.snapshot import ChunkEntry, StreamView
from psoup.values.columns import Array

_NONE: Array = np.zeros(0, np.int64)


class VersionEntries(NamedTuple):
    """Entries in a range. `ids`: int64[n], ascending. `before`: int64[n], the entry before each, -1 for none.

    `unsure`: bool[n], whether the entry before may be another one, which has left its chunk. `all`: whether no entry of
    the range has left its chunk, and none is unsure.
    """

    ids: Array
    before: Array
    unsure: Array
    all: bool


def entries_between(view: StreamView, low: int, high: int) -> VersionEntries:
    """The stored entries with IDs in [low, high). O(entries + log chunks)."""
    ids, before, unsure = [_NONE], [_NONE], [_NONE[:0] > 0]
    for entry, first, stop in _parts(view, low, high):
        ids.append(entry.data.places.ids_between(first, stop))
        before.append(versions_of(entry.data).before[first:stop])
        unsure.append(_are_unsure(view, entry, first, stop))
    every, doubts = np.concatenate(ids), np.concatenate(unsure)
    complete = len(every) == max(high - low, 0) and not doubts.any()
    return VersionEntries(every, np.concatenate(before), doubts, complete)


def _are_unsure(view: StreamView, entry: ChunkEntry, first: int, stop: int) -> Array:
    """Whether the entry before each row of a chunk may be another one: bool[stop - first].

    A start does not know of the entries that had left. They ended before HISTORY, so later rows are sure.
    """
    table, now = view.spec.table, view.watermark if view.spec.event_time else view.last_time
    if table is None or now is None or not versions_of(entry.data).relinked or not (view.thinned or view.first_id > 0):
        return np.zeros(stop - first, np.bool_)
    unsure: Array = entry.data.times[first:stop] < table.history_edge(now)
    return unsure


def located(view: StreamView, ids: Array) -> Iterator[tuple[ChunkEntry, Array, Array]]:
    """The chunks of some entries, oldest first: each with the places of its entries in `ids`, and their rows.

    `ids`: int64[n], in any order. Entries that are not stored are left out. O(n log n + chunks between them).
    """
    if not len(ids):
        return
    order = np.argsort(ids, kind="stable")
    ascending = ids[order]
    for entry, _, _ in _parts(view, int(ascending[0]), int(ascending[-1]) + 1):
        data = entry.data
        start, stop = np.searchsorted(ascending, (data.first_id, data.end_id))
        stored = start + np.flatnonzero(data.places.has(ascending[start:stop]))
        if len(stored):
            yield entry, order[stored], data.places.rows(ascending[stored])


def _parts(view: StreamView, low: int, high: int) -> Iterator[tuple[ChunkEntry, int, int]]:
    """The chunks in memory with tuple IDs in [low, high), and the range of rows in each."""
    chunks = view.chunks
    at = max(bisect_right(chunks, low, key=lambda entry: entry.data.first_id) - 1, view.archived)
    for entry in islice(chunks, at, None):
        if entry.data.first_id >= high:
            return
        first, stop = entry.data.places.row_from(low), entry.data.places.row_from(high)
        if first < stop:
            yield entry, first, stop
