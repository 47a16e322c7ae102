"""Emission: the matches of clauses that are in no posting list. One plan covers all clauses; threads run its shares.

    codes --count--> prefix counts --plan--> work  | c c c c c | c c c c c |     share 0, share 1, at the same time
                                                     `--> order, bitmaps     of each share: two threads would wait for
                                                             |               each other to make them together
                                                             `--> walk, AND --> pairs, rows

Each step is one kernel call over all clauses of a share. Shares write disjoint rows and places. A clause may turn out
to have many matches while it has no row of bits. The caller gives it a row, and then `emit_rest` writes its matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psoup.clauses.index.predicate_index import Part
from psoup.clauses.scratch import Scratch
from psoup.config import EngineConfig
from psoup.kernels.arrive.codes import count_some
from psoup.kernels.arrive.index_probe import count_and_plan, emit, plan, prepare_and_emit
from psoup.kernels.rows.radix_sort import order_keys
from psoup.results.open import OpenResults
from psoup.results.runs import MatchRun, grouped, scattered
from psoup.values.columns import Array

_WALK_SHARE = 4
"""The number of tuples whose bits are ANDed in the time in which one tuple is tested by itself."""
_SORT_COST = 16
"""The cost of finding the count of one code among sorted tuples. The unit is one code in a count of all codes."""
_BITS_COST = 2
"""The cost of ANDing one word of a clause's bitmaps. The unit is the cost of sorting one tuple."""


@dataclass(frozen=True, slots=True)
class _Counts:
    """Counts of the piece's codes in one index; see `psoup.kernels.arrive.codes`."""

    codes: Array
    counts: Array
    ranks: Array
    starts: Array
    order: Array
    ordered: bool


@dataclass(frozen=True, slots=True)
class _Work:
    """The result of `plan`; see `psoup.kernels.arrive.index_probe`."""

    clauses: Array
    walked: Array
    room: Array

    def pick(self, positions: Array) -> _Work:
        """The work of the clauses at `positions`, which have rows. So no room is reserved for their pairs."""
        return _Work(self.clauses[positions], self.walked[positions], np.zeros(len(positions) + 1, np.int64))


