"""The join of a piece with clauses that search texts in columns: by their other factors first, or by their texts.

    a = 5 AND n LIKE '%foo%'      few tuples pass a = 5      those tuples ──> is 'foo' in n?
    a > 5 AND n LIKE '%foo%'      many do                    the column, for all patterns at once ──> hits (tuple,
    n LIKE '%bar%'                there is nothing else      pattern) ──> (tuple, clause) ──> do the others hold?
    n LIKE '%b_ar%baz%'           the longest piece is looked for, and the whole compared where it was found

For each piece, the number of tuples that pass the other factors decides between the two ways. Each step is one call of
a kernel, or of NumPy, over all pairs. Hits are processed in portions of some megabytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from psoup.clauses.index.clause_rows import gather
from psoup.clauses.sides import Side
from psoup.clauses.text_search import PatternSet, Searched
from psoup.data.data_stem import Piece
from psoup.data.values import Values, values_of
from psoup.expressions.texts.like import matching, sought_text
from psoup.expressions.texts.text import small_letters
from psoup.kernels.rows.bit_blocks import set_bits
from psoup.kernels.texts.automaton import search_texts
from psoup.kernels.texts.patterns import hit_clauses, keep_factors, keep_likes, keep_texts
from psoup.matching.survivors import candidates
from psoup.results.open import OpenResults
from psoup.results.runs import grouped
from psoup.values.columns import Array

_HITS = 1 << 16
"""The most hits of a portion, to which one for each pattern is added."""
_ROW_SHARE = 8
"""A clause that matches more than 1 in this many tuples of a portion gets a row of bits."""
_SEARCH_COST = 16
"""The cost of searching one byte for all patterns. The unit is the comparison of one byte with one pattern."""
_FIRST = 1_000
"""The first scratch number of these joins. It is above the numbers of all parts of the index."""


def attributes_read(side: Side) -> set[int]:
    """The attributes that clauses with text patterns read in their other factors."""
    return {a for _, plan in side.searched for a in plan.stripped.part.index.attributes.tolist()}


def join_texts(side: Side, values: Mapping[int, Values], piece: Piece, results: OpenResults) -> None:
    """Join the piece with all clauses that search texts. `values`: the values of the attributes in other factors."""
    for number, (part, plan) in enumerate(side.searched):
        if part.live:
            TextJoin(side, number, plan, values, piece, results).run()


class TextJoin:
    """The join of a piece with one part of the index. It also counts its work in the plan."""

    def __init__(
        self,
        side: Side,
        number: int,
        plan: Searched,
        values: Mapping[int, Values],
        piece: Piece,
        results: OpenResults,
    ) -> None:
        self._side = side
        self._number = number
        self._plan = plan
        self._values = values
        self._piece = piece
        self._results = results
        self._texts: dict[int, Values] = {}

    def run(self) -> None:
        """Find and write all matches."""
        plan, stripped = self._plan, self._plan.stripped
        stripped.renew()
        plan.tuples += len(self._piece)
        wanted: Array = np.zeros(len(plan.place), np.uint8)
        wanted[stripped.bare] = stripped.whole.alive[stripped.bare]
        if stripped.part.live:
            survivors = candidates(self._side, _FIRST + self._number, stripped.part, self._values, len(self._piece))
            pairs = [(stripped.clauses[run.slots], run.offsets.astype(np.int64)) for run in survivors.runs]
            dear = self._dear(pairs)
            for clauses, tuples in pairs:
                if dear:
                    wanted[clauses] = 1
                else:
                    self._keep(clauses, tuples, hits=False)
            wanted[stripped.clauses[survivors.many]] = 1
        if wanted.any():
            plan.searched += len(self._piece)
            self._search(wanted)

    def _dear(self, pairs: Sequence[tuple[Array, Array]]) -> bool:
        """Whether testing the texts of these pairs costs more than searching all texts for all patterns."""
        count, looked, searched = sum(len(tuples) for _, tuples in pairs), 0, 0
        for patterns in self._plan.sets if count else ():
            offsets = self._text(patterns.column).offsets
            assert offsets is not None, "a text has offsets"
            sizes: Array = np.diff(offsets)
            cost = _SEARCH_COST * (int(sizes.sum()) + len(patterns.numbers))
            if count * int(sizes.max()) > cost:  # otherwise it is cheaper for sure
                looked += sum([int(sizes[tuples].sum()) for _, tuples in pairs])
            searched += cost
        return looked > searched

    def _search(self, wanted: Array) -> None:
        """Find the tuples that contain all patterns of a clause, and write the matches.

        `wanted`: uint8[S], flags of the clauses. The search takes some texts at a time.
        """
        plan, rows, done = self._plan, len(self._piece), 0
        finders = [_Finder(patterns, self._text(patterns.column)) for patterns in plan.sets]
        seen: Array = np.zeros(len(plan.ends), np.int32)
        while done < rows:
            done = min(finder.searched(done) for finder in finders)
            tuples, numbers = _hits([finder.before(done) for finder in finders])
            room = int((plan.driven_ptr[numbers + 1] - plan.driven_ptr[numbers]).sum())
            clauses, pairs = np.empty(room, np.int64), np.empty(room, np.int64)
            count = hit_clauses(
                tuples, numbers, plan.driven_ptr, plan.driven, plan.pattern_ptr, plan.patterns, wanted, seen,
                clauses, pairs,
            )  # fmt: skip
            self._keep(clauses[:count], pairs[:count], hits=True)

    def _keep(self, clauses: Array, tuples: Array, *, hits: bool) -> None:
        """Write the matching pairs among pairs (int64[k], by tuple for each clause).

        With `hits`, the tuples contain all patterns of the clause. Without, they pass its other factors.
        """
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
        matching_pairs = keep == 1
        self._found(clauses[matching_pairs], tuples[matching_pairs])

    def _found(self, clauses: Array, tuples: Array) -> None:
        """Write pairs that match. Subclasses may use them otherwise."""
        self._write(self._plan.stripped.whole.index.slots[clauses], tuples)

    def _patterns(self, column: int, clauses: Array, tuples: Array, keep: Array) -> None:
        """Clear the flags of pairs whose tuples lack a pattern of a column."""
        plan, texts = self._plan, self._text(column)
        pointers, patterns = plan.by_column[column]
        keep_texts(
            clauses, tuples, texts.offsets, texts.data, pointers, patterns, plan.offsets, plan.data, plan.ends, keep
        )

    def _wholes(self, clauses: Array, tuples: Array, keep: Array) -> None:
        """Clear the flags of pairs whose tuples contain a pattern's longest piece but do not match the whole
        pattern."""
        plan = self._plan
        for patterns in plan.sets:
            texts, column_patterns = self._text(patterns.column), plan.by_column[patterns.column]
            keep_likes(clauses, tuples, texts.offsets, texts.data, *column_patterns, *plan.wholes, keep)
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
        """Clear the flags of pairs whose texts do not match a pattern that is too slow for a kernel."""
        attribute = int(self._plan.attributes[number])
        sought = sought_text(self._side.attributes[attribute])
        if sought is None or not sought.whole:
            return
        texts = self._text(sought.column).take(tuples[pairs])
        buffers = [None, pa.py_buffer(texts.offsets), pa.py_buffer(texts.data)]
        whole = pa.Array.from_buffers(pa.large_string(), len(pairs), buffers)
        keep[pairs[~matching(whole, self._side.attributes[attribute])]] = 0

    def _factors(self, places: Array, tuples: Array, keep: Array) -> None:
        """Clear the flags of pairs whose tuples fail the other factors of the clause.

        `places`: the positions of the stripped clauses; -1 for a clause without other factors.
        """
        part = self._plan.stripped.part
        if not (places >= 0).any():
            return
        index, rows = part.index, len(self._piece)
        codes = self._side.scratch.of(-1, _FIRST + self._number).get("pair_codes", (len(index.bounds), rows), np.int32)
        for local, attribute in enumerate(index.attributes.tolist()):
            index.bounds[local].encode(self._values[attribute], int(index.base[local]), codes[local])
        arrays = (index.clause_ptr, index.factor_ptr, index.iv_lo, index.iv_hi, index.iv_attr)
        keep_factors(places, tuples, arrays, codes, keep)

    def _text(self, column: int) -> Values:
        values = self._texts.get(column)
        if values is None:
            columns, value_limit = self._piece.columns, self._side.config.texts.value
            texts = columns[column] if column >= 0 else small_letters(columns[~column], value_limit)
            values = self._texts[column] = values_of(texts)
        return values

    def _write(self, slots: Array, tuples: Array) -> None:
        """Write matches: to the slot's row, or as a run. Tuples of a slot ascend, and follow its earlier ones."""
        if not len(slots):
            return
        results, offsets = self._results, (tuples + self._piece.start).astype(np.uint16)
        rows = int(tuples.max()) - int(tuples.min()) + 1
        if len(slots) * _ROW_SHARE > rows > _ROW_SHARE:
            results.ensure_rows(np.flatnonzero(np.bincount(slots) * _ROW_SHARE > rows))
        row = results.row_of_slot[slots].astype(np.int64)
        has_row = row >= 0
        if has_row.any():
            set_bits(results.rows, row[has_row], offsets[has_row])
            slots, offsets = slots[~has_row], offsets[~has_row]
        results.append_run(grouped(slots, offsets))


