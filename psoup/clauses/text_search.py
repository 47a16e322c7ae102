"""Clauses that look for a text in a column, and what finds these texts together.

    clause    other factors      patterns                                  patterns of a column, sorted
      0       a = 5              n contains 'foo'                driven by   'bar' -> 1       found together by
      1                          n contains 'bar', m ends 'x'    the longest 'foo' -> 0 2     `psoup.kernels.automaton`
      2       b > 3              n contains 'foo'

Such clauses are in parts of their own, of the same form as all others, so that they are described, merged and removed
as these are; a part of them is not joined with tuples as an index is, but through what is made of it here. Of a pattern
with wildcards inside the longest piece is looked for; where it is found, the whole is compared. A pattern
that many clauses share is an attribute like any other: it is evaluated once, and its matches are bits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from psoup.clauses.cheap_clauses import Stripped, strip
from psoup.clauses.index.posting_lists import Layout
from psoup.clauses.index.predicate_index import Part
from psoup.columns import Array
from psoup.expressions.like import SoughtText, sought_text
from psoup.expressions.tree import Expr
from psoup.kernels.automaton import END, grow_states
from psoup.plan.factors import Factor, Interval

LAYOUT = Layout(least=1 << 62)
"""No lists: the index of such clauses is never joined with tuples as a whole."""

_SHARED = 16
"""Clauses that may have the same pattern: each hit of it is a pair with each of them."""
_TRUE = (Interval(1, 2),)
_END = bytes([END])


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

    def leave(self, parts: Sequence[Part], slots: Array, exprs: Mapping[int, Expr]) -> None:
        """Note that clauses of `slots` (int64[k]) in some parts are about to go. O(k log n + their intervals)."""
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
    """The patterns of one column and what finds them together, see `psoup.kernels.automaton`. `numbers`: int32[K],
    which of the part's patterns each is."""

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
        """Patterns with their numbers. O(bytes + K log K)."""
        ordered = sorted((own.text + _END if own.at_end else own.text, number) for number, own in patterns)
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
    evaluated: Array
    wholes: tuple[Array, Array]
    """Offsets and data of the whole patterns of which a text is a piece; empty where the text decides."""
    tuples: int = 0
    searched: int = 0
    early: Early | None = None
    """Its clauses without other factors that wait, as they were needed last."""

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
            np.zeros(len(found), np.int64),
            _texts([pattern.whole for pattern in found]),
        )

    def twin(self, part: Part) -> Searched:
        """The same for a copy of the part, with counters of its own. O(P)."""
        counters = np.zeros_like(self.evaluated)
        stripped = self.stripped.twin(part)
        return replace(self, stripped=stripped, evaluated=counters, tuples=0, searched=0, early=None)

    def twin_with(self, other: Part) -> Searched:
        """The same with another index of the same stripped clauses, and counters of its own. O(P)."""
        return self.stripped_as(replace(self.stripped, part=other))

    def stripped_as(self, stripped: Stripped) -> Searched:
        """The same with other stripped clauses of the part, and counters of its own. O(S + P)."""
        place: Array = np.full(len(self.place), -1, np.int64)
        place[stripped.clauses] = np.arange(len(stripped.clauses))
        counters = np.zeros_like(self.evaluated)
        return replace(self, stripped=stripped, place=place, evaluated=counters, tuples=0, searched=0, early=None)

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
        arrays = sum(array.nbytes for array in (*clauses, *patterns, *self.wholes))
        early = 0 if self.early is None else self.early.plan.stripped.part.index.nbytes + self.early.pointers.nbytes
        return arrays + sum(own.nbytes for own in self.sets) + self.stripped.part.index.nbytes + early


@dataclass(frozen=True, slots=True)
class Early:
    """Clauses of a part before the attributes `flags` (bool[A]) are computed: `plan` is without them; `pointers`
    (int32[S + 1]), `attributes`: which of them each clause reads, IDs."""

    flags: Array
    plan: Searched
    pointers: Array
    attributes: Array


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
