"""A piece joined with clauses that look for texts in columns: by their other factors first, or by their texts.

    a = 5 AND n LIKE '%foo%'      few tuples pass a = 5      those tuples ──> is 'foo' in n?
    a > 5 AND n LIKE '%foo%'      many do                    the column, for all patterns at once ──> hits (tuple,
    n LIKE '%bar%'                there is nothing else      pattern) ──> (tuple, clause) ──> do the others hold?

Which way a clause goes is decided anew for each piece, by how many tuples pass its other factors. Each step is a call
of a kernel, or of NumPy, over all pairs; hits are taken so many at a time that they fit in some megabytes, whatever
matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from psoup.clauses.rows import gather
from psoup.clauses.searched import PatternSet, Searched
from psoup.clauses.sides import Side
from psoup.columns import Array
from psoup.data.data_stem import Piece
from psoup.data.values import Values, values_of
from psoup.expressions.like import PlainPattern
from psoup.kernels.patterns import keep_factors, keep_texts, search_texts
from psoup.kernels.rows import set_bits
from psoup.matching.survivors import candidates
from psoup.results.open import OpenResults
from psoup.results.runs import grouped

_HITS = 1 << 16
"""Hits that are taken at a time, and as many as there are patterns on top."""
_ROW_SHARE = 8
"""A clause that matches more than 1 in so many of the tuples taken at a time has a row of bits from then on."""
_SEARCH_COST = 64
"""Bytes of a text that are looked at for one pattern while one byte is searched for all."""
_FIRST = 1_000
"""The scratch of these joins: after that of as many parts of the index."""


def attributes_read(side: Side) -> set[int]:
    """The attributes that must be computed for the clauses that are searched for: all but their patterns."""
    return {a for _, plan in side.searched for a in plan.stripped.part.index.attributes.tolist()}


def join_texts(side: Side, values: Mapping[int, Values], piece: Piece, results: OpenResults) -> None:
    """Join the piece with all clauses that look for texts; `values`: of the attributes that they read besides."""
    for number, (part, plan) in enumerate(side.searched):
        if part.live:
            _Join(side, number, plan, values, piece, results).run()


class _Join:
    def __init__(
        self,
        side: Side,
        number: int,
        plan: Searched,
        values: Mapping[int, Values],
        piece: Piece,
        results: OpenResults,
    ) -> None:
        self._side, self._number, self._plan, self._values = side, number, plan, values
        self._piece, self._results = piece, results
        self._texts: dict[int, Values] = {}

    def run(self) -> None:
        plan, stripped = self._plan, self._plan.stripped
        stripped.renew()
        plan.tuples += len(self._piece)
        wanted: Array = np.zeros(len(plan.place), np.uint8)
        wanted[stripped.bare] = stripped.whole.alive[stripped.bare]
        if stripped.part.live:
            found = candidates(self._side, _FIRST + self._number, stripped.part, self._values, len(self._piece))
            pairs = [(stripped.clauses[run.slots], run.offsets.astype(np.int64)) for run in found.runs]
            dear = self._dear(pairs)
            for clauses, tuples in pairs:
                if dear:
                    wanted[clauses] = 1
                else:
                    self._keep(clauses, tuples, hits=False)
            wanted[stripped.clauses[found.many]] = 1
        if wanted.any():
            plan.searched += len(self._piece)
            for patterns in plan.sets:
                self._search(patterns, wanted)

    def _dear(self, pairs: Sequence[tuple[Array, Array]]) -> bool:
        """Whether to look at the texts of these pairs takes longer than to search all texts for all patterns."""
        count, looked, searched = sum(len(tuples) for _, tuples in pairs), 0, 0
        for patterns in self._plan.sets if count else ():
            offsets = self._text(patterns.column).offsets
            assert offsets is not None, "a text has offsets"
            sizes: Array = np.diff(offsets)
            cost = _SEARCH_COST * (int(sizes.sum()) + len(patterns.keys))
            if count * int(sizes.max()) > cost:  # else less for sure
                looked += sum([int(sizes[tuples].sum()) for _, tuples in pairs])
            searched += cost
        return looked > searched

    def _search(self, patterns: PatternSet, wanted: Array) -> None:
        """The clauses `wanted` (uint8[S]) that are driven by a pattern of a column."""
        plan, texts, rows = self._plan, self._text(patterns.column), len(self._piece)
        size = _HITS + len(patterns.keys)
        tuples, hits = np.empty(size, np.int32), np.empty(size, np.int32)
        seen, first = np.zeros(len(patterns.keys), np.int32), 0
        while first < rows:
            first, found = search_texts(
                texts.offsets, texts.data, first, patterns.offsets, patterns.data, patterns.keys, patterns.ends,
                patterns.parent, patterns.jump, patterns.starts, patterns.flags, patterns.bits, seen, tuples, hits,
            )  # fmt: skip
            pointers, places = gather(plan.driven_ptr, patterns.numbers[hits[:found]].astype(np.int64))
            clauses = plan.driven[places].astype(np.int64)
            pairs = np.repeat(tuples[:found].astype(np.int64), np.diff(pointers))
            some = wanted[clauses] == 1
            self._keep(clauses[some], pairs[some], hits=True)

    def _keep(self, clauses: Array, tuples: Array, *, hits: bool) -> None:
        """Write those pairs (int64[k], by tuple for each clause) that match. They are hits of the pattern that drives a
        clause, or else tuples that pass its other factors."""
        if not len(clauses):
            return
        plan, keep = self._plan, np.ones(len(clauses), np.uint8)
        slots = plan.stripped.whole.index.slots[clauses]
        if self._side.costs is not None:
            self._side.costs.looked(slots)
        if hits:
            self._factors(plan.place[clauses], tuples, keep)
            keep &= self._all_patterns(clauses, tuples, plan.several[clauses])
        else:
            _, at = gather(plan.pattern_ptr, clauses)
            plan.evaluated += np.bincount(plan.patterns[at], minlength=len(plan.evaluated))
            keep = self._all_patterns(clauses, tuples, keep)
        kept = keep == 1
        self._write(slots[kept], tuples[kept])

    def _all_patterns(self, clauses: Array, tuples: Array, asked: Array) -> Array:
        """uint8[k]: which pairs have all patterns of their clause; those that are not `asked` (uint8[k]) have."""
        found, some = np.ones(len(clauses), np.uint8), np.flatnonzero(asked)
        if len(some):
            own = np.ones(len(some), np.uint8)
            for patterns in self._plan.sets:
                self._patterns(patterns.column, clauses[some], tuples[some], own)
            found[some] = own
        return found

    def _patterns(self, column: int, clauses: Array, tuples: Array, keep: Array) -> None:
        """Keep the pairs whose tuples have all patterns of a column."""
        plan, texts = self._plan, self._text(column)
        pointers, patterns = plan.by_column[column]
        keep_texts(
            clauses, tuples, texts.offsets, texts.data, pointers, patterns, plan.offsets, plan.data, plan.ends, keep
        )

    def _factors(self, places: Array, tuples: Array, keep: Array) -> None:
        """Keep the pairs whose tuples pass the factors of the stripped clause at `places` (-1: it has none)."""
        part = self._plan.stripped.part
        if not (places >= 0).any():
            return
        index, rows = part.index, len(self._piece)
        codes = self._side.scratch.of(-1, _FIRST + self._number).get("pair_codes", (len(index.bounds), rows), np.int32)
        for local, attribute in enumerate(index.attributes.tolist()):
            index.bounds[local].encode(self._values[attribute], int(index.base[local]), codes[local])
        arrays = (index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr)
        keep_factors(places, tuples, *arrays, codes, keep)

    def _text(self, column: int) -> Values:
        known = self._texts.get(column)
        if known is None:
            known = self._texts[column] = values_of(self._piece.columns[column])
        return known

    def _write(self, slots: Array, tuples: Array) -> None:
        """Matches, the tuples of a slot ascending and after all that it has: to its row, or as a run."""
        if not len(slots):
            return
        results, offsets = self._results, (tuples + self._piece.start).astype(np.uint16)
        rows = int(tuples.max()) - int(tuples.min()) + 1
        if len(slots) * _ROW_SHARE > rows > _ROW_SHARE:
            results.ensure_rows(np.flatnonzero(np.bincount(slots) * _ROW_SHARE > rows))
        row = results.row_of_slot[slots].astype(np.int64)
        there = row >= 0
        if there.any():
            set_bits(results.rows, row[there], offsets[there])
            slots, offsets = slots[~there], offsets[~there]
        results.append_run(grouped(slots, offsets))


def compile_searches() -> None:
    """Compile the kernels, so that the first search for texts does not wait for it."""
    patterns = [(0, PlainPattern(0, b"ab", False)), (1, PlainPattern(0, b"b", True))]
    sets, none, ints, bytes_ = (
        PatternSet.of(0, patterns),
        np.zeros(0, np.int64),
        np.zeros(2, np.int32),
        np.ones(2, np.uint8),
    )
    offsets, data = np.array([0, 2]), np.zeros(2, np.uint8)
    search_texts(
        offsets, data, 0, sets.offsets, sets.data, sets.keys, sets.ends, sets.parent, sets.jump, sets.starts,
        sets.flags, sets.bits, ints.copy(), ints.copy(), ints.copy(),
    )  # fmt: skip
    keep_texts(none, none, offsets, data, ints, ints, sets.offsets, sets.data, sets.ends, bytes_)
    keep_factors(none, none, ints, ints, ints, ints, ints, ints.reshape(1, 2), bytes_)