class Emission:
    """The join of the clauses `candidates` (int32, ascending) with the tuples of `codes`.

    `start`: the offset of the first tuple in its chunk. `limit`: the most tuples that are tested one by one for a
    clause, and the most pairs of any other clause. `scratches`: one for each share.
    """

    def __init__(
        self,
        part: Part,
        codes: Array,
        candidates: Array,
        start: int,
        limit: int,
        config: EngineConfig,
        results: OpenResults,
        scratches: Sequence[Scratch],
    ) -> None:
        self._part = part
        self._start = start
        self._scratches = scratches
        self._uses = _Uses(len(part.index.bounds))
        n, scratch = codes.shape[1], scratches[0]
        walk = max(limit // _WALK_SHARE, min(n, config.sparse_floor, limit))
        self._counted, self.work = _plan(part, codes, candidates, walk, limit, self._uses, scratch)
        """The plan, valid until the next probe. The caller counts the work of each clause from it."""
        if self._counted.ordered:
            self._uses.order[:] = 0
        elif self._uses.prefix.all() and _dear(self._uses, self.work, n):
            self.work.walked[:], self._uses.order[:] = -1, 0
        rows = results.rows.shape[1] + int(np.count_nonzero(self.work.walked < 0))
        self._pair_limit = limit if rows > config.generous_rows else limit // 8
        room = int(self.work.room[-1])
        self._slots = scratch.get("slots", room, np.uint32)
        self._offsets = scratch.get("offsets", room, np.uint16)
        self._needs = scratch.get("needs", len(self.work.clauses), np.int32)
        self._needed = [self._needs[:0]] * len(scratches)
        self._prefixes: list[Array] = [np.zeros((0, 0), np.uint64)] * len(scratches)

    def emit(self, results: OpenResults, share: int) -> MatchRun | None:
        """Find the matches of a share. Writes the matches of slots with a row to the row, and returns the others."""
        counted, uses, scratch, size = self._counted, self._uses, self._scratches[share], len(self.work.clauses)
        first, last = (size * cut // len(self._scratches) for cut in (share, share + 1))
        if first == last:
            return None
        words = ((self._start & 63) + counted.codes.shape[1] + 63) >> 6
        bitmaps = int(counted.starts[-1]) if uses.prefix.any() else 0
        prefix = self._prefixes[share] = scratch.get("prefix", (bitmaps, words), np.uint64)
        order = scratch.get("order", counted.codes.shape, np.int32) if uses.order.any() else counted.order
        cursor = scratch.get("cursor", self._part.index.rows, np.int32)
        made = (self._part.index.base, (uses.order, uses.prefix), cursor)
        pairs, needed = prepare_and_emit(*made, *self._arguments(self.work, first, last, prefix, order, results))
        self._needed[share] = self._needs[first : first + needed]
        if not pairs:
            return None
        pairs_of_share = slice(place := int(self.work.room[first]), place + pairs)
        slots, offsets = self._slots[pairs_of_share], self._offsets[pairs_of_share]
        return grouped(slots, offsets) if results.grouped else scattered(slots.copy(), offsets.copy())

    def needs(self) -> Array:
        """The slots whose matches `emit` left out because they need a row: int64, ascending. Call it after `emit`."""
        clauses = self.work.clauses[np.concatenate(self._needed)]
        return self._part.index.slots[clauses].astype(np.int64)

    def emit_rest(self, results: OpenResults, share: int) -> None:
        """Write the matches that `emit` left out in a share to the rows that their slots have now."""
        left, counted = self.work.pick(self._needed[share]), self._counted
        size, prefix = len(left.clauses), self._prefixes[share]
        if size:
            emit(*self._arguments(left, 0, size, prefix, counted.order, results))

    def _arguments(
        self, work: _Work, first: int, last: int, prefix: Array, order: Array, results: OpenResults
    ) -> tuple[Any, ...]:
        """Arguments of the kernel `emit`."""
        index, counted = self._part.index, self._counted
        planned = (work.clauses, work.walked, work.room)
        clauses = (index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr)
        piece = (counted.codes, counted.counts, counted.ranks, counted.starts, order)
        target, out = (results.row_of_slot, results.rows), (self._slots, self._offsets, self._needs)
        return first, last, planned, index.slots, clauses, piece, prefix, self._start, self._pair_limit, target, out


@dataclass(slots=True)
class _Uses:
    """Flags by attribute, uint8[A]. `order`: its tuples must be sorted. `prefix`: it needs bitmaps."""

    order: Array
    prefix: Array

    def __init__(self, attributes: int) -> None:
        self.order = np.zeros(attributes, np.uint8)
        self.prefix = np.zeros(attributes, np.uint8)


def _dear(uses: _Uses, work: _Work, n: int) -> bool:
    """Whether sorting n tuples for walked clauses costs more than ANDing the bitmaps, which exist already."""
    return _BITS_COST * int(np.count_nonzero(work.walked >= 0)) * (n >> 6) < int(np.count_nonzero(uses.order)) * n


def _plan(
    part: Part, codes: Array, candidates: Array, walk: int, limit: int, uses: _Uses, scratch: Scratch
) -> tuple[_Counts, _Work]:
    """Plan the work from counts of the piece's codes. If there are many codes, only codes of candidates are counted."""
    index, size = part.index, len(candidates)
    counts, ranks = scratch.get("counts", index.rows, np.int32), scratch.get("ranks", index.rows, np.int32)
    starts = np.zeros(len(index.bounds) + 1, np.int64)
    order = scratch.get("order", codes.shape, np.int32)
    work, walked = scratch.get("work", size, np.int32), scratch.get("walked", size, np.int32)
    room = scratch.get("room", size + 1, np.int64)
    few = _SORT_COST * (2 * size * len(index.iv_lo) // len(index) + codes.size) < index.rows
    clauses = (index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr)
    sizes, planned, flags = (codes.shape[1], walk, limit), (work, walked, room), (uses.order, uses.prefix)
    arguments = candidates, part.alive, clauses, counts, *sizes, planned, flags
    if few:
        count_some(_sorted_codes(codes), candidates, clauses, counts, ranks, starts, order)
        count = plan(*arguments)
    else:
        count = count_and_plan(index.base, codes, ranks, starts, *arguments)
    return _Counts(codes, counts, ranks, starts, order, few), _Work(work[:count], walked[:count], room[: count + 1])


def _sorted_codes(codes: Array) -> Array:
    """For each attribute the numbers `code << 32 | tuple`, ascending: uint64[A, n]."""
    n = codes.shape[1]
    keys, order, spare = np.empty(codes.shape, np.uint64), np.empty(n, np.int64), np.empty(n, np.int64)
    for attribute_codes, out in zip(codes, keys, strict=True):
        order_keys(attribute_codes, order, spare)
        out[:] = attribute_codes[order].astype(np.uint64) << np.uint64(32) | order.astype(np.uint64)
    return keys
