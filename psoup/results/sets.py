"""The matches of many clauses in one chunk, as pairs of a clause's place and a tuple's offset.

    wanted   ids 5 7 9       open: rows, runs ┐                 which    0  0  2  2  2
                             packs: lists, bitmaps ┴──>         offsets  3 60  1  2  3

Kernels read the results of all clauses in one pass, without a loop over clauses. Each match is returned once, although
an open chunk may have it both in a row and in a run. The caller checks with `evaluated` which clauses were evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from psoup.kernels.rows.bit_blocks import gather_rows, set_bits
from psoup.kernels.search.match_pairs import (
    add_named,
    bitmaps_to_pairs,
    count_within,
    lists_to_pairs,
    lists_within,
    named_size,
    named_to_pairs,
    runs_to_pairs,
)
from psoup.results.chunk_results import ChunkResults
from psoup.results.gaps import WHOLE
from psoup.results.open import OpenView
from psoup.results.pack import Pack
from psoup.results.runs import order_of
from psoup.values.columns import Array, vast_array

_MANY = 256
"""The fewest clauses for which `WantedClauses` makes a table."""
_SPREAD = 16
"""The most entries that the table has for each clause."""
_PAGES = 4_096
"""The fewest pairs that get a part of a large array. With small arrays, 16 chunks took 2,000 page faults, or 2 ms."""
_BLOCK = 1 << 20
"""The least size of a large array, in int64: 8 MB."""
_PACKED = 1 << 18
"""The most offsets in the lists of a pack for which room is allocated without counting the wanted ones first."""
_ROWS = 1_024
"""The most rows of bits of an open chunk that one step copies: 8 MB for full chunks."""

_NOTHING: Array = np.zeros(0, np.int64)


class TooManyPairs(Exception):
    """There are more pairs than the caller's limit. The caller must ask for fewer clauses."""


class WantedClauses:
    """The clauses to look for: SQC IDs, int64[k], ascending, each once.

    `table`: int32, at i the place of the clause with ID `least` + i, or -1. None for few clauses, or if their IDs are
    too far apart.
    """

    def __init__(self, ids: Array) -> None:
        self.ids = ids
        self.table: Array | None = None
        self._free: Array = np.empty(0, np.int64)
        self.least = int(ids[0]) if len(ids) else 0
        span = int(ids[-1]) - self.least + 1 if len(ids) else 0
        if len(ids) >= _MANY and span <= _SPREAD * len(ids):
            self.table = np.full(span, -1, np.int32)
            self.table[ids - self.least] = np.arange(len(ids), dtype=np.int32)

    def places(self, names: Array) -> Array:
        """The place of each SQC ID of `names` (int64[n]) among the wanted ones, or -1: int32[n].

        O(n), or O(n log k) without a table.
        """
        places: Array = np.full(len(names), -1, np.int32)
        if not len(self.ids):
            return places
        near = np.flatnonzero((names >= self.least) & (names <= self.ids[-1]))
        if self.table is not None:
            places[near] = self.table[names[near] - self.least]
            return places
        at = np.searchsorted(self.ids, names[near])
        places[near] = np.where(self.ids[at] == names[near], at, -1)
        return places

    def room(self, pairs: int) -> Pairs:
        """Arrays for `pairs` pairs. For many pairs they are parts of one large array, which has large pages."""
        if pairs < _PAGES:
            return Pairs(np.empty(pairs, np.int64), np.empty(pairs, np.int64))
        if len(self._free) < 2 * pairs:
            self._free = np.empty(max(2 * pairs, _BLOCK), np.int64)
        which, offsets, self._free = np.split(self._free, (pairs, 2 * pairs))
        return Pairs(which, offsets)


class Pairs(NamedTuple):
    """Some matches. `which`: the places of clauses, int64[m], ascending. `offsets`: int64[m], ascending by clause."""

    which: Array
    offsets: Array


NO_PAIRS = Pairs(_NOTHING, _NOTHING)


def evaluated(results: ChunkResults, ids: Array) -> Array:
    """Flags of clauses (SQC IDs, int64[k], ascending) that were evaluated over all of the chunk: bool[k]."""
    met: Array = ids < results.covered_before
    if results.late:
        met |= np.isin(ids, np.fromiter(results.late, np.int64, len(results.late)))
    if len(results.gaps):
        met &= ~np.isin(ids, results.gaps.ids)
    return met


