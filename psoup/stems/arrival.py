r"""A piece of new tuples joined with all clauses of an index, set at a time.

    piece --values--> keys --codes--> rows --reach--> cells --match lists, sort, unpack--> pairs
                                       |  `---> clauses of hot cells --.
                                       `--count--> prefix counts --plan--> work --+--> order --> walk --> pairs
                                                  clauses in no list --'          `--> bitmaps --> AND --> rows

The steps are the bodies of `_join` and `_plan_and_emit`, each one call of a kernel over all tuples or all clauses;
nothing here loops over either. Clauses whose matches turn out to be many and that have no row of bits yet are emitted
a second time, into a new row; this happens once for a clause and chunk.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psoup.columns import Array
from psoup.config import EngineConfig
from psoup.expressions.tree import Expr
from psoup.kernels.arrive import emit, plan
from psoup.kernels.bitmaps import prefix_bitmaps
from psoup.kernels.codes import count_codes, count_some, sort_tuples
from psoup.kernels.columns import merge_runs, sort_by_slot
from psoup.kernels.pack import set_bits
from psoup.kernels.postings import match_lists, pairs_to_rows, reach, unpack_pairs
from psoup.stems.piece import OpenResults, Piece, Runner, Task, threads_of
from psoup.stems.predicate_index import Part
from psoup.stems.values import Values, column_of, values_of

Run = tuple[Array, Array]
_NOTHING: Array = np.zeros(0, np.int32)
_ONE_RUN = 16_384
"""Pairs up to which all runs of a probe are merged into one; larger ones are kept side by side."""
_WALK_SHARE = 4
"""A tuple that is looked at by itself costs as much as so many that are ANDed as bits, where both are possible."""
_SORT_COST = 16
"""What finding a row's count among sorted tuples costs, in steps of counting through all rows."""
_KEPT_BYTES = 1 << 26
"""A scratch array larger than this (64 MiB) is given back after the probe instead of being kept for the next."""


class Scratch:
    """Arrays that one probe after the other writes over. One user at a time."""

    def __init__(self) -> None:
        self._arrays: dict[str, Array] = {}

    def get(self, name: str, shape: int | tuple[int, ...], dtype: Any) -> Array:
        """An array of that shape with arbitrary content, C-contiguous."""
        size = shape if isinstance(shape, int) else math.prod(shape)
        kept = self._arrays.get(name)
        if kept is None or len(kept) < size:
            kept = np.empty(size + (size >> 1), dtype)
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
        return sum(array.nbytes for array in self._arrays.values())


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


def probe(
    parts: Sequence[Part],
    attributes: Mapping[int, Expr],
    piece: Piece,
    results: OpenResults,
    run: Runner,
    scratch: Scratch,
    config: EngineConfig,
) -> None:
    """Join a piece with the clauses of all parts and write the matches to `results`.

    Every attribute is computed once. O(tuples * attributes + clauses + matches), see `psoup.kernels.arrive`.
    """
    if not len(piece):
        return
    used = sorted({int(a) for part in parts for a in part.index.attributes})
    values = {a: values_of(column_of(attributes[a], piece.columns, piece.ids, piece.times)) for a in used}
    for attribute, own in values.items():
        if own.error is not None:
            results.add_errors(attribute, own.errors)
    found = [one for part in parts for one in _join(part, values, piece, results, run, scratch, config)]
    while len(found) > 1 and sum(len(slots) for slots, _ in found) <= _ONE_RUN:
        found[-2:] = [merge_runs(*found[-2], *found[-1])]
    for slots, offsets in found:
        results.append_run(slots, offsets)


