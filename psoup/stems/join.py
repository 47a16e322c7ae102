"""Some consecutive tuples joined with all clauses of one index, set at a time.

    values --codes--> rows --reach--> cells --match lists, group--> pairs
                       |  `---> clauses of hot cells --.
                       `--count--> prefix counts --plan--> work --+--> order --> walk --> pairs
                                  clauses in no list --'          `--> bitmaps --> AND --> rows

The steps are the bodies of `Join.match` and `_plan_and_emit`, each one call of a kernel over all tuples or all clauses;
nothing here loops over either. Clauses whose matches turn out to be many and that have no row of bits yet are left for
`Join.match_rest`, when they have one; this happens once for a clause and chunk. It knows no threads: joins of other
tuples, or with other clauses, may run at the same time, as they write other words and other scratch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from psoup.columns import Array, new_array
from psoup.config import EngineConfig
from psoup.kernels.arrive import count_and_plan, emit, plan, prepare_and_emit
from psoup.kernels.codes import count_some
from psoup.kernels.lanes import LANES
from psoup.kernels.order import order_keys
from psoup.kernels.postings import match_lists, reach
from psoup.kernels.runs import group_keys, keys_to_rows, name_slots
from psoup.runs import ONE_BLOCK, Run, grouped, new_starts
from psoup.stems.piece import OpenResults
from psoup.stems.predicate_index import Part
from psoup.stems.values import Values

_NOTHING: Array = np.zeros(0, np.int32)
_WALK_SHARE = 4
"""A tuple that is looked at by itself costs as much as so many that are ANDed as bits, where both are possible."""
_SORT_COST = 16
"""What finding a row's count among sorted tuples costs, in steps of counting through all rows."""
_ORDERED_FROM, _NEAR_BYTES = 1_024, 1 << 20
"""Cells from which on they are visited in the order in which their lists lie, if the lists take more than so much."""
_BITS_COST = 2
"""What it costs to AND a word of a clause's bitmaps, in tuples that are sorted."""
_KEPT_BYTES = 1 << 26
"""A scratch array larger than this (64 MiB) is given back after the probe instead of being kept for the next."""