def all_evaluated(results: ChunkResults, ids: Array) -> bool:
    """Whether all clauses (SQC IDs, int64[k], ascending) were evaluated over all of the chunk. Usually O(1)."""
    below = not len(ids) or int(ids[-1]) < results.covered_before
    return (below and not len(results.gaps)) or bool(evaluated(results, ids).all())


def kept_pairs(results: ChunkResults, wanted: WantedClauses, start: int, stop: int, limit: int) -> Pairs:
    """The matches in [start, stop) of the wanted clauses, which must be `evaluated`.

    For a closed chunk `stop` may be WHOLE. Raises TooManyPairs above `limit` pairs. O(k log clauses + matches), plus
    the runs of an open chunk.
    """
    parts, room = list[Pairs](), limit
    sources: list[Iterator[Pairs]] = [_packed(pack, wanted, start, stop, limit) for pack in results.packs]
    if results.open is not None:
        before = np.searchsorted(wanted.ids, results.covered_before)
        some = wanted if before == len(wanted.ids) else WantedClauses(wanted.ids[:before])
        sources.append(_opened(results.open, some, start, stop, limit))
    for source in sources:
        for part in source:
            room -= len(part.which)
            if room < 0:
                raise TooManyPairs
            parts.append(part)
    return joined(parts)


def joined(parts: list[Pairs]) -> Pairs:
    """All pairs, sorted by clause. The pairs of one clause keep the order of the parts. O(pairs)."""
    parts = [part for part in parts if len(part.which)]
    if not parts:
        return NO_PAIRS
    if len(parts) == 1 and bool((parts[0].which[1:] >= parts[0].which[:-1]).all()):
        return parts[0]
    which = np.concatenate([part.which for part in parts])
    offsets = np.concatenate([part.offsets for part in parts])
    order = order_of(which)
    return Pairs(which[order], offsets[order])


def kept_counts(results: ChunkResults, wanted: WantedClauses, start: int, stop: int, limit: int) -> Array:
    """The number of matches in [start, stop) of each clause, int64[k].

    Arguments and errors are those of `kept_pairs`. A sealed chunk is counted without making pairs.
    """
    counts: Array = np.zeros(len(wanted.ids), np.int64)
    if results.open is not None:
        pairs = kept_pairs(results, wanted, start, stop, limit)
        return np.bincount(pairs.which, minlength=len(wanted.ids))
    for pack in results.packs:
        if wanted.table is not None and start == 0 and stop == WHOLE:
            add_named(pack.ids, pack.counts, wanted.least, wanted.table, counts)
            continue
        names, at = in_both(wanted, pack.ids)
        places, clause_counts = pack.place[at], pack.counts[at].astype(np.int64)
        if start > 0 or stop < WHOLE:
            are_lists = places >= 0
            begins, lengths = places[are_lists], clause_counts[are_lists]
            lists_within(pack.lists, start, stop, begins, lengths)
            clause_counts[are_lists] = lengths
            within = np.empty(len(clause_counts) - len(lengths), np.int64)
            count_within(pack.bitmaps, ~places[~are_lists], start, min(stop, 64 * pack.bitmaps.shape[1]), within)
            clause_counts[~are_lists] = within
        counts[names] += clause_counts
    return counts


