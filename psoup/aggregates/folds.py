"""Folds: what the matches of a clause in a span of closed chunks come to, kept for the next invocation.

    chunks   -17   -16 … -1   0 … 15   16   17        numbered in the order of the stream
    spans          └─ node ┘  └node┘                  16 aligned chunks, 256, …: floor division, of negative numbers too
    [-17, 18)  =  leaf -17, node -1, node 0, leaf 16, leaf 17

A closed chunk never changes and the number of a clause is never given again: a fold stays true as long as it is kept.
A span without a fold is not an empty one: the reader that misses it folds it. A node is made of all its chunks, and is
used only for windows that hold all of them. All of it may be dropped at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

import numpy as np

from psoup.aggregates.listed import Distinct, Gathered
from psoup.aggregates.measures import folding_of
from psoup.aggregates.state import Folding, State, size_of
from psoup.columns import Array
from psoup.expressions.tree import AttributeRef
from psoup.plan.nodes import Measure

_FIRST: Array = np.zeros(1, np.int64)
_INNER = 4
"""Windows whose inner chunks are kept combined, of a clause and its measures."""
_SPAN_BYTES, _FOLDS_BYTES = 400, 500
"""Bytes of the objects of a fold, and of the folds of a clause, beside arrays: about."""
_COUNTED_ANEW = 1_024

Span = tuple[int, int]
"""A level and a number: chunks number * fan ** level and so many on."""

Leaf = Callable[[list[int]], Iterable[tuple[int, "Fold"]]]
"""Folds chunks of some numbers, ascending, each by itself."""


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """The states that some measures are made of. Equal measures have one recipe as long as they are asked for."""

    measures: tuple[Measure, ...]
    foldings: tuple[Folding, ...]
    places: tuple[int, ...]
    """The place of the state that each measure is made of."""
    firsts: tuple[Measure, ...]
    """The first measure that each state is made for."""
    plain: tuple[tuple[int, ...], ...] | None
    """The columns of the stream that each state is made of; None if one of them takes more than values of columns."""

    def joined(self, folds: Iterable[Fold]) -> Fold:
        """The fold of neighbouring spans together, given in the order of the stream. O(folds)."""
        matched = errors = failed = 0
        states = [folding.empty(1) for folding in self.foldings]
        for fold in folds:
            matched, errors, failed = matched + fold.matched, errors + fold.errors, failed + fold.failed
            states = self.combined(states, fold)
        return Fold(matched, errors, failed, tuple(states))

    def combined(self, states: Sequence[State], fold: Fold) -> list[State]:
        """States with a fold of later rows; the states are used up, the fold stays as it is."""
        parts = zip(self.foldings, states, fold.states, strict=True)
        return [folding.combine(state, later, _FIRST) for folding, state, later in parts]


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """`matched`: tuples, of one clause and span; `errors`: tuples for which WHERE could not be computed; `failed`:
    values of arguments and FILTERs that could not be; `states`: those of the recipe, of one group."""

    matched: int
    errors: int
    failed: int
    states: tuple[State, ...]

    @property
    def nbytes(self) -> int:
        """Bytes, about."""
        return _SPAN_BYTES + sum(map(size_of, self.states))


@dataclass(frozen=True, slots=True, eq=False)
class Between:
    """The `fold` of the tuples between two ends of a window, from the tuple ID `begins` on; None: there are none."""

    recipe: Recipe
    fold: Fold | None = None
    begins: int = 0


@lru_cache(4_096)
def recipe_of(measures: tuple[Measure, ...]) -> Recipe | None:
    """The recipe of measures that can be combined exactly from states of bounded size; None if one of them cannot."""
    states: dict[object, tuple[Folding, Measure]] = {}
    names = list[object]()
    for measure in measures:
        folding = folding_of(measure)
        if not folding.exact or isinstance(folding, Distinct | Gathered):
            return None
        names.append((folding, measure.args, measure.condition))
        states.setdefault(names[-1], (folding, measure))
    order = list(states)
    foldings, firsts = zip(*states.values(), strict=True) if states else ((), ())
    columns = [_columns_of(measure) for measure in firsts]
    plain = None if None in columns else tuple([column for column in columns if column is not None])
    return Recipe(measures, tuple(foldings), tuple([order.index(name) for name in names]), tuple(firsts), plain)


def _columns_of(measure: Measure) -> tuple[int, ...] | None:
    """The columns of the stream that a measure needs the values of, and no more."""
    refs = [arg for arg in measure.args if isinstance(arg, AttributeRef) and arg.index >= 0]
    if measure.condition is not None or len(refs) < len(measure.args):
        return None
    return tuple([ref.index for ref in refs])


def cover(first: int, stop: int, fan: int) -> Iterator[Span]:
    """Yield the spans that make up the chunks [first, stop), in order, each as long as it can be. O(fan * log n)."""
    while first < stop:
        level, size = 0, 1
        while first % (size * fan) == 0 and first + size * fan <= stop:
            level, size = level + 1, size * fan
        yield level, first // size
        first += size


def lacking(known: dict[Span, Fold], first: int, stop: int, fan: int) -> list[int]:
    """The numbers of the chunks of [first, stop) that are in no known span, ascending."""

    def missing(level: int, number: int) -> Iterator[int]:
        if (level, number) not in known:
            if not level:
                yield number
            for child in range(number * fan, (number + 1) * fan) if level else ():
                yield from missing(level - 1, child)

    return [number for span in cover(first, stop, fan) for number in missing(*span)]


@dataclass(slots=True, eq=False)
class Folds:
    """The folds of one clause for one recipe. Any thread: spans come and go in single steps, and are never changed."""

    recipe: Recipe
    spans: dict[Span, Fold] = field(default_factory=dict)
    inner: dict[tuple[int, int], Fold] = field(default_factory=dict)
    """The folds of chunks [first, stop) of the latest windows."""
    nbytes: int = _FOLDS_BYTES
    used: bool = True
    oldest: int | None = None
    """The number of the first chunk that the stream had when spans were dropped."""
    stream: int = -1
    name: bytes | None = None
    """The name by which spans are known on disk; None: they stay in memory."""
    shelved: set[Span] = field(default_factory=set)
    """Spans that are on disk, or found no room there."""

    def of(self, first: int, stop: int, fan: int, leaf: Leaf) -> tuple[Fold, int]:
        """The fold of the chunks [first, stop), and the bytes that are kept now and were not. O(spans)."""
        known, made = dict(self.spans), dict[Span, Fold]()
        if missing := lacking(known, first, stop, fan):
            made = {(0, number): fold for number, fold in leaf(missing)}

        def found(level: int, number: int) -> Fold:
            fold = known.get((level, number)) or made.get((level, number))
            if fold is None:
                children = range(number * fan, (number + 1) * fan)
                fold = made[level, number] = self.recipe.joined([found(level - 1, child) for child in children])
            return fold

        whole = self.recipe.joined([found(*span) for span in cover(first, stop, fan)])
        self.spans.update(made)
        for old in list(self.inner)[: 1 - _INNER]:
            self.inner.pop(old, None)
        size = sum(fold.nbytes for fold in made.values()) + (whole.nbytes if len(self.inner) < _INNER else 0)
        self.inner[first, stop] = whole
        self.nbytes += size
        return whole, size

    def forget(self, oldest: int, fan: int) -> int:
        """Drop spans all of whose chunks have a number below `oldest`; returns the bytes freed. O(spans)."""
        if oldest == self.oldest:
            return 0
        self.oldest, freed = oldest, 0
        for level, number in list(self.spans):
            if (number + 1) * fan**level <= oldest and (fold := self.spans.pop((level, number), None)) is not None:
                freed += fold.nbytes
            self.shelved.discard((level, number))
        self.nbytes -= freed
        return freed


class Shelf(Protocol):
    """Folds of chunks that are not in memory (`psoup.aggregates.shelved`)."""

    def fetch(self, folds: Folds, first: int, stop: int, fan: int) -> int:
        """Take the spans that make up the chunks [first, stop) and are not kept; returns their bytes."""
        ...

    def shelve(self, kept: Iterable[Folds], fan: int) -> None:
        """Take spans that are kept, and are not there."""
        ...


class FoldRoom:
    """The folds of all clauses. Any thread: counts may be a little behind. `limit`: bytes.

    `fan`: how many spans make a wider one; 1: matches are never folded by chunks.
    """

    def __init__(self, limit: int, fan: int) -> None:
        self.limit, self.fan = limit, fan
        self._kept: dict[tuple[int, Recipe], Folds] = {}
        self._held = self._changes = 0

    @property
    def held(self) -> int:
        """Bytes that are kept. O(1)."""
        return self._held

    @property
    def spans(self) -> int:
        """How many folds are kept. O(clauses that were asked)."""
        return sum(len(folds.spans) for folds in list(self._kept.values()))

    def known(self, sqc_id: int, recipe: Recipe) -> Folds | None:
        """The folds of a clause; None if nobody has asked for the like before, which is noted."""
        folds = self._kept.get((sqc_id, recipe))
        if folds is None:
            self._kept[sqc_id, recipe] = Folds(recipe)
            self._grow(_FOLDS_BYTES)
        return folds

    def kept(self) -> list[tuple[int, Recipe, Folds]]:
        """The folds of all clauses, after the clause's SQC ID and the recipe. O(clauses that were asked)."""
        return [(sqc_id, recipe, folds) for (sqc_id, recipe), folds in self._kept.copy().items()]

    def spans_of(self, sqc_id: int, recipe: Recipe) -> dict[Span, Fold]:
        """The folds of a clause that are kept, copied."""
        folds = self._kept.get((sqc_id, recipe))
        return {} if folds is None else dict(folds.spans)

    def fold(self, folds: Folds, first: int, stop: int, oldest: int, leaf: Leaf, shelf: Shelf | None = None) -> Fold:
        """The fold of the chunks [first, stop), kept as far as there is room. `oldest`: the stream's first chunk.

        `leaf` is called if chunks are in no span that is kept, or lies on the `shelf`. O(1) for a window whose inner
        chunks are those of another one before.
        """
        folds.used = True
        fold = folds.inner.get((first, stop))
        if fold is None:
            found = 0 if shelf is None else shelf.fetch(folds, first, stop, self.fan)
            fold, size = folds.of(first, stop, self.fan, leaf)
            self._grow(found + size - folds.forget(oldest, self.fan))
            if shelf is not None:
                shelf.shelve([folds], self.fan)
        return fold

    def give_up(self, wanted: int) -> int:
        """Drop folds, of clauses in the order they were asked, until `wanted` bytes are free; returns those freed."""
        freed = 0
        for name in list(self._kept):
            if freed >= wanted:
                break
            freed += self._drop(name)
        return freed

    def _grow(self, size: int) -> None:
        """Count bytes, and drop folds that were not used of late as long as there are too many."""
        self._held += size
        self._changes += 1
        if self._held > self.limit or not self._changes % _COUNTED_ANEW:
            self._held = sum(folds.nbytes for folds in list(self._kept.values()))
        if self._held > self.limit:
            for name in 2 * list(self._kept):  # twice: of those that were used only the note of it goes at first
                folds = self._kept.get(name)
                if self._held <= self.limit - self.limit // 8:
                    break
                if folds is not None and folds.used:
                    folds.used = False
                    if (again := self._kept.pop(name, None)) is not None:
                        self._kept[name] = again
                else:
                    self._drop(name)

    def _drop(self, name: tuple[int, Recipe]) -> int:
        folds = self._kept.pop(name, None)
        if folds is None:
            return 0
        self._held -= folds.nbytes
        return folds.nbytes
