"""Clauses that look for a text in a column, and what finds these texts together.

    clause    other factors      patterns                                  patterns of a column, sorted
      0       a = 5              n contains 'foo'                driven by   'bar' -> 1       arrays of
      1                          n contains 'bar', m ends 'x'    the longest 'foo' -> 0 2     `psoup.kernels.patterns`
      2       b > 3              n contains 'foo'

Such clauses are in parts of their own, of the same form as all others, so that they are described, merged and removed
as these are; a part of them is not joined with tuples as an index is, but through what is made of it here. A pattern
that many clauses share is an attribute like any other: it is evaluated once, and its matches are bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from psoup.clauses.posting_lists import Layout
from psoup.clauses.predicate_index import Part
from psoup.clauses.stripped import Stripped, strip
from psoup.columns import Array
from psoup.expressions.like import PlainPattern, plain_pattern
from psoup.expressions.tree import Expr
from psoup.kernels.codes import prefix_keys
from psoup.kernels.patterns import filter_patterns, link_patterns
from psoup.plan.factors import Factor, Interval

LAYOUT = Layout(least=1 << 62)
"""No lists: the index of such clauses is never joined with tuples as a whole."""

_SHARED = 16
"""Clauses that may have the same pattern: each hit of it is a pair with each of them."""
_LONGEST = 64
"""Bytes of a pattern, at most: a text may be compared with so many at each place."""
_TRUE = (Interval(1, 2),)
_TABLE, _FILTER = 65_536, 1 << 17


class Routes:
    """Which clauses are searched for: decided when they come, by how many have the same patterns by then."""

    def __init__(self) -> None:
        self._uses: Counter[Expr] = Counter()

    def takes(self, factors: Sequence[Factor]) -> bool:
        """Whether a clause is to be found by its patterns; it is counted if it is."""
        found = set[Expr]()
        for factor in factors:
            sought = [term for term in factor.terms if _short(term.attribute)]
            if sought and (len(factor.terms) > 1 or sought[0].intervals != _TRUE or sought[0].nulls):
                return False
            found.update(term.attribute for term in sought)
        if not found or not all(factor.terms for factor in factors):
            return False
        if any(self._uses[expr] >= _SHARED for expr in found):
            return False
        self._uses.update(found)
        return True

    def leaves(self, factors: Sequence[Factor]) -> None:
        """A clause that was taken is gone."""
        for expr in {term.attribute for factor in factors for term in factor.terms if _short(term.attribute)}:
            self._uses[expr] -= 1
            if not self._uses[expr]:
                del self._uses[expr]


def _short(expr: Expr) -> PlainPattern | None:
    pattern = plain_pattern(expr)
    return pattern if pattern is not None and 0 < len(pattern.text) <= _LONGEST else None


@dataclass(frozen=True, slots=True)
class PatternSet:
    """The patterns of one column, in order; see `psoup.kernels.patterns`. `numbers`: int32[K], which of the part's
    patterns each is."""

    column: int
    numbers: Array
    offsets: Array
    data: Array
    keys: Array
    ends: Array
    parent: Array
    jump: Array
    starts: Array
    flags: Array
    bits: Array

    @classmethod
    def of(cls, column: int, patterns: Sequence[tuple[int, PlainPattern]]) -> PatternSet:
        """Patterns with their numbers. O(bytes + K log K)."""
        ordered = sorted(patterns, key=lambda own: (own[1].text, own[1].at_end))
        offsets, data = _texts([pattern.text for _, pattern in ordered])
        size = len(ordered)
        keys, parent, jump = np.empty(size, np.uint64), np.empty(size, np.int32), np.empty(size, np.int32)
        prefix_keys(offsets, data, keys)
        link_patterns(offsets, data, parent, jump)
        starts, flags, bits = np.empty(_TABLE + 1, np.int32), np.zeros(_TABLE, np.uint8), np.zeros(_FILTER, np.uint8)
        filter_patterns(offsets, data, keys, starts, flags, bits)
        numbers = np.array([number for number, _ in ordered], np.int32)
        ends = np.array([pattern.at_end for _, pattern in ordered], np.uint8)
        return cls(column, numbers, offsets, data, keys, ends, parent, jump, starts, flags, bits)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        ordered = (self.numbers, self.offsets, self.data, self.keys, self.ends, self.parent, self.jump)
        return sum(array.nbytes for array in (*ordered, self.starts, self.flags, self.bits))


@dataclass(slots=True)
class Searched:
    """See the module; of a part with S clauses and P patterns.

    `stripped`: the clauses without their patterns. `place`: int64[S], where a clause is among the stripped ones, -1 if
    nothing of it is left. `pattern_ptr` (int32[S + 1]), `patterns`: int32, those of each clause. `driven_ptr`
    (int32[P + 1]), `driven`: int32, the clauses whose longest pattern it is. `offsets`, `data`, `ends`: the patterns by
    number. `attributes`: int64[P], their IDs. `by_column`: `pattern_ptr` and `patterns` for those of one column.
    `evaluated`: int64[P], tuples in which a pattern was looked for because they pass a clause's other factors.
    `tuples`, `searched`: tuples that were joined, and that were searched for all patterns.
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
    several: Array
    """uint8[S]: clauses with more than one pattern."""
    evaluated: Array
    tuples: int = 0
    searched: int = 0

    @classmethod
    def of(cls, part: Part, attributes: Mapping[int, Expr]) -> Searched:
        """Of a part all of whose clauses have patterns. O(intervals + bytes of patterns)."""
        known = [_short(attributes[a]) for a in part.index.attributes.tolist()]
        stripped = strip(part, np.array([pattern is not None for pattern in known], np.bool_))
        found = [pattern for pattern in known if pattern is not None]
        ids = part.index.attributes[[pattern is not None for pattern in known]]
        place = np.full(len(part.index), -1, np.int64)
        place[stripped.clauses] = np.arange(len(stripped.clauses))
        order = np.argsort(np.concatenate([stripped.clauses, stripped.bare]))
        sizes = np.concatenate([np.diff(stripped.waits_ptr), np.diff(stripped.bare_waits_ptr)])
        before = np.cumsum(sizes) - sizes
        pattern_ptr = _pointers(sizes[order])
        every = np.concatenate([stripped.waits, stripped.bare_waits])
        at = np.repeat(before[order] - pattern_ptr[:-1], sizes[order]) + np.arange(len(every))
        patterns = np.searchsorted(ids, every[at]).astype(np.int32)
        offsets, data = _texts([pattern.text for pattern in found])
        driver = _drivers(pattern_ptr, patterns, np.diff(offsets))
        driven = np.argsort(driver, kind="stable").astype(np.int32)
        columns = np.array([pattern.column for pattern in found], np.int64)
        numbered = [*enumerate(found)]
        sets = [PatternSet.of(c, [own for own in numbered if own[1].column == c]) for c in sorted({*columns.tolist()})]
        return cls(
            stripped,
            place,
            pattern_ptr,
            patterns,
            _pointers(np.bincount(driver, minlength=len(found))),
            driven,
            offsets,
            data,
            np.array([pattern.at_end for pattern in found], np.uint8),
            ids,
            tuple(sets),
            {own.column: _of_column(pattern_ptr, patterns, columns == own.column) for own in sets},
            (np.diff(pattern_ptr) > 1).astype(np.uint8),
            np.zeros(len(found), np.int64),
        )

    def twin(self, part: Part) -> Searched:
        """The same for a copy of the part, with counters of its own. O(P)."""
        counters = np.zeros_like(self.evaluated)
        return replace(self, stripped=self.stripped.of(part), evaluated=counters, tuples=0, searched=0)

    def inherit(self, others: Sequence[Searched]) -> None:
        """Take over the counts of the parts that this part was merged of: tuples came to them together. O(P)."""
        self.tuples = max((other.tuples for other in others), default=0)
        self.searched = max((other.searched for other in others), default=0)
        for other in others:
            _, mine, theirs = np.intersect1d(self.attributes, other.attributes, True, return_indices=True)
            self.evaluated[mine] += other.evaluated[theirs]

    def evaluations(self, attribute: int) -> tuple[int, int]:
        """Tuples that were joined, and those in which the pattern with this ID was looked for; 0 if it is not here."""
        place = int(self.attributes.searchsorted(attribute))
        if place == len(self.attributes) or self.attributes[place] != attribute:
            return 0, 0
        return self.tuples, int(self.evaluated[place]) + self.searched

    @property
    def nbytes(self) -> int:
        """Bytes of what was made."""
        clauses = (self.place, self.pattern_ptr, self.patterns, self.driven_ptr, self.driven, self.stripped.clauses)
        patterns = (self.offsets, self.data, self.ends, self.attributes, self.evaluated)
        arrays = sum(array.nbytes for array in (*clauses, *patterns))
        return arrays + sum(own.nbytes for own in self.sets) + self.stripped.part.index.nbytes


def _pointers(sizes: Array) -> Array:
    pointers = np.zeros(len(sizes) + 1, np.int32)
    np.cumsum(sizes, out=pointers[1:])
    return pointers


def _of_column(pattern_ptr: Array, patterns: Array, mine: Array) -> tuple[Array, Array]:
    """The patterns of each clause that are among `mine` (bool[P])."""
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
    found: Array = patterns[order[pattern_ptr[1:] - 1]]
    return found
