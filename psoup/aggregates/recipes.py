"""Recipes and folds: the states that some measures are made of, and those of the tuples of some chunks.

    measures   sum(x), avg(x), count(*)         states   a sum with its count, a count         places   0 0 1

With GROUP BY a fold has the keys of its groups, in their order, and the states of each:

    chunk 16   IBM SUN     counts 7 2            both   IBM ORCL SUN     counts 8 4 2
    chunk 17   IBM ORCL    counts 1 4

Folds are combined in the order of the stream. Where they are kept is in `folds`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from psoup.aggregates.keys import Keys
from psoup.aggregates.listed import Distinct, Gathered
from psoup.aggregates.measures import folding_of
from psoup.aggregates.numbers import Hold
from psoup.aggregates.picks import Extreme
from psoup.aggregates.sketches import Sketch
from psoup.aggregates.state import Folding, State, places_in, size_of
from psoup.aggregates.sums import Count, DoubleSum, IntegerSum
from psoup.columns import Array, Column
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import Kind
from psoup.plan.nodes import Measure

_FIRST: Array = np.zeros(1, np.int64)
_MOST = 2**31 - 1
FOLD_BYTES = 400
"""Bytes of the objects of a fold, beside arrays: about."""


def not_held(size: int) -> None:
    """Do not count bytes that are taken."""


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
    numbers: tuple[int, ...] | None
    """The columns of the stream that all states together are made of; None unless these are counts, sums of integers
    and extremes alone, of columns as they are."""
    keys: tuple[Expr, ...] = ()
    """The keys of GROUP BY."""
    commutes: bool = False
    """Whether states do not depend on the order of rows: 0.0 may be added before -0.0."""

    def joined(self, folds: Iterable[Fold], most: int = _MOST, hold: Hold = not_held) -> Fold:
        """The fold of neighbouring spans together, given in the order of the stream. O(folds, and their groups).

        Raises as `over_keys` if there are more than `most` groups; `hold` is told of bytes as `Keys` tells it.
        """
        if self.keys:
            return self._joined_groups(list(folds), most, hold)
        matched = errors = failed = 0
        states = [folding.empty(1) for folding in self.foldings]
        for fold in folds:
            matched, errors, failed = matched + fold.matched, errors + fold.errors, failed + fold.failed
            states = self.combined(states, fold)
        return Fold(matched, errors, failed, tuple(states))

    def _joined_groups(self, folds: list[Fold], most: int, hold: Hold) -> Fold:
        """The fold of neighbouring spans; their groups are told apart first, so that each state is made once."""
        if len(folds) == 1:
            return folds[0]
        hold(sum(fold.nbytes for fold in folds))
        columns, places = self._groups_of(folds, most, hold)
        states = []
        for at, folding in enumerate(self.foldings):
            state = folding.empty(len(columns[0]))
            for fold, own in zip(folds, places, strict=True):
                state = folding.combine(state, fold.states[at], own)
            states.append(state)
        counts = np.array([(0, 0, 0), *[(fold.matched, fold.errors, fold.failed) for fold in folds]])
        matched, errors, failed = counts.sum(0).tolist()
        return Fold(matched, errors, failed, tuple(states), columns)

    def _groups_of(self, folds: list[Fold], most: int, hold: Hold) -> tuple[tuple[Column, ...], list[Array]]:
        """The keys of all folds in their order, and the places of the groups of each fold among them."""
        if folds and all(fold.keys is folds[0].keys for fold in folds):
            return folds[0].keys, [np.arange(folds[0].groups)] * len(folds)
        keys = Keys([key.type for key in self.keys], most, hold)
        numbers = [keys.number(fold.keys).copy() for fold in folds]
        order = keys.order()
        places = places_in(order)
        return tuple(keys.columns(order)), [places[own] for own in numbers]

    def combined(self, states: Sequence[State], fold: Fold) -> list[State]:
        """States with a fold of later rows; the states are used up, the fold stays as it is."""
        parts = zip(self.foldings, states, fold.states, strict=True)
        return [folding.combine(state, later, _FIRST) for folding, state, later in parts]


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """What the tuples of one clause in a span come to.

    `matched`: how many tuples; `errors`: tuples for which WHERE could not be computed; `failed`: values of keys,
    arguments and FILTERs that could not be; `states`: those of the recipe, a group for each row of `keys`, or one.
    """

    matched: int
    errors: int
    failed: int
    states: tuple[State, ...]
    keys: tuple[Column, ...] = ()
    numbers: Keys | None = None
    """Where the places of keys are looked up, if that is wanted: to be forked only."""

    @property
    def groups(self) -> int:
        """The number of groups that have a state."""
        return len(self.keys[0]) if self.keys else 1

    @property
    def pays(self) -> bool:
        """Whether to combine it takes less than to group its tuples."""
        return not self.keys or 2 * self.groups <= self.matched

    @property
    def nbytes(self) -> int:
        """Bytes, about: as if no other fold had the same keys."""
        numbers = 0 if self.numbers is None else self.numbers.nbytes
        return FOLD_BYTES + sum(map(size_of, self.states)) + sum(key.nbytes for key in self.keys) + numbers


class Between(NamedTuple):
    """The `fold` of the tuples between two ends of a window, from the tuple ID `begins` on; None: there are none.

    `window`: the tuple IDs of all of it.
    """

    recipe: Recipe
    window: tuple[int, int]
    fold: Fold | None = None
    begins: int = 0


def recipe_of(measures: tuple[Measure, ...], keys: tuple[Expr, ...] = ()) -> Recipe | None:
    """The recipe of measures that can be combined exactly from states of bounded size; None if one of them cannot."""
    return _recipe(measures, keys)  # with its defaults: the cache tells a call without them apart


@lru_cache(4_096)
def _recipe(measures: tuple[Measure, ...], keys: tuple[Expr, ...]) -> Recipe | None:
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
    places = tuple([order.index(name) for name in names])
    common = plain is not None and all(isinstance(folding, Count | IntegerSum | Extreme) for folding in foldings)
    numbers = tuple(sorted({index for own in plain for index in own})) if plain is not None and common else None
    return Recipe(measures, tuple(foldings), places, tuple(firsts), plain, numbers, keys, all(map(_commutes, foldings)))


def _commutes(folding: Folding) -> bool:
    """Whether rows may be added in any order."""
    if isinstance(folding, Extreme):
        return folding.type.kind is not Kind.DOUBLE
    return isinstance(folding, Count | IntegerSum | DoubleSum | Sketch)


def _columns_of(measure: Measure) -> tuple[int, ...] | None:
    """The columns of the stream that a measure needs the values of, and no more."""
    refs = [arg for arg in measure.args if isinstance(arg, AttributeRef) and arg.index >= 0]
    if measure.condition is not None or len(refs) < len(measure.args):
        return None
    return tuple([ref.index for ref in refs])
