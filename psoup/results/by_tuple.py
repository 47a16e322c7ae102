"""The Results Structure read by tuple: which clauses matched some tuples of a chunk.

    rows 3, 9    ids     7  7  12        clause 7 matched both, clause 12 the second
                 which   0  1   1        positions among the rows asked for

One pass over the columns whatever the number of tuples; there is no second copy by tuple.
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array
from psoup.config import CHUNK_ROWS
from psoup.results.chunk_results import ChunkResults
from psoup.results.open import OpenView
from psoup.results.runs import order_of
from psoup.results.sealed import Pack

_ONE = np.uint64(1)

Pairs = tuple[Array, Array]
"""SQC IDs, int64, and positions among the tuples asked for, int64; in no order."""


def pairs_at(results: ChunkResults, offsets: Array) -> Pairs:
    """Find the covered clauses that matched tuples at `offsets`, int64, each once. O(columns + lists of the chunk)."""
    place = _places(offsets)
    pairs = [_in_pack(pack, offsets, place) for pack in results.packs]
    if results.open is not None:
        pairs.append(_in_open(results.open, offsets, place))
    if not pairs:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return np.concatenate([ids for ids, _ in pairs]), np.concatenate([which for _, which in pairs])


def open_pairs_at(view: OpenView, offsets: Array) -> Pairs:
    """`pairs_at` of results in the open form."""
    return _in_open(view, offsets, _places(offsets))


def _places(offsets: Array) -> Array:
    """The position of each offset in `offsets`, or -1: int32."""
    place: Array = np.full(CHUNK_ROWS, -1, np.int32)
    place[offsets] = np.arange(len(offsets), dtype=np.int32)
    return place


def _in_pack(pack: Pack, offsets: Array, place: Array) -> Pairs:
    is_list = pack.place >= 0
    by_start = np.flatnonzero(is_list)[order_of(pack.place[is_list])]
    which = place[pack.lists]
    hits = np.flatnonzero(which >= 0)
    owners = pack.ids[by_start][np.searchsorted(pack.place[by_start], hits, side="right") - 1]
    rows, positions = np.nonzero(_bits(pack.bitmaps[np.newaxis], ~pack.place[~is_list], offsets))
    return np.concatenate([owners, pack.ids[~is_list][rows]]), np.concatenate([which[hits], positions])


def _in_open(view: OpenView, offsets: Array, place: Array) -> Pairs:
    """Find the matches of rows, and matches of runs that the rows do not have.

    Sealing writes the pairs of runs to rows that an earlier view shares. So each row is read once: it may hold more
    matches a moment later.
    """
    row_of_slot = view.row_of_slot
    with_row = np.flatnonzero((row_of_slot >= 0) & (row_of_slot < view.count))
    in_rows = _bits(view.rows, row_of_slot[with_row], offsets)
    position: Array = np.full(max(len(row_of_slot), len(view.sqc_of_slot)), -1, np.int32)
    position[with_row] = np.arange(len(with_row), dtype=np.int32)
    rows, positions = np.nonzero(in_rows)
    slots, which = [with_row[rows]], [positions]
    for run in view.runs:
        at = place[run.offsets]
        hits = np.flatnonzero(at >= 0)
        row_places = position[run.slots[hits]]
        hits = hits[(row_places < 0) | ~in_rows[row_places, at[hits]]] if len(with_row) else hits
        slots.append(run.slots[hits].astype(np.int64))
        which.append(at[hits])
    return view.sqc_of_slot[np.concatenate(slots)], np.concatenate(which)


def _bits(bitmaps: Array, rows: Array, offsets: Array) -> Array:
    """Whether each of `rows` has the bit of each of `offsets`: bool[rows, offsets]; see `psoup.kernels.rows`."""
    if not len(rows):
        return np.zeros((0, len(offsets)), np.bool_)
    block, word = np.divmod(offsets >> 6, bitmaps.shape[2])
    words = bitmaps[block, rows[:, np.newaxis], word]
    return ((words >> (offsets & 63).astype(np.uint64)) & _ONE).astype(np.bool_)
