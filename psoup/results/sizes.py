"""Sizes of results by clause: the number of matches, and the bytes that store them.

The bytes of a column are those of its matches and of its entry in the pack. Matches are a row of bits, a list, or pairs
in runs. No clause is charged for tables by slot, which all clauses of a chunk share.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from psoup.results.chunk_results import ChunkResults
from psoup.results.open import OpenView
from psoup.results.pack import Pack
from psoup.results.runs import order_of
from psoup.values.columns import Array

_ENTRY_BYTES = 20
"""Bytes of a clause's entry in a pack."""
_PAIR_BYTES = 6
"""Bytes of a pair in a run."""
_OFFSET_BYTES = 2
"""Bytes of an offset in a list."""


def column_size(results: ChunkResults, sqc_id: int, slot: int) -> tuple[int, int]:
    """The number of matches of a covered clause, and the bytes of its column. O(log) if sealed, else O(its words)."""
    view = results.open
    if view is not None and sqc_id < results.covered_before:
        row = slot < len(view.row_of_slot) and 0 <= view.row_of_slot[slot] < view.count
        pairs = sum(run.count(slot) for run in view.runs)
        size = row * view.row_bytes + pairs * _PAIR_BYTES
        return len(view.offsets(slot, 0, view.length)), size
    for pack in results.packs:
        at = pack.find(sqc_id)
        if at >= 0:
            return int(pack.counts[at]), int(_bytes(pack, slice(at, at + 1))[0])
    return 0, 0


def sizes_by_slot(chunks: Iterable[ChunkResults], owners: Array) -> tuple[Array, Array]:
    """The number of matches and the bytes of each slot over all chunks, int64. O(columns + rows of bits).

    `owners`: int64, the SQC ID in each slot.
    """
    matched, size = np.zeros(len(owners), np.int64), np.zeros(len(owners), np.int64)
    order = order_of(owners)
    for results in chunks:
        if results.open is not None:
            counts, sizes = _open_sizes(results.open, len(owners))
            at = np.flatnonzero(results.open.sqc_of_slot[: len(owners)] == owners[: len(results.open.sqc_of_slot)])
            matched[at] += counts[at]
            size[at] += sizes[at]
        for pack in results.packs:
            slots, mine = _slots_of(pack.ids, owners, order)
            matched[slots] += pack.counts[mine]
            size[slots] += _bytes(pack, mine)
    return matched, size


def _slots_of(ids: Array, owners: Array, order: Array) -> tuple[Array, Array]:
    """The slots of those `ids` (distinct) that are in `owners`, and the places of these IDs in `ids`.

    `order`: the permutation that sorts `owners`.
    """
    at = np.minimum(np.searchsorted(owners, ids, sorter=order), len(order) - 1)
    mine = np.flatnonzero(owners[order[at]] == ids)
    return order[at[mine]], mine


def _bytes(pack: Pack, which: Array | slice) -> Array:
    words = pack.bitmaps.shape[1] * 8
    return np.where(pack.place[which] >= 0, _OFFSET_BYTES * pack.counts[which].astype(np.int64), words) + _ENTRY_BYTES


def _open_sizes(view: OpenView, slots: int) -> tuple[Array, Array]:
    """The number of matches and the bytes of each slot. A match that is both in a row and in a run is counted twice."""
    matched, size = np.zeros(slots, np.int64), np.zeros(slots, np.int64)
    rows = view.row_of_slot[:slots]
    with_row = np.flatnonzero((rows >= 0) & (rows < view.count))
    matched[with_row] += view.row_counts()[rows[with_row]]
    size[with_row] += view.row_bytes
    for run in view.runs:
        counts = np.bincount(run.slots, minlength=slots)[:slots]
        matched += counts
        size += counts * _PAIR_BYTES
    return matched, size
