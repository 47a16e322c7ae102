"""Runs: matches in the order of their tuples, grouped by slot so that the matches of one clause are found quickly.

    Run   slots    uint32[k]     the clause that matched   bucket after bucket of slots, block after block:
          offsets  uint16[k]     the tuple                 `psoup.kernels.arrive.slot_runs`
          starts   int64[blocks, BUCKETS + 1]           where each bucket of each block begins

The offsets of one slot ascend, within a run and from one run to the next. Pairs are not sorted by slot until a chunk is
sealed (`by_slot`). A run is immutable. It does not know which clause has which slot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from psoup.invariants import ensure
from psoup.kernels.arrive.slot_runs import BUCKETS, count_pairs, group_pairs, put_together
from psoup.kernels.rows.radix_sort import order_keys
from psoup.values.columns import Array

ONE_BLOCK = 1 << 16
"""The most pairs of a block: they fit into the second-level cache."""


class MatchRun(NamedTuple):
    """A run of matches. The table of the module describes the arrays."""

    slots: Array
    offsets: Array
    starts: Array

    def count(self, slot: int) -> int:
        """The number of pairs of a slot."""
        return int(count_pairs(self.slots, self.starts, slot))

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return self.slots.nbytes + self.offsets.nbytes + self.starts.nbytes

    def check(self) -> None:
        """Check that every pair is in its bucket, buckets are in their blocks, and the offsets of a slot ascend."""
        at = 0
        for block in self.starts:
            ensure(block[0] == at, self, "blocks do not lie one behind the other", starts=self.starts[:, 0])
            buckets = np.repeat(np.arange(BUCKETS), np.diff(block))
            placed = np.array_equal(self.slots[at : block[-1]] % BUCKETS, buckets)
            ensure(placed, self, "a pair is not in its bucket", slots=self.slots[at : block[-1]])
            at = int(block[-1])
        ensure(at == len(self.slots) == len(self.offsets), self, "a pair is in no block", pairs=len(self.slots), end=at)
        slots, offsets = by_slot([self])
        later = (slots[1:] != slots[:-1]) | (offsets[1:] > offsets[:-1])
        ensure(later.all(), self, "the offsets of a slot do not ascend", slots=slots[1:][~later])


def new_starts(blocks: int) -> Array:
    """An array for the bounds of buckets: int64[blocks, BUCKETS + 1]."""
    return np.empty((blocks, BUCKETS + 1), np.int64)


def scattered(slots: Array, offsets: Array) -> MatchRun:
    """A run of pairs (uint32, uint16) in any order, for `OpenResults` that are not grouped.

    The run cannot be searched by slot.
    """
    return MatchRun(slots, offsets, new_starts(0))


def grouped(slots: Array, offsets: Array) -> MatchRun:
    """A run of pairs, copied: uint32 slots, uint16 offsets that ascend for each slot. O(pairs).

    Each block of `ONE_BLOCK` pairs is grouped by itself. Larger blocks would have buckets that are too far apart in
    memory, and too large to sort.
    """
    blocks = new_starts(max(1, -(-len(slots) // ONE_BLOCK)))
    run = MatchRun(np.empty(len(slots), np.uint32), np.empty(len(slots), np.uint16), blocks)
    for at, starts in zip(range(0, len(blocks) * ONE_BLOCK, ONE_BLOCK), blocks, strict=True):
        block = slice(at, at + ONE_BLOCK)
        group_pairs(slots[block], offsets[block], at, starts, run.slots, run.offsets)
    return run


def together(runs: Sequence[MatchRun]) -> MatchRun:
    """Merge several runs (at least one), given in the order of their tuples. O(pairs)."""
    if len(runs) == 1:
        return runs[0]
    slots, offsets = np.concatenate([run.slots for run in runs]), np.concatenate([run.offsets for run in runs])
    if len(slots) <= ONE_BLOCK:
        return grouped(slots, offsets)
    before = np.cumsum([0, *(len(run.slots) for run in runs[:-1])])
    starts = np.concatenate([run.starts + first for run, first in zip(runs, before.tolist(), strict=True)])
    return MatchRun(slots, offsets, starts)


def by_slot(runs: Sequence[MatchRun]) -> tuple[Array, Array]:
    """All pairs of some runs, with the pairs of each slot adjacent. The slots come in no order. O(pairs + slots).

    `runs`: in the order of their tuples.
    """
    if not runs:
        return np.zeros(0, np.uint32), np.zeros(0, np.uint16)
    run = together(runs)
    slots, offsets = np.empty_like(run.slots), np.empty_like(run.offsets)
    capacity = int(run.slots.max(initial=0)) + 1
    put_together(run.slots, run.offsets, run.starts, capacity, slots, offsets)
    return slots, offsets


def order_of(ids: Array) -> Array:
    """The positions that sort `ids` (int64) stably in ascending order. A radix sort, as there may be a million IDs."""
    order, spare = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    order_keys(ids, order, spare)
    return order
