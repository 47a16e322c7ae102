"""Clauses that search for a text in a column, and the automaton that finds all these texts in one pass.

    clause    other factors      patterns                                  patterns of a column, sorted
      0       a = 5              n contains 'foo'                driven by   'bar' -> 1       found together by
      1                          n contains 'bar', m ends 'x'    the longest 'foo' -> 0 2
      `psoup.kernels.texts.automaton`
      2       b > 3              n contains 'foo'

Such clauses are in separate parts of the usual form. So they are described, merged and removed like other clauses. The
search structure of this module joins such a part with tuples. For a pattern with inner wildcards, the automaton finds
the longest piece between wildcards. Then the whole pattern is compared. If many clauses share a pattern, it is an
ordinary attribute, which is evaluated once for all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from psoup.clauses.cheap_clauses import Stripped, strip
from psoup.clauses.index.posting_lists import Layout
from psoup.clauses.index.predicate_index import Part
from psoup.expressions.texts.like import SoughtText, sought_text
from psoup.expressions.tree import Expr
from psoup.kernels.texts.automaton import END, grow_states
from psoup.plan.factors import Factor, Interval
from psoup.values.columns import Array

LAYOUT = Layout(least=1 << 62)
"""A layout that makes no posting lists, as tuples do not probe such an index directly."""

_SHARED = 16
"""The most clauses with the same pattern that are searched. Each hit of the pattern makes a pair with each of them."""
_TRUE = (Interval(1, 2),)
_END = bytes([END])


class TextSearches:
    """Decides at registration which clauses are searched, by the number of clauses with the same patterns."""

    def __init__(self) -> None:
        self._uses: Counter[Expr] = Counter()

    def takes(self, factors: Sequence[Factor]) -> bool:
        """Whether to find a clause by its patterns. If so, counts the clause for each of them."""
        patterns = set[Expr]()
        for factor in factors:
            sought = [term for term in factor.terms if _short(term.attribute)]
            if sought and (len(factor.terms) > 1 or sought[0].intervals != _TRUE or sought[0].nulls):
                return False
            patterns.update(term.attribute for term in sought)
        if not patterns or not all(factor.terms for factor in factors):
            return False
        if any(self._uses[expr] >= _SHARED for expr in patterns):
            return False
        self._uses.update(patterns)
        return True

    def leave(self, parts: Sequence[Part], slots: Array, exprs: Mapping[int, Expr]) -> None:
        """Subtract the clauses in `slots` (int64[k]) of some parts from the counts, as the caller will remove them.
        O(k log n + their intervals)."""
        for part in parts:
            positions = part.index.find(slots)
            positions = positions[positions >= 0]
            for attribute, count in part.index.uses(positions[part.alive[positions] == 1]).items():
                expr = exprs[attribute]
                if _short(expr):
                    self._uses[expr] -= count
                    if not self._uses[expr]:
                        del self._uses[expr]


def _short(expr: Expr) -> SoughtText | None:
    pattern = sought_text(expr)
    return pattern if pattern is not None and pattern.text else None


@dataclass(frozen=True, slots=True)
class PatternSet:
    """The patterns of one column and their automaton. `psoup.kernels.texts.automaton` explains the arrays.

    `numbers`: int32[K], the numbers of the patterns in the part.
    """

    column: int
    numbers: Array
    child: Array
    label: Array
    fail: Array
    hit: Array
    parent: Array
    root: Array

    @classmethod
    def of(cls, column: int, patterns: Sequence[tuple[int, SoughtText]]) -> PatternSet:
        """Build the automaton of patterns, given with their numbers. O(bytes + K log K)."""
        ordered = sorted(
            (pattern.text + _END if pattern.at_end else pattern.text, number) for number, pattern in patterns
        )
        offsets, data = _texts([text for text, _ in ordered])
        sizes = (len(data) + 2, len(data) + 1, len(data) + 1, len(ordered), 256)
        child, fail, hit, parent, root = (np.zeros(size, np.int32) for size in sizes)
        label: Array = np.zeros(len(data) + 1, np.uint8)
        states = grow_states(offsets, data, child, label, fail, hit, parent, root)
        numbers = np.array([number for _, number in ordered], np.int32)
        child, label, fail, hit = (
            child[: states + 1].copy(),
            label[:states].copy(),
            fail[:states].copy(),
            hit[:states].copy(),
        )
        return cls(column, numbers, child, label, fail, hit, parent, root)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        states = (self.child, self.label, self.fail, self.hit)
        return sum(array.nbytes for array in (*states, self.numbers, self.parent, self.root))


@dataclass(slots=True)
class Searched:
    """The search structure of a part with S clauses and P patterns; see the module.

    `stripped`: the clauses without their patterns. `place`: int64[S], the place of a clause among the stripped ones, or
    -1. `patterns`, `pattern_ptr`: the patterns of each clause (int32) and their CSR offsets (int32[S + 1]). `driven`,
    `driven_ptr`: for each pattern, the clauses whose longest pattern it is (int32), and CSR offsets (int32[P + 1]).
    `offsets`, `data`, `ends`: the text of each pattern. `attributes`: int64[P], the IDs of the patterns. `by_column`:
    `pattern_ptr` and `patterns`, restricted to the patterns of each column. `evaluated`: int64[P], tuples that passed a
    clause's other factors, and were then tested for the pattern. `tuples`: the number of joined tuples. `searched`: the
    number of tuples that were searched for all patterns.
    """

    stripped: Stripped
    place: Array
    pattern_ptr: Array
    patterns: Array
    driven_ptr: Array
    driven: Array
    offsets: Array
    data: Array
    ends: Array
    attributes: Array
    sets: tuple[PatternSet, ...]
    by_column: Mapping[int, tuple[Array, Array]]
    evaluated: Array
    wholes: tuple[Array, Array]
    """Offsets and data of the whole patterns with wildcards. Empty for a pattern without inner wildcards."""
    tuples: int = 0
    searched: int = 0
    early: Early | None = None
    """The clauses without the factors that wait, from the latest use. None before the first use."""

    @classmethod
    def of(cls, part: Part, attributes: Mapping[int, Expr]) -> Searched:
        """Build the structure of a part whose clauses all have patterns. O(intervals + bytes of patterns)."""
        of_attributes = [_short(attributes[a]) for a in part.index.attributes.tolist()]
        has_pattern = np.array([pattern is not None for pattern in of_attributes], np.bool_)
        stripped = strip(part, has_pattern)
        present = [pattern for pattern in of_attributes if pattern is not None]
        ids = part.index.attributes[has_pattern]
        place = np.full(len(part.index), -1, np.int64)
        place[stripped.clauses] = np.arange(len(stripped.clauses))
        order = np.argsort(np.concatenate([stripped.clauses, stripped.bare]))
        sizes = np.concatenate([np.diff(stripped.waits_ptr), np.diff(stripped.bare_waits_ptr)])
        before = np.cumsum(sizes) - sizes
        pattern_ptr = _pointers(sizes[order])
        every = np.concatenate([stripped.waits, stripped.bare_waits])
        at = np.repeat(before[order] - pattern_ptr[:-1], sizes[order]) + np.arange(len(every))
        patterns = np.searchsorted(ids, every[at]).astype(np.int32)
        offsets, data = _texts([pattern.text for pattern in present])
        driver = _drivers(pattern_ptr, patterns, np.diff(offsets))
        driven = np.argsort(driver, kind="stable").astype(np.int32)
        columns = np.array([pattern.column for pattern in present], np.int64)
        numbered = [*enumerate(present)]
        by_column = {c: [pair for pair in numbered if pair[1].column == c] for c in sorted({*columns.tolist()})}
        sets = [PatternSet.of(column, pairs) for column, pairs in by_column.items()]
        return cls(
            stripped,
            place,
            pattern_ptr,
            patterns,
            _pointers(np.bincount(driver, minlength=len(present))),
            driven,
            offsets,
            data,
            np.array([pattern.at_end for pattern in present], np.uint8),
            ids,
            tuple(sets),
            {column: _of_column(pattern_ptr, patterns, columns == column) for column in by_column},
            np.zeros(len(present), np.int64),
            _texts([pattern.whole for pattern in present]),
        )

    def twin(self, part: Part) -> Searched:
        """A copy of the structure for `part`, a copy of the part. Its counters begin at 0. O(P)."""
        counters = np.zeros_like(self.evaluated)
        stripped = self.stripped.twin(part)
        return replace(self, stripped=stripped, evaluated=counters, tuples=0, searched=0, early=None)

    def twin_with(self, other: Part) -> Searched:
        """A copy with another index `other` of the same stripped clauses. Its counters begin at 0. O(S + P)."""
        return self.stripped_as(replace(self.stripped, part=other))

    def stripped_as(self, stripped: Stripped) -> Searched:
        """A copy with other stripped clauses, `stripped`, of the same part. Its counters begin at 0. O(S + P)."""
        place: Array = np.full(len(self.place), -1, np.int64)
        place[stripped.clauses] = np.arange(len(stripped.clauses))
        counters = np.zeros_like(self.evaluated)
        return replace(self, stripped=stripped, place=place, evaluated=counters, tuples=0, searched=0, early=None)

    def inherit(self, others: Sequence[Searched]) -> None:
        """Take over the counts of the parts that were merged into this part. They were joined with the same tuples.
        O(P)."""
        self.tuples = max((other.tuples for other in others), default=0)
        self.searched = max((other.searched for other in others), default=0)
        for other in others:
            _, mine, theirs = np.intersect1d(self.attributes, other.attributes, True, return_indices=True)
            self.evaluated[mine] += other.evaluated[theirs]

    def evaluations(self, attribute: int) -> tuple[int, int]:
        """The numbers of joined tuples, and of tuples tested for the pattern with this attribute ID. Returns 0, 0 for
        an attribute that is not a pattern of this part."""
        place = int(self.attributes.searchsorted(attribute))
        if place == len(self.attributes) or self.attributes[place] != attribute:
            return 0, 0
        return self.tuples, int(self.evaluated[place]) + self.searched

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        clauses = (self.place, self.pattern_ptr, self.patterns, self.driven_ptr, self.driven, self.stripped.clauses)
        patterns = (self.offsets, self.data, self.ends, self.attributes, self.evaluated)
        arrays = sum(array.nbytes for array in (*clauses, *patterns, *self.wholes))
        early = 0 if self.early is None else self.early.plan.stripped.part.index.nbytes + self.early.pointers.nbytes
        return arrays + sum(pattern_set.nbytes for pattern_set in self.sets) + self.stripped.part.index.nbytes + early


@dataclass(frozen=True, slots=True)
class Early:
    """The clauses of a part without the factors that read the attributes `flags` (bool[A]), which are computed later.

    `plan`: the search structure without these factors. `attributes`, `pointers`: the IDs of these attributes that each
    clause reads, and their CSR offsets (int32[S + 1]).
    """

    flags: Array
    plan: Searched
    pointers: Array
    attributes: Array


def _pointers(sizes: Array) -> Array:
    pointers = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=pointers[1:])
    return pointers


def _of_column(pattern_ptr: Array, patterns: Array, mine: Array) -> tuple[Array, Array]:
    """The patterns of each clause that are flagged in `mine` (bool[P]), as CSR offsets and patterns."""
    some = mine[patterns]
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(some)])
    return counted[pattern_ptr].astype(np.int32), patterns[some]


def _texts(texts: Sequence[bytes]) -> tuple[Array, Array]:
    """Byte strings as offsets and data."""
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=offsets[1:])
    return offsets, np.frombuffer(b"".join(texts), np.uint8).copy()


def _drivers(pattern_ptr: Array, patterns: Array, lengths: Array) -> Array:
    """The longest pattern of each clause: int32[S]."""
    clause = np.repeat(np.arange(len(pattern_ptr) - 1), np.diff(pattern_ptr))
    order = np.lexsort((lengths[patterns], clause))
    longest: Array = patterns[order[pattern_ptr[1:] - 1]]
    return longest