def _join(
    part: Part,
    values: Mapping[int, Values],
    piece: Piece,
    results: OpenResults,
    run: Runner,
    scratch: Scratch,
    config: EngineConfig,
) -> list[Run]:
    index, n = part.index, len(piece)
    if not part.live:
        return []
    codes = scratch.get("codes", (len(index.bounds), n), np.int32)
    for local, bounds in enumerate(index.bounds):
        bounds.encode(values[int(index.attributes[local])], int(index.base[local]), codes[local])
    limit = max(n // config.dense_share, min(n, config.sparse_floor))
    emitter = _Emitter(part, codes, piece.start, limit, results, run, scratch)
    reached = _reach(part, codes, limit, scratch)
    found = []
    if len(reached.candidates):
        found = _plan_and_emit(emitter, reached.candidates, config)
    if len(reached.tuples):
        found += match_all(emitter, reached)
    return found


def _plan_and_emit(emitter: _Emitter, candidates: Array, config: EngineConfig) -> list[Run]:
    """The matches of clauses that are looked at one by one, whatever the piece holds."""
    part, index, scratch, results = emitter.part, emitter.part.index, emitter.scratch, emitter.results
    n, shift = emitter.codes.shape[1], emitter.start & 63
    counted = _count(part, emitter.codes, candidates, scratch)
    uses = _Uses(len(index.bounds))
    walk = max(emitter.limit // _WALK_SHARE, min(n, config.sparse_floor, emitter.limit))
    work = _plan(part, counted, candidates, n, walk, emitter.limit, uses, scratch)
    if not len(work.clauses):
        return []
    if uses.order.any() and not counted.ordered:
        cursor = scratch.get("cursor", index.rows, np.int32)
        sort_tuples(emitter.codes, index.base, counted.counts, uses.order, cursor, counted.order)
    bitmaps = int(counted.starts[-1]) if uses.prefix.any() else 0
    prefix = scratch.get("prefix", (bitmaps, (shift + n + 63) >> 6), np.uint64)
    if bitmaps:
        prefix_bitmaps(emitter.codes, counted.ranks, counted.starts, uses.prefix, shift, prefix)
    rows = len(results.rows) + int(np.count_nonzero(work.walked < 0))
    most = emitter.limit if rows > config.generous_rows else emitter.limit // 2
    found, needs = emitter.emit(work, counted, prefix, most)
    if len(needs):
        results.ensure_rows(index.slots[work.clauses[needs]].astype(np.int64))
        emitter.emit(work.pick(needs), counted, prefix, most)
    return [found] if found is not None else []


@dataclass(slots=True)
class _Uses:
    """For which attributes tuples must be sorted, and bitmaps made: uint8[A]."""

    order: Array
    prefix: Array

    def __init__(self, attributes: int) -> None:
        self.order, self.prefix = np.zeros(attributes, np.uint8), np.zeros(attributes, np.uint8)


def _count(part: Part, codes: Array, candidates: Array, scratch: Scratch) -> _Counts:
    """Counts by all codes, or where those are many, only by the codes that the candidates use."""
    index = part.index
    counts, ranks = scratch.get("counts", index.rows, np.int32), scratch.get("ranks", index.rows, np.int32)
    starts = np.zeros(len(index.bounds) + 1, np.int64)
    order = scratch.get("order", codes.shape, np.int32)
    edges = 2 * len(candidates) * len(index.iv_lo) // len(index)
    few = _SORT_COST * (edges + codes.size) < index.rows
    if few:
        keys = codes.astype(np.uint64) << np.uint64(32) | np.arange(codes.shape[1], dtype=np.uint64)
        keys.sort(axis=1)
        count_some(
            keys, candidates, index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr,
            counts, ranks, starts, order,
        )  # fmt: skip
    else:
        count_codes(codes, index.base, counts, ranks, starts)
    return _Counts(codes, counts, ranks, starts, order, few)


@dataclass(frozen=True, slots=True)
class _Reached:
    """Candidates for the plan, and lists to test; see `psoup.kernels.postings`."""

    candidates: Array
    tuples: Array
    cells: Array
    room: Array


def _reach(part: Part, codes: Array, limit: int, scratch: Scratch) -> _Reached:
    index, lists = part.index, part.index.lists
    if not len(lists.entries):
        return _Reached(index.rest, _NOTHING, _NOTHING, _NOTHING)
    most = len(lists.grid_attr) * codes.shape[1]
    seen, candidates = scratch.zeros("seen", len(lists.cell_ptr)), scratch.get("candidates", len(index), np.int32)
    tuples, cells = scratch.get("tuples", most, np.int32), scratch.get("cells", most, np.int32)
    room = scratch.get("test_room", most + 1, np.int64)
    size, found = reach(
        codes, index.base, lists.grid_attr, lists.grid_shift, lists.grid_first, lists.cell_ptr, lists.group_ptr,
        lists.group_kind, lists.kind_flags, lists.entries, limit, seen, candidates, tuples, cells, room,
    )  # fmt: skip
    looked_at = np.sort(np.concatenate([index.rest, candidates[:size]])) if size else index.rest
    return _Reached(looked_at, tuples[:found], cells[:found], room[: found + 1])


def _plan(
    part: Part, counted: _Counts, candidates: Array, n: int, walk: int, limit: int, uses: _Uses, scratch: Scratch
) -> _Work:
    index, size = part.index, len(candidates)
    work, walked = scratch.get("work", size, np.int32), scratch.get("walked", size, np.int32)
    room = scratch.get("room", size + 1, np.int64)
    found = plan(
        candidates, part.alive, index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr,
        counted.counts, n, walk, limit, work, walked, room, uses.order, uses.prefix,
    )  # fmt: skip
    return _Work(work[:found], walked[:found], room[: found + 1])


@dataclass(slots=True)
class _Emitter:
    """Runs the emitting kernels over shards. `limit`: most tuples of a piece that are walked for a clause."""

    part: Part
    codes: Array
    start: int
    limit: int
    results: OpenResults
    run: Runner
    scratch: Scratch

    def emit(self, work: _Work, counted: _Counts, prefix: Array, most: int) -> tuple[Run | None, Array]:
        """Returns the pairs, in order of the work, and positions of work that needs rows, ascending."""
        size, shards = len(work.clauses), threads_of(self.run)
        room = int(work.room[-1])
        slots, offsets = self.scratch.get("slots", room, np.uint32), self.scratch.get("offsets", room, np.uint16)
        needs = self.scratch.get("needs", size, np.int32)
        cuts = [size * k // shards for k in range(shards + 1)]
        done: list[tuple[int, int]] = [(0, 0)] * shards
        outputs = (slots, offsets, needs)
        self.run([self._task(work, counted, prefix, most, cuts, k, outputs, done) for k in range(shards)])
        begins = [int(work.room[cut]) for cut in cuts]
        needed = np.concatenate([needs[cut : cut + n] for cut, (_, n) in zip(cuts, done, strict=False)])
        if not any(pairs for pairs, _ in done):
            return None, needed
        spans = [slice(begin, begin + pairs) for begin, (pairs, _) in zip(begins, done, strict=False)]
        return (np.concatenate([slots[s] for s in spans]), np.concatenate([offsets[s] for s in spans])), needed

    def _task(
        self, work: _Work, counted: _Counts, prefix: Array, most: int, cuts: list[int], k: int,
        outputs: tuple[Array, Array, Array], done: list[tuple[int, int]],
    ) -> Task:  # fmt: skip
        index, rows, row_of_slot = self.part.index, self.results.rows, self.results.row_of_slot

        def task() -> None:
            done[k] = emit(
                cuts[k], cuts[k + 1], work.clauses, work.walked, work.room, index.slots, index.clause_ptr,
                index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr, self.codes, counted.counts, counted.ranks,
                counted.order, prefix, self.start, most, row_of_slot, rows, *outputs,
            )  # fmt: skip

        return task


def compile_kernels() -> None:
    """Compile what only large indexes or many small pieces run, so that the first of them does not wait for it."""
    ints, longs, bytes_ = np.zeros(2, np.int32), np.zeros(2, np.int64), np.zeros(1, np.uint8)
    slots, offsets, codes = np.zeros(1, np.uint32), np.zeros(1, np.uint16), np.zeros((1, 1), np.int32)
    bits = np.zeros((1, 1), np.uint64)
    index = (ints, ints, ints, ints, ints)
    for keys in (np.zeros(0, np.uint32), np.zeros(0, np.uint64)):
        for tests in (np.zeros(0, np.uint16), np.zeros(0, np.int32)):
            lists = (ints, ints, ints, longs, ints, ints, bytes_, ints, tests, 0)
            match_lists(0, 0, ints, ints, longs, *lists, longs, codes, *index, 1, keys)
        unpack_pairs(keys, 1, 0, bytes_, slots, slots, offsets)
    reach(codes[:, :0], longs, ints[:0], ints, longs, ints, ints, ints, bytes_, ints, 0, ints, ints, ints, ints, longs)
    pairs_to_rows(slots[:0], offsets[:0], ints, bits)
    count_some(bits[:0], ints[:0], *index, ints, ints, longs, codes)
    sort_by_slot(slots[:0], offsets[:0], 0, 0, slots, offsets)
    set_bits(bits, longs[:0], offsets[:0])


def match_all(emitter: _Emitter, reached: _Reached) -> list[Run]:
    """Test the lists; each shard makes a run of its own."""
    shards, total = threads_of(emitter.run), int(reached.room[-1])
    bits = max(1, (emitter.codes.shape[1] - 1).bit_length())
    wide = len(emitter.part.index) << bits > 1 << 32
    out = emitter.scratch.get("wide" if wide else "narrow", total, np.uint64 if wide else np.uint32)
    shares = np.searchsorted(reached.room, [total * k // shards for k in range(shards)])
    begun = reached.tuples[np.minimum(shares, len(reached.tuples) - 1)]
    # between tuples, so that the pairs of a slot are in order from run to run
    cuts = [*np.searchsorted(reached.tuples, begun).tolist(), len(reached.tuples)]
    runs: list[Run] = [(_NOTHING, _NOTHING)] * shards
    emitter.run([_match_task(emitter, reached, cuts, k, bits, out, runs) for k in range(shards)])
    rows = emitter.results.rows
    if len(rows):
        kept = [pairs_to_rows(*one, emitter.results.row_of_slot, rows) for one in runs]
        runs = [(slots[:size], offsets[:size]) for (slots, offsets), size in zip(runs, kept, strict=True)]
    return [one for one in runs if len(one[0])]


def _match_task(
    emitter: _Emitter, reached: _Reached, cuts: list[int], k: int, bits: int, out: Array, runs: list[Run]
) -> Task:
    part, index, lists = emitter.part, emitter.part.index, emitter.part.index.lists
    alive = part.alive if part.live < len(index) else part.alive[:0]

    def task() -> None:
        count = match_lists(
            cuts[k], cuts[k + 1], reached.tuples, reached.cells, reached.room, lists.cell_ptr, lists.group_ptr,
            lists.group_kind, lists.group_test, lists.kind_ptr, lists.kind_attr, lists.kind_flags, lists.entries,
            lists.tests, lists.longest, index.base, emitter.codes, index.clause_ptr, index.factor_ptr, index.iv_lo,
            index.iv_hi, index.iv_attr, bits, out,
        )  # fmt: skip
        begin = int(reached.room[cuts[k]])
        keys = out[begin : begin + count]
        keys.sort()
        slots, offsets = np.empty(count, np.uint32), np.empty(count, np.uint16)
        kept = unpack_pairs(keys, bits, emitter.start, alive, index.slots, slots, offsets)
        runs[k] = slots[:kept], offsets[:kept]

    return task