class Scratch:
    """Arrays that one probe after the other writes over. One user at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}
        self._others: dict[tuple[int, int], Scratch] = {}

    def of(self, shard: int, part: int) -> Scratch:
        """The arrays of one of several joins that are under way together."""
        if shard == part == 0:
            return self
        return self._others.setdefault((shard, part), Scratch())

    def get(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """An array of that shape with arbitrary content, C-contiguous."""
        size = shape if isinstance(shape, int) else math.prod(shape)
        kept = self._arrays.get(name)
        if kept is None or len(kept) < size:
            kept = new_array(size + (size >> 1), dtype)
            if kept.nbytes <= _KEPT_BYTES:
                self._arrays[name] = kept
        return kept[:size].reshape(shape)

    def zeros(self, name: str, size: int) -> Array:
        """An int32 array of zeros, to be left as zeros."""
        kept = self._arrays.get(name)
        if kept is None or len(kept) < size:
            kept = self._arrays[name] = np.zeros(size, np.int32)
        return kept

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in list(self._arrays.values())) + sum(
            other.nbytes for other in list(self._others.values())
        )


@dataclass(frozen=True, slots=True)
class _Counts:
    """The piece counted by the codes of one index; see `psoup.kernels.codes`."""

    codes: Array
    counts: Array
    ranks: Array
    starts: Array
    order: Array
    ordered: bool


@dataclass(frozen=True, slots=True)
class _Work:
    """What `plan` found; see `psoup.kernels.arrive`."""

    clauses: Array
    walked: Array
    room: Array

    def pick(self, positions: Array) -> _Work:
        """Some of the work, to be emitted into rows: no room for pairs."""
        return _Work(self.clauses[positions], self.walked[positions], np.zeros(len(positions) + 1, np.int64))


@dataclass(slots=True)
class Join:
    """`size` tuples from offset `start` of a chunk on, and one part of the index.

    `runs`: the matches that go to no row, after `match`. `needs`: the slots that need a row before `match_rest` can be
    called; it must be if there are any.
    """

    part: Part
    values: Mapping[int, Values]
    start: int
    size: int
    config: EngineConfig
    scratch: Scratch
    runs: list[Run] = field(default_factory=list)
    needs: Array = field(default_factory=lambda: _NOTHING)
    work: _Work | None = None
    """What `match` planned, until the next probe: who counts the work of each clause reads it."""
    cells: Array | None = None
    """The cells of the lists that `match` tested, ~cell if hot, until the next probe."""
    _left: tuple[_Work, _Counts, Array, int] | None = None
    _codes: Array = field(default_factory=lambda: _NOTHING)

    @property
    def limit(self) -> int:
        """Most tuples that are walked for a clause, and most pairs of one that is not."""
        return max(self.size // self.config.dense_share, min(self.size, self.config.sparse_floor))

    def encode(self) -> None:
        """Find the codes of all values but texts, before `match`.

        It takes some microseconds an attribute: threads that did this at the same time would wait for the interpreter.
        """
        self._codes = self.scratch.get("codes", (len(self.part.index.bounds), self.size), np.int32)
        self._encode(texts=False)

    def _encode(self, *, texts: bool) -> None:
        index, base = self.part.index, self.part.index.base.tolist()
        for local, attribute in enumerate(index.attributes.tolist()):
            if index.bounds[local].text == texts:
                index.bounds[local].encode(self.values[attribute], base[local], self._codes[local])

    def match(self, results: OpenResults) -> None:
        """Find all matches, after `encode`; those of slots that have a row are ORed into it."""
        self._encode(texts=True)
        codes = self._codes
        reached = _reach(self.part, codes, self.limit, self.scratch)
        if len(reached.candidates):
            self._plan_and_emit(codes, reached.candidates, results)
        if len(reached.tuples):
            self.cells = reached.cells
            self._match_lists(codes, reached, results)

    def match_rest(self, results: OpenResults) -> None:
        """Emit what was left, into the rows that there are now."""
        assert self._left is not None, "nothing was left"
        work, counted, prefix, most = self._left
        self._emit(work, counted, prefix, most, results)

    def _plan_and_emit(self, codes: Array, candidates: Array, results: OpenResults) -> None:
        """The matches of clauses that are looked at one by one, whatever the tuples hold."""
        index, scratch, shift, limit = self.part.index, self.scratch, self.start & 63, self.limit
        uses = _Uses(len(index.bounds))
        walk = max(limit // _WALK_SHARE, min(self.size, self.config.sparse_floor, limit))
        counted, work = _plan(self.part, codes, candidates, walk, limit, uses, scratch)
        if not len(work.clauses):
            return
        self.work = work
        if counted.ordered:
            uses.order[:] = 0
        elif uses.prefix.all() and _dear(uses, work, self.size):
            work.walked[:], uses.order[:] = -1, 0
        bitmaps = int(counted.starts[-1]) if uses.prefix.any() else 0
        prefix = scratch.get("prefix", (bitmaps, (shift + self.size + 63) >> 6), np.uint64)
        rows = results.rows.shape[1] + int(np.count_nonzero(work.walked < 0))
        most = limit if rows > self.config.generous_rows else limit // 8
        needs = self._emit(work, counted, prefix, most, results, uses)
        if len(needs):
            self.needs = index.slots[work.clauses[needs]].astype(np.int64)
            self._left = work.pick(needs), counted, prefix, most

    def _emit(
        self, work: _Work, counted: _Counts, prefix: Array, most: int, results: OpenResults, uses: _Uses | None = None
    ) -> Array:
        """Emit the work, once what it `uses` is made; returns positions of it that need rows, ascending."""
        index, size, room = self.part.index, len(work.clauses), int(work.room[-1])
        slots, offsets = self.scratch.get("slots", room, np.uint32), self.scratch.get("offsets", room, np.uint16)
        needs = self.scratch.get("needs", size, np.int32)
        arguments = (
            0, size, work.clauses, work.walked, work.room, index.slots, index.clause_ptr, index.factor_ptr, index.iv_lo,
            index.iv_hi, index.iv_attr, counted.codes, counted.counts, counted.ranks, counted.order, prefix,
            self.start, most, results.row_of_slot, results.rows, slots, offsets, needs,
        )  # fmt: skip
        if uses is None:
            pairs, needed = emit(*arguments)
        else:
            cursor = self.scratch.get("cursor", index.rows, np.int32)
            pairs, needed = prepare_and_emit(index.base, counted.starts, uses.order, uses.prefix, cursor, *arguments)
        if pairs:
            self.runs.append(grouped(slots[:pairs], offsets[:pairs]))
        return needs[:needed]

    def _match_lists(self, codes: Array, reached: _Reached, results: OpenResults) -> None:
        """Test the lists, and group what they match, as much at a time as the second cache holds."""
        part, index, lists = self.part, self.part.index, self.part.index.lists
        bits = max(1, (self.size - 1).bit_length())
        wide = int(index.slots[-1]) + 1 << bits > 1 << 32
        kind = np.uint64 if wide else np.uint32
        out = self.scratch.get("wide" if wide else "narrow", reached.tests + LANES, kind)
        count = match_lists(
            reached.tuples, reached.cells, lists.cell_ptr, lists.group_ptr, lists.group_kind, lists.group_test,
            lists.kind_ptr, lists.kind_attr, lists.kind_flags, lists.entries, lists.tests, lists.longest, index.base,
            codes, index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr, bits, out,
        )  # fmt: skip
        alive = part.alive if part.live < len(index) else part.alive[:0]
        if results.rows.size:
            rows = results.row_of_slot, results.rows
            count = keys_to_rows(out[:count], bits, self.start, alive, index.slots, *rows)
        first = int(index.slots[0])
        if len(alive) or int(index.slots[-1]) - first >= len(index):
            count, first = name_slots(out[:count], bits, alive, index.slots), 0
        if not count:
            return
        starts, size = new_starts(-(-count // ONE_BLOCK)), min(count, ONE_BLOCK)
        slots, offsets = np.empty(count, np.uint32), np.empty(count, np.uint16)
        block = self.scratch.get("wide_block" if wide else "narrow_block", size, kind)
        group_keys(out[:count], bits, self.start, first, starts, block, slots, offsets)
        self.runs.append(Run(slots, offsets, starts))


@dataclass(slots=True)
class _Uses:
    """For which attributes tuples must be sorted, and bitmaps made: uint8[A]."""

    order: Array
    prefix: Array

    def __init__(self, attributes: int) -> None:
        self.order, self.prefix = np.zeros(attributes, np.uint8), np.zeros(attributes, np.uint8)


def _dear(uses: _Uses, work: _Work, n: int) -> bool:
    """Whether to sort n tuples for those that are walked takes longer than to AND bitmaps, which there are, instead."""
    return _BITS_COST * int(np.count_nonzero(work.walked >= 0)) * (n >> 6) < int(np.count_nonzero(uses.order)) * n


def _plan(
    part: Part, codes: Array, candidates: Array, walk: int, limit: int, uses: _Uses, scratch: Scratch
) -> tuple[_Counts, _Work]:
    """The piece counted by all codes, or where those are many, only by those that the candidates use; what to do."""
    index, size = part.index, len(candidates)
    counts, ranks = scratch.get("counts", index.rows, np.int32), scratch.get("ranks", index.rows, np.int32)
    starts = np.zeros(len(index.bounds) + 1, np.int64)
    order = scratch.get("order", codes.shape, np.int32)
    work, walked = scratch.get("work", size, np.int32), scratch.get("walked", size, np.int32)
    room = scratch.get("room", size + 1, np.int64)
    few = _SORT_COST * (2 * size * len(index.iv_lo) // len(index) + codes.size) < index.rows
    clauses = (index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr)
    arguments = (
        candidates, part.alive, *clauses, counts, codes.shape[1], walk, limit,
        work, walked, room, uses.order, uses.prefix,
    )  # fmt: skip
    if few:
        count_some(_sorted_codes(codes), candidates, *clauses, counts, ranks, starts, order)
        found = plan(*arguments)
    else:
        found = count_and_plan(index.base, codes, ranks, starts, *arguments)
    return _Counts(codes, counts, ranks, starts, order, few), _Work(work[:found], walked[:found], room[: found + 1])


def _sorted_codes(codes: Array) -> Array:
    """uint64[A, n]: row << 32 | tuple of each attribute, ascending."""
    n = codes.shape[1]
    keys, order, spare = np.empty(codes.shape, np.uint64), np.empty(n, np.int64), np.empty(n, np.int64)
    for own, out in zip(codes, keys, strict=True):
        order_keys(own, order, spare)
        out[:] = own[order].astype(np.uint64) << np.uint64(32) | order.astype(np.uint64)
    return keys


@dataclass(frozen=True, slots=True)
class _Reached:
    """Candidates for the plan, and lists to test; see `psoup.kernels.postings`."""

    candidates: Array
    tuples: Array
    cells: Array
    tests: int


def _reach(part: Part, codes: Array, limit: int, scratch: Scratch) -> _Reached:
    index, lists = part.index, part.index.lists
    if not len(lists.entries):
        return _Reached(index.rest, _NOTHING, _NOTHING, 0)
    most = len(lists.grid_attr) * codes.shape[1]
    seen, candidates = scratch.zeros("seen", len(lists.cell_ptr)), scratch.get("candidates", len(index), np.int32)
    tuples, cells = scratch.get("tuples", most, np.int32), scratch.get("cells", most, np.int32)
    size, found, tests = reach(
        codes, index.base, lists.grid_attr, lists.grid_shift, lists.grid_first, lists.cell_ptr, lists.group_ptr,
        lists.group_kind, lists.kind_flags, lists.entries, limit, seen, candidates, tuples, cells,
    )  # fmt: skip
    looked_at, tuples, cells = index.rest, tuples[:found], cells[:found]
    if size:  # in the order of the index: those of a cell lie everywhere in it
        every = np.concatenate([index.rest, candidates[:size]])
        looked_at = every[_order_of(every, scratch)]
    if found >= _ORDERED_FROM and lists.alone and lists.listed_bytes > _NEAR_BYTES:
        order = _order_of(cells, scratch)
        tuples, cells = tuples[order], cells[order]
    return _Reached(looked_at, tuples, cells, tests)


def _order_of(keys: Array, scratch: Scratch) -> Array:
    """The positions of int32 in ascending order, good until the next call."""
    order = scratch.get("order_of", len(keys), np.int64)
    order_keys(keys, order, scratch.get("order_spare", len(keys), np.int64))
    return order
