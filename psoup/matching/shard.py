"""A shard: consecutive tuples joined with all clauses of one index, as sets.

    values --codes--> rows --reach--> cells --match lists, group--> pairs
                       |  `---> clauses of hot cells --.
                       `--count--> prefix counts --plan--> work --+--> order --> walk --> pairs
                                  clauses in no list --'          `--> bitmaps --> AND --> rows

The steps are the methods `plan`, `match` and `match_rest` of `ShardJoin`, and those of `psoup.matching.emission`. Each
is one kernel call over all tuples or all clauses, without a Python loop over either. A clause with many matches but
no row of bits gets a row, and waits for `match_rest`. This happens once for a clause and chunk. Joins of different
tuples, and shares of one join, may run in parallel: they write disjoint words and scratch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.clauses.index.predicate_index import Part
from psoup.clauses.scratch import Scratch
from psoup.config import EngineConfig
from psoup.data.values import Values
from psoup.kernels.arrive.posting_lists import match_lists, reach
from psoup.kernels.arrive.slot_runs import group_keys, keys_to_rows, name_slots, split_keys
from psoup.kernels.compile.lanes import LANES
from psoup.kernels.rows.radix_sort import order_keys
from psoup.matching.emission import Emission
from psoup.results.open import OpenResults
from psoup.results.runs import ONE_BLOCK, MatchRun, new_starts, scattered
from psoup.values.columns import Array

_NOTHING: Array = np.zeros(0, np.int32)
_ORDERED_FROM = 1_024
"""The fewest cells that are visited in the order of their lists."""
_NEAR_BYTES = 1 << 20
"""The bytes of all lists above which cells are visited in the order of their lists."""


@dataclass(slots=True)
class ShardJoin:
    """The join of `size` tuples, from offset `start` of a chunk on, with one part of the index.

    A caller that uses several shares must call `plan` before `match`. `scratches`: one for each share. `runs`: after
    `match`, the matches of clauses without a row.
    """

    part: Part
    values: Mapping[int, Values]
    start: int
    size: int
    config: EngineConfig
    scratches: Sequence[Scratch]
    runs: list[MatchRun] = field(default_factory=list)
    emission: Emission | None = None
    """The clauses that are tested one by one, set by `plan`."""
    reached: _Reached | None = None
    """The lists that `match` tests, set by `plan`."""
    _codes: Array = field(default_factory=lambda: _NOTHING)

    @property
    def limit(self) -> int:
        """The most tuples that are tested one by one for a clause, and the most pairs of any other clause."""
        return max(self.size // self.config.dense_share, min(self.size, self.config.sparse_floor))

    def encode(self) -> None:
        """Find the codes of all values except texts. Must be called before `plan` and `match`.

        It takes some microseconds for an attribute. Parallel threads would only wait for the interpreter lock.
        """
        shape = len(self.part.index.bounds), self.size
        self._codes = self.scratches[0].get("codes", shape, np.int32)
        self._encode(texts=False)

    def _encode(self, *, texts: bool) -> None:
        for local, attribute, bounds, base in self.part.reads(texts=texts):
            bounds.encode(self.values[attribute], base, self._codes[local])

    def plan(self, results: OpenResults) -> None:
        """Choose the lists to test and the clauses to test one by one. `encode` must be called before."""
        self._encode(texts=True)
        codes, limit = self._codes, self.limit
        self.reached = _reach(self.part, codes, limit, self.scratches[0])
        if len(candidates := self.reached.candidates):
            sizes = self.start, limit, self.config
            self.emission = Emission(self.part, codes, candidates, *sizes, results, self.scratches)

    def match(self, results: OpenResults, share: int = 0) -> None:
        """Find the matches of a share of the clauses. The first share also tests all lists.

        Matches of slots with a row are written to the row, others go to `runs`.
        """
        if self.reached is None:
            self.plan(results)
        assert self.reached is not None
        if self.emission is not None and (run := self.emission.emit(results, share)) is not None:
            self.runs.append(run)
        if not share and len(self.reached.tuples):
            self._match_lists(self._codes, self.reached, results)

    def needs(self) -> Array:
        """The slots whose matches `match` left out because they need a row.

        If there are any, the caller must give them rows and call `match_rest`.
        """
        return _NOTHING if self.emission is None else self.emission.needs()

    def match_rest(self, results: OpenResults, share: int = 0) -> None:
        """Write the matches that `match` left out to the rows that their slots have now."""
        if self.emission is not None:
            self.emission.emit_rest(results, share)

    def _match_lists(self, codes: Array, reached: _Reached, results: OpenResults) -> None:
        """Test the lists and group their matches, in portions that fit into the second-level cache."""
        part, index, lists = self.part, self.part.index, self.part.index.lists
        bits = max(1, (self.size - 1).bit_length())
        wide = int(index.slots[-1]) + 1 << bits > 1 << 32
        kind = np.uint64 if wide else np.uint32
        out = self.scratches[0].get("wide" if wide else "narrow", reached.tests + LANES, kind)
        cells = (lists.cell_ptr, lists.group_ptr, lists.group_kind, lists.kind_flags, lists.entries)
        tests = (lists.group_test, lists.kind_ptr, lists.kind_attr, lists.tests)
        clauses = (index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr)
        count = match_lists(reached.tuples, reached.cells, cells, tests, index.base, codes, clauses, bits, out)
        alive = part.alive if part.live < len(index) else part.alive[:0]
        if results.rows.size:
            rows = results.row_of_slot, results.rows
            count = keys_to_rows(out[:count], bits, self.start, alive, index.slots, *rows)
        first = int(index.slots[0])
        if len(alive) or int(index.slots[-1]) - first >= len(index):
            count, first = name_slots(out[:count], bits, alive, index.slots), 0
        if not count:
            return
        slots, offsets = np.empty(count, np.uint32), np.empty(count, np.uint16)
        if not results.grouped:
            split_keys(out[:count], bits, self.start, first, slots, offsets)
            self.runs.append(scattered(slots, offsets))
            return
        starts, size = new_starts(-(-count // ONE_BLOCK)), min(count, ONE_BLOCK)
        block = self.scratches[0].get("wide_block" if wide else "narrow_block", size, kind)
        group_keys(out[:count], bits, self.start, first, starts, block, slots, offsets)
        self.runs.append(MatchRun(slots, offsets, starts))


@dataclass(frozen=True, slots=True)
class _Reached:
    """The clauses to plan, and the posting lists to test; see `psoup.kernels.arrive.posting_lists`."""

    candidates: Array
    tuples: Array
    cells: Array
    tests: int


def _reach(part: Part, codes: Array, limit: int, scratch: Scratch) -> _Reached:
    index, lists = part.index, part.index.lists
    if not len(lists):
        return _Reached(index.rest, _NOTHING, _NOTHING, 0)
    size_limit = len(lists.grid_attr) * codes.shape[1]
    seen, candidates = scratch.zeros("seen", len(lists.cell_ptr)), scratch.get("candidates", len(index), np.int32)
    tuples, cells = scratch.get("tuples", size_limit, np.int32), scratch.get("cells", size_limit, np.int32)
    grids = (lists.grid_attr, lists.grid_shift, lists.grid_first)
    groups = (lists.cell_ptr, lists.group_ptr, lists.group_kind, lists.kind_flags, lists.entries)
    size, reached, tests = reach(codes, index.base, grids, groups, limit, seen, candidates, tuples, cells)
    looked_at, tuples, cells = index.rest, tuples[:reached], cells[:reached]
    if size:  # in the order of the index, as the candidates of a cell are scattered in it
        every = np.concatenate([index.rest, candidates[:size]])
        looked_at = every[_order_of(every, scratch)]
    if reached >= _ORDERED_FROM and lists.alone and lists.listed_bytes > _NEAR_BYTES:
        order = _order_of(cells, scratch)
        tuples, cells = tuples[order], cells[order]
    return _Reached(looked_at, tuples, cells, tests)


def _order_of(keys: Array, scratch: Scratch) -> Array:
    """The positions that sort `keys` (int32) in ascending order. The array is valid until the next call."""
    order = scratch.get("order_of", len(keys), np.int64)
    order_keys(keys, order, scratch.get("order_spare", len(keys), np.int64))
    return order
