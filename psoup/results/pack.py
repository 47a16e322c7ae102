"""Results of a closed chunk, packed: for each clause with a match, a list of offsets or a bitmap.

    ids     int64[k]   SQC IDs with at least one match, ascending
    counts  int32[k]   matches of each
    place   int64[k]   where counts <= list_limit: start in `lists`; else ~row of `bitmaps` (negative)
    lists   uint16[…]  offsets, ascending within a clause
    bitmaps uint64[m, words]

A covered clause that is not in `ids` matched nothing and takes no memory. Packs are immutable; a chunk may have
several, for clauses evaluated at different times. (PSoup section 5.1 chooses between list and bitarray once; here each
clause and chunk has its choice.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from bitarray import frozenbitarray

from psoup.invariants import ensure
from psoup.kernels.rows.bit_blocks import gather_rows, rows_to_offsets, set_bits
from psoup.kernels.rows.bitmaps import bits_to_offsets, offset_range
from psoup.results.open import OpenView
from psoup.results.room import RowRoom
from psoup.results.runs import by_slot, order_of
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Pack:
    """The matches of some clauses in a closed chunk. The table of the module describes the arrays."""

    ids: Array
    counts: Array
    place: Array
    lists: Array
    bitmaps: Array

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(a.nbytes for a in (self.ids, self.counts, self.place, self.lists, self.bitmaps))

    def find(self, sqc_id: int) -> int:
        """The position of a clause, or -1. O(log k)."""
        at = int(self.ids.searchsorted(sqc_id))
        return at if at < len(self.ids) and self.ids.item(at) == sqc_id else -1

    def is_list(self, at: int) -> bool:
        """Whether the column at `at` is a list, not a bitmap."""
        return self.place.item(at) >= 0

    def offsets(self, at: int, start: int, stop: int) -> Array:
        """Offsets in [start, stop) of the column at position `at`, ascending, int64. O(result + words)."""
        place, count = int(self.place[at]), int(self.counts[at])
        if place >= 0:
            low, high = offset_range(self.lists, place, place + count, start, stop)
            return self.lists[low:high].astype(np.int64)
        offsets = np.empty(min(stop - start, count), np.int64)
        return offsets[: bits_to_offsets(self.bitmaps[~place], start, stop, offsets)]

    def bitmap(self, at: int, length: int) -> frozenbitarray:
        """The column as a bitarray of `length` bits. The bits of a bitmap are shared, not copied."""
        place = int(self.place[at])
        if place < 0:
            row = self.bitmaps[~place].view()
            row.flags.writeable = False
            return frozenbitarray(buffer=row, endian="little")[:length]
        mask: Array = np.zeros(length, np.uint8)
        mask[self.lists[place : place + int(self.counts[at])]] = 1
        return frozenbitarray(np.packbits(mask, bitorder="little").tobytes(), endian="little")[:length]

    def without(self, dead: Array) -> Pack:
        """The pack without the SQC IDs `dead` (sorted). Returns the same object if it has none of them."""
        if not len(dead):
            return self
        keep = dead[np.minimum(np.searchsorted(dead, self.ids), len(dead) - 1)] != self.ids
        return self if keep.all() else _select([self], [keep])

    def check(self, length: int, list_limit: int) -> None:
        """Check that IDs ascend, and that every column has the right form and count, with matches below `length`."""
        ensure((np.diff(self.ids) > 0).all(), self, "SQC IDs are not ascending", ids=self.ids)
        for at in range(len(self.ids)):
            offsets, clause, count = self.offsets(at, 0, length), self.ids[at], self.counts[at]
            ensure(
                len(offsets) == count > 0,
                self,
                "matches are miscounted",
                clause=clause,
                counted=count,
                found=len(offsets),
            )
            ensure((np.diff(offsets) > 0).all(), self, "offsets are not ascending", clause=clause)
            ensure(
                self.is_list(at) == (count <= list_limit),
                self,
                "a column has the wrong form",
                clause=clause,
                count=count,
            )


def seal(view: OpenView, sqc_of_slot: Array, list_limit: int, room: RowRoom | None = None) -> Pack:
    """Pack the columns of a closed chunk, without slots whose `sqc_of_slot` is -1. O(results).

    If a slot has a row, `seal` writes its matches in runs to this row, which earlier views share: see `OpenView`.
    `room`: a pool of memory for the bitmaps.
    """
    slots, offsets = by_slot(view.runs)
    live = sqc_of_slot[slots] >= 0
    slots, offsets = slots[live], offsets[live]
    row_of = np.where(view.row_of_slot < view.count, view.row_of_slot, -1)
    in_row = row_of[slots] >= 0
    set_bits(view.rows, row_of[slots[in_row]].astype(np.int64), offsets[in_row])
    slots, offsets = slots[~in_row], offsets[~in_row]
    row_slots = np.flatnonzero(row_of >= 0)
    row_slots = row_slots[sqc_of_slot[row_slots] >= 0]
    rows = row_of[row_slots].astype(np.int64)
    row_counts = view.row_counts()[rows]
    few, many = (row_counts > 0) & (row_counts <= list_limit), row_counts > list_limit
    list_slots, counts = _groups(slots)
    large = counts > list_limit
    which = np.repeat(large, counts)
    bitmaps = _bitmaps(view.rows, rows[many], counts[large], offsets[which], room)
    lists = np.concatenate([offsets[~which], _lists(view.rows, rows[few], row_counts[few])])
    own_counts = np.concatenate([counts[~large], row_counts[few], row_counts[many], counts[large]])
    ids = sqc_of_slot[np.concatenate([list_slots[~large], row_slots[few], row_slots[many], list_slots[large]])]
    place = np.full(len(ids), -1, np.int64)
    listed = len(ids) - len(bitmaps)
    place[:listed] = np.cumsum(own_counts[:listed]) - own_counts[:listed]
    place[listed:] -= np.arange(len(bitmaps))
    order = order_of(ids)
    return Pack(ids[order], own_counts[order].astype(np.int32), place[order], lists, bitmaps)


def _lists(rows: Array, which: Array, counts: Array) -> Array:
    """The offsets of the rows `which`, concatenated. `counts`: the number of offsets of each row."""
    lists: Array = np.empty(int(counts.sum()), np.uint16)
    rows_to_offsets(rows, which, np.cumsum(counts) - counts, lists)
    return lists


def _bitmaps(rows: Array, which: Array, counts: Array, offsets: Array, room: RowRoom | None) -> Array:
    """The bitmaps of the rows `which`, then those of some lists.

    `offsets`: the lists, concatenated. `counts`: the number of offsets of each list.
    """
    size, words = len(which) + len(counts), rows.shape[0] * rows.shape[2]
    bitmaps = np.empty((size, words), np.uint64) if room is None else room.bitmaps(size)
    gather_rows(rows, which, bitmaps)
    bitmaps[len(which) :] = 0
    set_bits(bitmaps[np.newaxis], np.repeat(np.arange(len(which), size), counts), offsets)
    return bitmaps


def _groups(slots: Array) -> tuple[Array, Array]:
    """The distinct slots, and the number of times that each occurs. Equal slots must be adjacent."""
    new: Array = np.ones(len(slots), np.bool_)
    np.not_equal(slots[1:], slots[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    return slots[starts], np.diff(starts, append=len(slots))


def merge_packs(packs: list[Pack]) -> Pack:
    """Merge the columns of several packs, whose IDs are disjoint. O(their size)."""
    return _select(packs, [np.ones(len(pack.ids), np.bool_) for pack in packs])


def _select(packs: list[Pack], keeps: list[Array]) -> Pack:
    """A pack with some columns of several packs, in the order of IDs. `keeps`: their flags, bool[columns] a pack."""
    ids = np.concatenate([p.ids[k] for p, k in zip(packs, keeps, strict=True)])
    counts = np.concatenate([p.counts[k] for p, k in zip(packs, keeps, strict=True)])
    list_base = np.cumsum([0] + [len(p.lists) for p in packs[:-1]])
    map_base = np.cumsum([0] + [len(p.bitmaps) for p in packs[:-1]])
    place = np.concatenate(
        [
            np.where(p.place[k] >= 0, p.place[k] + lb, p.place[k] - mb)
            for p, k, lb, mb in zip(packs, keeps, list_base, map_base, strict=True)
        ]
    )
    lists = np.concatenate([p.lists for p in packs])
    bitmaps = np.concatenate([p.bitmaps for p in packs])
    is_list = place >= 0
    lengths = np.where(is_list, counts, 0).astype(np.int64)
    starts = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    source = np.repeat(np.where(is_list, place, 0) - starts[:-1], lengths) + np.arange(starts[-1])
    new_place = np.where(is_list, starts[:-1], 0)
    new_place[~is_list] = ~np.arange(int((~is_list).sum()))
    kept_maps = bitmaps[~place[~is_list]]
    order = order_of(ids)
    return Pack(ids[order], counts[order], new_place[order], lists[source], kept_maps)
