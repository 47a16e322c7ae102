"""The stored matches of deletions, which no figure counts.

The results of a chunk have a place for each entry of a table. A deletion has no columns, so a condition such as
`price IS NULL` is satisfied there.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from psoup.model import DELETED_AT
from psoup.published.snapshot import ChunkEntry
from psoup.results.by_tuple import open_pairs_at, pairs_at
from psoup.results.runs import order_of
from psoup.values.columns import Array


def deletion_matches(chunks: Iterable[ChunkEntry], owners: Array) -> Array:
    """The number of deletions among the stored matches of each slot, int64. O(deletions + columns of the results).

    `owners`: int64, the SQC ID in each slot.
    """
    counts: Array = np.zeros(len(owners), np.int64)
    if not len(owners):
        return counts
    order = order_of(owners)
    for entry in chunks:
        deleted = np.flatnonzero(entry.data.columns[DELETED_AT].values)
        for ids, _ in pairs_at(entry.results, deleted) if len(deleted) else ():
            at = order[np.minimum(np.searchsorted(owners, ids, sorter=order), len(order) - 1)]
            counts += np.bincount(at[owners[at] == ids], minlength=len(owners))
    return counts


def deletion_pairs(entry: ChunkEntry) -> tuple[int, int]:
    """The numbers of matches of deletions in a chunk's open and sealed results. O(deletions + columns of results)."""
    deleted = np.flatnonzero(entry.data.columns[DELETED_AT].values)
    if not len(deleted):
        return 0, 0
    total = sum(len(ids) for ids, _ in pairs_at(entry.results, deleted))
    shown = entry.results.open
    unsealed = 0 if shown is None else len(open_pairs_at(shown, deleted)[0])
    return unsealed, total - unsealed
