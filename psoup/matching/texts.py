"""A piece joined with clauses that look for texts in columns: by their other factors first, or by their texts.

    a = 5 AND n LIKE '%foo%'      few tuples pass a = 5      those tuples ──> is 'foo' in n?
    a > 5 AND n LIKE '%foo%'      many do                    the column, for all patterns at once ──> hits (tuple,
    n LIKE '%bar%'                there is nothing else      pattern) ──> (tuple, clause) ──> do the others hold?
    n LIKE '%b_ar%baz%'           the longest piece is looked for, and the whole compared where it was found

Which way a clause goes is decided anew for each piece, by how many tuples pass its other factors. Each step is a call
of a kernel, or of NumPy, over all pairs; hits are taken so many at a time that they fit in some megabytes, whatever
matches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from psoup.clauses.index.clause_rows import gather
from psoup.clauses.sides import Side
from psoup.clauses.text_search import PatternSet, Searched
from psoup.columns import Array
from psoup.data.data_stem import Piece
from psoup.data.values import Values, values_of
from psoup.expressions.like import matching, sought_text
from psoup.expressions.text import small_letters
from psoup.kernels.automaton import search_texts
from psoup.kernels.patterns import hit_clauses, keep_factors, keep_likes, keep_texts
from psoup.kernels.rows import set_bits
from psoup.matching.survivors import candidates
from psoup.results.open import OpenResults
from psoup.results.runs import grouped

_HITS = 1 << 16
"""Hits that are taken at a time, and as many as there are patterns on top."""
_ROW_SHARE = 8
"""A clause that matches more than 1 in so many of the tuples taken at a time has a row of bits from then on."""
_SEARCH_COST = 16
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
            Join(side, number, plan, values, piece, results).run()


class Join:
    """The join of a piece with one part; counters of the plan count what was done."""

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
        """Write what matches."""
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
            self._search(wanted)

    def _dear(self, pairs: Sequence[tuple[Array, Array]]) -> bool:
        """Whether to look at the texts of these pairs takes longer than to search all texts for all patterns."""
        count, looked, searched = sum(len(tuples) for _, tuples in pairs), 0, 0
        for patterns in self._plan.sets if count else ():
            offsets = self._text(patterns.column).offsets
            assert offsets is not None, "a text has offsets"
            sizes: Array = np.diff(offsets)
            cost = _SEARCH_COST * (int(sizes.sum()) + len(patterns.numbers))
            if count * int(sizes.max()) > cost:  # else less for sure
                looked += sum([int(sizes[tuples].sum()) for _, tuples in pairs])
            searched += cost
        return looked > searched

    def _search(self, wanted: Array) -> None:
        """The clauses `wanted` (uint8[S]) all of whose patterns are found in a text, so many texts at a time."""
        plan, rows, done = self._plan, len(self._piece), 0
        finders = [_Finder(patterns, self._text(patterns.column)) for patterns in plan.sets]
        seen: Array = np.zeros(len(plan.ends), np.int32)
        while done < rows:
            done = min(finder.searched(done) for finder in finders)
            tuples, found = _hits([finder.before(done) for finder in finders])
            room = int((plan.driven_ptr[found + 1] - plan.driven_ptr[found]).sum())
            clauses, pairs = np.empty(room, np.int64), np.empty(room, np.int64)
            count = hit_clauses(
                tuples, found, plan.driven_ptr, plan.driven, plan.pattern_ptr, plan.patterns, wanted, seen,
                clauses, pairs,
            )  # fmt: skip
            self._keep(clauses[:count], pairs[:count], hits=True)

    def _keep(self, clauses: Array, tuples: Array, *, hits: bool) -> None:
        """Write those pairs (int64[k], by tuple for each clause) that match. Their tuples have all patterns of the
        clause (`hits`), or else pass its other factors."""
        if not len(clauses):
            return
        plan, keep = self._plan, np.ones(len(clauses), np.uint8)
        if self._side.costs is not None:
            self._side.costs.looked(plan.stripped.whole.index.slots[clauses])
        if hits:
            self._factors(plan.place[clauses], tuples, keep)
        else:
            _, at = gather(plan.pattern_ptr, clauses)
            plan.evaluated += np.bincount(plan.patterns[at], minlength=len(plan.evaluated))
            for patterns in plan.sets:
                self._patterns(patterns.column, clauses, tuples, keep)
        if len(plan.wholes[1]):
            self._wholes(clauses, tuples, keep)
        kept = keep == 1
        self._found(clauses[kept], tuples[kept])

    def _found(self, clauses: Array, tuples: Array) -> None:
        """Take pairs that match."""
        self._write(self._plan.stripped.whole.index.slots[clauses], tuples)

    def _patterns(self, column: int, clauses: Array, tuples: Array, keep: Array) -> None:
        """Keep the pairs whose tuples have all patterns of a column."""
        plan, texts = self._plan, self._text(column)
        pointers, patterns = plan.by_column[column]
        keep_texts(
            clauses, tuples, texts.offsets, texts.data, pointers, patterns, plan.offsets, plan.data, plan.ends, keep
        )

    def _wholes(self, clauses: Array, tuples: Array, keep: Array) -> None:
        """Keep the pairs whose tuples match the whole patterns of which pieces were found."""
        plan = self._plan
        for patterns in plan.sets:
            texts, own = self._text(patterns.column), plan.by_column[patterns.column]
            keep_likes(clauses, tuples, texts.offsets, texts.data, *own, *plan.wholes, keep)
        left = np.flatnonzero(keep == 2)
        keep[left] = 1
        if not len(left):
            return
        pointers, at = gather(plan.pattern_ptr, clauses[left])
        numbers, pairs = plan.patterns[at], np.repeat(left, np.diff(pointers))
        order = numbers.argsort(kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        for some in np.split(order, cuts):
            self._evaluated(int(numbers[some[0]]), tuples, pairs[some], keep)

    def _evaluated(self, number: int, tuples: Array, pairs: Array, keep: Array) -> None:
        """Keep those of some pairs whose texts match a pattern; for what a kernel takes long to tell."""
        attribute = int(self._plan.attributes[number])
        sought = sought_text(self._side.attributes[attribute])
        if sought is None or not sought.whole:
            return
        texts = self._text(sought.column).take(tuples[pairs])
        buffers = [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)]
        whole = pa.Array.from_buffers(pa.large_string(), len(pairs), buffers)
        keep[pairs[~matching(whole, self._side.attributes[attribute])]] = 0

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
            columns, most = self._piece.columns, self._side.config.texts.value
            texts = columns[column] if column >= 0 else small_letters(columns[~column], most)
            known = self._texts[column] = values_of(texts)
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


class _Finder:
    """The hits of the patterns of one column, so many texts at a time, in the order of the texts."""

    def __init__(self, patterns: PatternSet, texts: Values) -> None:
        self._patterns, self._texts = patterns, texts
        size = _HITS + len(patterns.numbers)
        self._room = np.empty(size, np.int32), np.empty(size, np.int32)
        self._seen: Array = np.zeros(len(patterns.numbers), np.int32)
        self._tuples, self._found = self._room[0][:0], self._room[1][:0]
        self._next = 0

    def searched(self, done: int) -> int:
        """The text up to which hits are known, after `done`, up to which they have been taken."""
        if self._next == done:
            own, texts = self._patterns, self._texts
            self._next, count = search_texts(
                texts.offsets, texts.data, done, own.child, own.label, own.fail, own.hit, own.parent, own.root,
                self._seen, *self._room,
            )  # fmt: skip
            self._tuples, self._found = self._room[0][:count], own.numbers[self._room[1][:count]]
        return self._next

    def before(self, stop: int) -> tuple[Array, Array]:
        """Take the hits before text `stop`: tuples, and numbers of patterns (int32)."""
        count = int(self._tuples.searchsorted(stop))
        tuples, found = self._tuples[:count], self._found[:count]
        self._tuples, self._found = self._tuples[count:], self._found[count:]
        return tuples, found


def _hits(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The hits of all columns, those of a tuple together."""
    if len(parts) == 1:
        return parts[0]
    tuples, found = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = tuples.argsort(kind="stable")
    return tuples[order], found[order]
