r"""A piece of new tuples joined with all clauses of an index, set at a time.

    piece --values--> keys --codes--> rows --count--> prefix counts --reach--> posting lists --test--------------> pairs
                                                         candidates <-/
                                                              \--plan--> work --+--> order of tuples --> walk --> pairs
                                                                                +--> bitmaps         --> AND  --> rows

The steps are the body of `join`, each one call of a kernel over all tuples or all clauses; nothing here loops over
either. Clauses whose matches turn out to be many and that have no row of bits yet are emitted a second time, into a
new row; this happens once for a clause and chunk.
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
from psoup.kernels.codes import count_codes, sort_tuples
from psoup.kernels.columns import merge_runs
from psoup.kernels.postings import match_postings, pairs_to_rows, reach
from psoup.stems.piece import OpenResults, Piece, Runner, Task, threads_of
from psoup.stems.predicate_index import Part
from psoup.stems.values import Values, column_of, values_of

Run = tuple[Array, Array]
_NOTHING: Array = np.zeros(0, np.int32)
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

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        return sum(array.nbytes for array in self._arrays.values())


@dataclass(frozen=True, slots=True)
class _Codes:
    """The piece in the codes of one index; see `psoup.kernels.codes`."""

    codes: Array
    counts: Array
    ranks: Array
    starts: Array


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
    whole: Run | None = None
    for part in parts:
        found = _join(part, values, piece, results, run, scratch, config)
        if found is not None:
            whole = found if whole is None else merge_runs(*whole, *found)
    if whole is not None:
        results.append_run(*whole)


def _join(
    part: Part,
    values: Mapping[int, Values],
    piece: Piece,
    results: OpenResults,
    run: Runner,
    scratch: Scratch,
    config: EngineConfig,
) -> Run | None:
    index, n = part.index, len(piece)
    if not part.live:
        return None
    coded = _encode(part, values, n, scratch)
    limit = max(n // config.dense_share, min(n, config.sparse_floor))
    reached = _reach(part, coded, limit, scratch)
    uses = _Uses(len(index.bounds))
    uses.order[reached.attrs] = 1
    work = _plan(part, coded, reached.candidates, n, limit, uses, scratch)
    if not len(work.clauses) and not len(reached.rows):
        return None
    order = scratch.get("order", coded.codes.shape, np.int32)
    if uses.order.any():
        cursor = scratch.get("cursor", index.rows, np.int32)
        sort_tuples(coded.codes, index.base, coded.counts, uses.order, cursor, order)
    words = ((piece.start & 63) + n + 63) >> 6
    prefix = scratch.get("prefix", (int(coded.starts[-1]) if uses.prefix.any() else 0, words), np.uint64)
    if uses.prefix.any():
        prefix_bitmaps(coded.codes, coded.ranks, coded.starts, uses.prefix, piece.start & 63, prefix)
    rows = len(results.rows) + int(np.count_nonzero(work.walked < 0))
    most = limit if rows > config.generous_rows else limit // 4
    emitter = _Emitter(part, coded, order, prefix, piece.start, most, results, run, scratch)
    found, needs = emitter.emit(work)
    if found is not None and len(reached.candidates) > len(index.rest):
        found = split_pairs(np.sort(join_pairs(*found)))
    if len(needs):
        slots = index.slots[work.clauses[needs]].astype(np.int64)
        results.ensure_rows(np.sort(slots))
        emitter.emit(work.pick(needs))
    posted = emitter.match_postings(reached)
    if found is None or posted is None:
        return posted if found is None else found
    return merge_runs(*found, *posted)


@dataclass(slots=True)
class _Uses:
    """For which attributes tuples must be sorted, and bitmaps made: uint8[A]."""

    order: Array
    prefix: Array

    def __init__(self, attributes: int) -> None:
        self.order, self.prefix = np.zeros(attributes, np.uint8), np.zeros(attributes, np.uint8)


def join_pairs(slots: Array, offsets: Array) -> Array:
    """A run as numbers that sort as its pairs do: uint64[k]."""
    return slots.astype(np.uint64) << np.uint64(16) | offsets


def split_pairs(pairs: Array) -> Run:
    """The run of such numbers."""
    return (pairs >> np.uint64(16)).astype(np.uint32), pairs.astype(np.uint16)


def _encode(part: Part, values: Mapping[int, Values], n: int, scratch: Scratch) -> _Codes:
    index = part.index
    codes = scratch.get("codes", (len(index.bounds), n), np.int32)
    for local, bounds in enumerate(index.bounds):
        bounds.encode(values[int(index.attributes[local])], int(index.base[local]), codes[local])
    counts, ranks = scratch.get("counts", index.rows, np.int32), scratch.get("ranks", index.rows, np.int32)
    starts = np.zeros(len(index.bounds) + 1, np.int64)
    count_codes(codes, index.base, counts, ranks, starts)
    return _Codes(codes, counts, ranks, starts)


@dataclass(frozen=True, slots=True)
class _Reached:
    """Candidates for the plan, and posting lists to test; see `psoup.kernels.postings`."""

    candidates: Array
    rows: Array
    attrs: Array
    pairs: Array


def _reach(part: Part, coded: _Codes, limit: int, scratch: Scratch) -> _Reached:
    index = part.index
    if not len(index.anchored):
        return _Reached(index.rest, _NOTHING, _NOTHING, _NOTHING)
    candidates = scratch.get("candidates", len(index), np.int32)
    rows, attrs = scratch.get("rows", index.rows, np.int32), scratch.get("attrs", index.rows, np.int32)
    pairs = scratch.get("pairs", index.rows + 1, np.int64)
    size, found = reach(
        index.anchored, index.base, coded.counts, index.post_ptr, len(index.rest), limit, candidates, rows, attrs, pairs
    )
    return _Reached(candidates[:size], rows[:found], attrs[:found], pairs[: found + 1])


def _plan(part: Part, coded: _Codes, candidates: Array, n: int, limit: int, uses: _Uses, scratch: Scratch) -> _Work:
    index, size = part.index, len(candidates)
    work, walked = scratch.get("work", size, np.int32), scratch.get("walked", size, np.int32)
    room = scratch.get("room", size + 1, np.int64)
    found = plan(
        candidates, part.alive, index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr,
        coded.counts, n, limit, work, walked, room, uses.order, uses.prefix,
    )  # fmt: skip
    return _Work(work[:found], walked[:found], room[: found + 1])


@dataclass(slots=True)
class _Emitter:
    """Runs the emitting kernels over shards of the work."""

    part: Part
    coded: _Codes
    order: Array
    prefix: Array
    start: int
    most: int
    results: OpenResults
    run: Runner
    scratch: Scratch

    def emit(self, work: _Work) -> tuple[Run | None, Array]:
        """Returns the pairs, in order of the work, and positions of work that needs rows, ascending."""
        size, shards = len(work.clauses), threads_of(self.run)
        room = int(work.room[-1])
        slots, offsets = self.scratch.get("slots", room, np.uint32), self.scratch.get("offsets", room, np.uint16)
        needs = self.scratch.get("needs", size, np.int32)
        cuts = [size * k // shards for k in range(shards + 1)]
        done: list[tuple[int, int]] = [(0, 0)] * shards
        self.run([self._task(work, cuts, k, slots, offsets, needs, done) for k in range(shards)])
        begins = [int(work.room[cut]) for cut in cuts]
        needed = np.concatenate([needs[cut : cut + n] for cut, (_, n) in zip(cuts, done, strict=False)])
        if not any(pairs for pairs, _ in done):
            return None, needed
        spans = [slice(begin, begin + pairs) for begin, (pairs, _) in zip(begins, done, strict=False)]
        return (np.concatenate([slots[s] for s in spans]), np.concatenate([offsets[s] for s in spans])), needed

    def _task(
        self, work: _Work, cuts: list[int], k: int, slots: Array, offsets: Array, needs: Array,
        done: list[tuple[int, int]],
    ) -> Task:  # fmt: skip
        index, coded, rows = self.part.index, self.coded, self.results.rows
        row_of_slot = self.results.row_of_slot

        def task() -> None:
            done[k] = emit(
                cuts[k], cuts[k + 1], work.clauses, work.walked, work.room, index.slots, index.clause_ptr,
                index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr, coded.codes, coded.counts, coded.ranks,
                self.order, self.prefix, self.start, self.most, row_of_slot, rows, slots, offsets, needs,
            )  # fmt: skip

        return task

    def match_postings(self, reached: _Reached) -> Run | None:
        """Test the posting lists; returns the pairs, sorted."""
        if not len(reached.rows):
            return None
        shards, total = threads_of(self.run), int(reached.pairs[-1])
        out = self.scratch.get("out", total, np.uint64)
        cuts = np.searchsorted(reached.pairs, [total * k // shards for k in range(shards)]).tolist()
        cuts.append(len(reached.rows))
        done = [0] * shards
        self.run([self._posting_task(reached, cuts, k, out, done) for k in range(shards)])
        begins = [int(reached.pairs[cut]) for cut in cuts]
        pairs = np.concatenate([out[begin : begin + size] for begin, size in zip(begins, done, strict=False)])
        if len(self.results.rows):
            pairs = pairs[: pairs_to_rows(pairs, self.results.row_of_slot, self.results.rows)]
        if not len(pairs):
            return None
        pairs.sort()
        return split_pairs(pairs)

    def _posting_task(self, reached: _Reached, cuts: list[int], k: int, out: Array, done: list[int]) -> Task:
        index, coded = self.part.index, self.coded

        def task() -> None:
            done[k] = match_postings(
                cuts[k], cuts[k + 1], reached.rows, reached.attrs, reached.pairs, index.post_ptr, self.part.alive,
                index.slots, index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr,
                coded.codes, coded.counts, self.order, self.start, out,
            )  # fmt: skip

        return task
