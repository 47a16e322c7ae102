"""The keys of a table that have no version: no entry at all, or only a deletion that is forgotten.

    key     newest entry                                        watermark 12:00, DELETED FOR 30 DAYS
    UA      version 7                                           it has a version
    DL      deletion, 40 days before the watermark              new: the deletion is forgotten
    LH      none                                                new

The first version of such a key may lie below the watermark (`psoup.admission.rows.first_versions`). The hash table is
the writer's, so it may be newer than the view. An entry that the view lacks counts as a version.
"""

from __future__ import annotations

import numpy as np

from psoup.data.versions import times_of
from psoup.model import DELETED_AT
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array


def are_new(view: StreamView, lanes: Array, watermark: int) -> Array:
    """Whether each key of a table is new at a watermark: bool[n]. O(n log n + chunks).

    `lanes`: uint64[n, 2], the hashes of the keys (`psoup.data.newest_versions.key_lanes`).
    """
    table, keys = view.spec.table, view.table_keys
    assert table is not None
    assert keys is not None
    entries = keys.newest.newest_of(lanes)
    new: Array = entries < 0
    stored = np.flatnonzero(~new & (entries < view.next_id))
    if not len(stored):
        return new
    numbers = np.searchsorted([entry.data.first_id for entry in view.chunks], entries[stored], "right") - 1
    order = np.argsort(numbers, kind="stable")
    for at in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        data, ids = view.chunks[int(numbers[at[0]])].data, entries[stored[at]]
        at, ids = at[data.places.has(ids)], ids[data.places.has(ids)]
        rows = data.places.rows(ids)
        deleted = data.columns[DELETED_AT].values[rows]
        forgotten = times_of(data, table)[rows] < max(watermark - table.remembered, table.forgotten_before)
        new[stored[at]] = deleted & forgotten
    return new