def _packed(pack: Pack, wanted: WantedClauses, start: int, stop: int, limit: int) -> Iterator[Pairs]:
    """Yield the pairs of a pack: from lists, then from bitmaps."""
    in_one_pass = False
    if wanted.table is not None:
        columns = pack.ids, pack.counts, pack.place, wanted.least, wanted.table
        size, bitmaps = len(pack.lists), len(pack.bitmaps)
        if bitmaps or size > _PACKED:
            size, bitmaps = named_size(*columns)
        in_one_pass = size <= limit  # an upper bound: there may be fewer pairs
        if in_one_pass:
            out = wanted.room(size)
            size = named_to_pairs(pack.lists, *columns, start, stop, *out)
            yield Pairs(out.which[:size], out.offsets[:size])
            if not bitmaps:
                return
    names, at = in_both(wanted, pack.ids)
    places, counts = pack.place[at], pack.counts[at].astype(np.int64)
    are_lists = places >= 0
    listed = np.flatnonzero(are_lists)
    if len(listed) and not in_one_pass:
        begins, lengths = places[listed], counts[listed]
        if start > 0 or stop < WHOLE:
            lists_within(pack.lists, start, stop, begins, lengths)
        out = _room(int(lengths.sum()), limit)
        lists_to_pairs(pack.lists, begins, lengths, names[listed], *out)
        yield out
    if len(listed) < len(names):
        yield _of_bitmaps(pack.bitmaps, ~places[~are_lists], names[~are_lists], start, stop, limit)


def in_both(wanted: WantedClauses, others: Array) -> tuple[Array, Array]:
    """The IDs that are both wanted and in `others` (int64, ascending), as their places in each of the two."""
    if wanted.table is not None:
        first, stop = np.searchsorted(others, (wanted.least, int(wanted.ids[-1]) + 1)).tolist()
        places = wanted.table[others[first:stop] - wanted.least]
        at = np.flatnonzero(places >= 0)
        return places[at].astype(np.int64), at + first
    at = np.minimum(np.searchsorted(others, wanted.ids), max(len(others) - 1, 0))
    names = np.flatnonzero(others[at] == wanted.ids)
    return names, at[names]


def _of_bitmaps(bitmaps: Array, which: Array, names: Array, start: int, stop: int, limit: int) -> Pairs:
    counts, stop = np.empty(len(which), np.int64), min(stop, 64 * bitmaps.shape[1])
    count_within(bitmaps, which, start, stop, counts)
    out = _room(int(counts.sum()), limit)
    bitmaps_to_pairs(bitmaps, which, start, stop, names, *out)
    return out


def _opened(view: OpenView, wanted: WantedClauses, start: int, stop: int, limit: int) -> Iterator[Pairs]:
    """Yield the pairs of an open chunk: first those of clauses without a row, then the others, some rows at a time.

    Sealing may write matches of runs to a row at the same time. So the reader copies a row before it counts the bits,
    and adds the matches in runs to the copy.
    """
    place_of_slot = wanted.places(view.sqc_of_slot)
    parts = []
    for run in view.runs:
        which, offsets = np.empty(len(run.slots), np.int64), np.empty(len(run.slots), np.int64)
        count = runs_to_pairs(run.slots, run.offsets, place_of_slot, start, stop, which, offsets)
        parts.append(Pairs(which[:count], offsets[:count]))
    if sum(len(part.which) for part in parts) > limit:
        raise TooManyPairs
    pairs = joined(parts)
    slots = np.flatnonzero(place_of_slot[: len(view.row_of_slot)] >= 0)
    rows = view.row_of_slot[slots]
    with_row = (rows >= 0) & (rows < view.count)
    slots, rows = slots[with_row], rows[with_row].astype(np.int64)
    if not len(rows):
        yield pairs
        return
    names = place_of_slot[slots].astype(np.int64)
    row_of_name: Array = np.full(len(wanted.ids), -1, np.int64)
    row_of_name[names] = np.arange(len(rows))
    in_row = row_of_name[pairs.which]
    yield Pairs(pairs.which[in_row < 0], pairs.offsets[in_row < 0])
    for first in range(0, len(rows), _ROWS):
        some = slice(first, first + _ROWS)
        copied = np.empty((len(rows[some]), view.rows.shape[0] * view.rows.shape[2]), np.uint64)
        gather_rows(view.rows, rows[some], copied)
        mine = (in_row >= first) & (in_row < first + len(copied))
        set_bits(copied[np.newaxis], in_row[mine] - first, pairs.offsets[mine].astype(np.uint16))
        yield _of_bitmaps(copied, np.arange(len(copied)), names[some], start, stop, limit)


def _room(pairs: int, limit: int) -> Pairs:
    """Arrays for `pairs` pairs. Raises TooManyPairs above `limit`."""
    if pairs > limit:
        raise TooManyPairs
    return Pairs(vast_array(pairs, np.int64), vast_array(pairs, np.int64))