class _Finder:
    """The hits of the patterns of one column, some texts at a time, in the order of the texts."""

    def __init__(self, patterns: PatternSet, texts: Values) -> None:
        self._patterns = patterns
        self._texts = texts
        size = _HITS + len(patterns.numbers)
        self._room = np.empty(size, np.int32), np.empty(size, np.int32)
        self._seen: Array = np.zeros(len(patterns.numbers), np.int32)
        self._tuples = self._room[0][:0]
        self._found = self._room[1][:0]
        self._next = 0

    def searched(self, done: int) -> int:
        """Search further texts if all known hits are taken. Returns the number of texts that have been searched.

        `done`: the number of texts whose hits the caller has taken.
        """
        if self._next == done:
            patterns, texts = self._patterns, self._texts
            self._next, count = search_texts(
                texts.offsets, texts.data, done, patterns.child, patterns.label, patterns.fail, patterns.hit,
                patterns.parent, patterns.root,
                self._seen, *self._room,
            )  # fmt: skip
            self._tuples = self._room[0][:count]
            self._found = patterns.numbers[self._room[1][:count]]
        return self._next

    def before(self, stop: int) -> tuple[Array, Array]:
        """Remove and return the hits in texts before `stop`: tuples, and numbers of patterns (int32)."""
        count = int(self._tuples.searchsorted(stop))
        tuples, numbers = self._tuples[:count], self._found[:count]
        self._tuples = self._tuples[count:]
        self._found = self._found[count:]
        return tuples, numbers


def _hits(parts: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    """The hits of all columns, ordered by tuple."""
    if len(parts) == 1:
        return parts[0]
    tuples, numbers = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = tuples.argsort(kind="stable")
    return tuples[order], numbers[order]
