"""The Results Structure read by tuple: the clauses that matched some tuples of a chunk.

    rows 3, 9    ids     7  7  12        clause 7 matched both, clause 12 the second
                 which   0  1   1        positions among the rows asked for

Reading takes one pass over the columns of all clauses, for any number of tuples. No second copy of the results is kept
in the order of tuples.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from psoup.config import CHUNK_ROWS
from psoup.results.chunk_results import ChunkResults
from psoup.results.open import OpenView
from psoup.results.pack import Pack
from psoup.results.runs import order_of
from psoup.values.columns import Array

_ONE = np.uint64(1)

_TOGETHER = 65_536
"""The most bits that one part reads, in some milliseconds. After each part a reader checks its deadline."""

Pairs = tuple[Array, Array]
"""Matches in no order: SQC IDs (int64[n]), and positions among the given tuples (int64[n])."""


def pairs_at(results: ChunkResults, offsets: Array) -> Iterator[Pairs]:
    """Yield the matches of covered clauses among the tuples at `offsets` (int64), each match once.

    Each part takes some milliseconds. O(columns + lists of the chunk).
    """
    place = _places(offsets)
    for pack in results.packs:
        yield from _in_pack(pack, offsets, place)
    if results.open is not None:
        yield from _in_open(results.open, offsets, place)


def open_pairs_at(view: OpenView, offsets: Array) -> Pairs:
    """The pairs of `pairs_at` for results in the open form, in one part."""
    parts = [*_in_open(view, offsets, _places(offsets))]
    return np.concatenate([ids for ids, _ in parts]), np.concatenate([which for _, which in parts])


def _places(offsets: Array) -> Array:
    """The position of each offset in `offsets`, or -1: int32."""
    place: Array = np.full(CHUNK_ROWS, -1, np.int32)
    place[offsets] = np.arange(len(offsets), dtype=np.int32)
    return place


def _in_pack(pack: Pack, offsets: Array, place: Array) -> Iterator[Pairs]:
    is_list = pack.place >= 0
    by_start = np.flatnonzero(is_list)[order_of(pack.place[is_list])]
    hits, which = _hits(pack.lists, offsets, place)
    owners = np.searchsorted(pack.place[by_start], hits, side="right") - 1
    yield pack.ids[by_start][owners], which
    bitmap_columns, bitmaps = np.flatnonzero(~is_list), pack.bitmaps[np.newaxis]
    for part in _parts(len(bitmap_columns), len(offsets)):
        rows, positions = np.nonzero(_bits(bitmaps, ~pack.place[bitmap_columns[part]], offsets))
        yield pack.ids[bitmap_columns[part]][rows], positions


def _in_open(view: OpenView, offsets: Array, place: Array) -> Iterator[Pairs]:
    """Yield the matches in rows, then the matches in runs that the rows lack.

    Sealing writes the pairs of runs to rows that an earlier view shares. So this function reads each row only once. A
    second read could find more matches.
    """
    row_of_slot = view.row_of_slot
    with_row = np.flatnonzero((row_of_slot >= 0) & (row_of_slot < view.count))
    in_rows: Array = np.zeros((len(with_row), len(offsets)), np.bool_)
    for part in _parts(len(with_row), len(offsets)):
        in_rows[part] = _bits(view.rows, row_of_slot[with_row[part]], offsets)
        rows, positions = np.nonzero(in_rows[part])
        yield view.sqc_of_slot[with_row[part]][rows], positions
    position: Array = np.full(max(len(row_of_slot), len(view.sqc_of_slot)), -1, np.int32)
    position[with_row] = np.arange(len(with_row), dtype=np.int32)
    slots, which = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for run in view.runs:
        hits, at = _hits(run.offsets, offsets, place)
        if len(with_row):
            row_places = position[run.slots[hits]]
            new = (row_places < 0) | ~in_rows[row_places, at]
            hits, at = hits[new], at[new]
        slots.append(run.slots[hits].astype(np.int64))
        which.append(at)
    yield view.sqc_of_slot[np.concatenate(slots)], np.concatenate(which)


def _hits(tuples: Array, offsets: Array, place: Array) -> tuple[Array, Array]:
    """The places of wanted tuples in `tuples` (uint16), and the positions of these among `offsets`, int64[k] each.

    Consecutive offsets are compared instead of looked up, which takes a fifth of the time.
    """
    count = len(offsets)
    if count and int(offsets[-1]) - int(offsets[0]) == count - 1 and (np.diff(offsets) == 1).all():
        later = tuples - np.uint16(offsets[0])  # smaller offsets wrap to large ones
        hits = np.flatnonzero(later < count)
        return hits, later[hits].astype(np.int64)
    which = place[tuples]
    hits = np.flatnonzero(which >= 0)
    return hits, which[hits].astype(np.int64)


def _parts(rows: int, tuples: int) -> Iterator[slice]:
    """The slices into which `rows` rows are cut, so that one slice has at most `_TOGETHER` bits of `tuples` tuples."""
    together = max(_TOGETHER // max(tuples, 1), 1)
    return (slice(start, min(start + together, rows)) for start in range(0, rows, together))


def _bits(bitmaps: Array, rows: Array, offsets: Array) -> Array:
    """The bits at `offsets` in each of `rows`: bool[rows, offsets]. See `psoup.kernels.rows.bit_blocks`."""
    if not len(rows):
        return np.zeros((0, len(offsets)), np.bool_)
    block, word = np.divmod(offsets >> 6, bitmaps.shape[2])
    words = bitmaps[block, rows[:, np.newaxis], word]
    return ((words >> (offsets & 63).astype(np.uint64)) & _ONE).astype(np.bool_)
