"""Recipes and folds: a recipe says which states some measures need. A fold has these states over some chunks.

    measures   sum(x), avg(x), count(*)         states   a sum with its count, a count         places   0 0 1

With GROUP BY, a fold has the keys of its groups, in order, and the states of each group:

    chunk 16   IBM SUN     counts 7 2            both   IBM ORCL SUN     counts 8 4 2
    chunk 17   IBM ORCL    counts 1 4

Folds are combined in the order of the stream. The module `folds` keeps them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from psoup.aggregates.bits import Bits
from psoup.aggregates.keys import Keys
from psoup.aggregates.list_states import DistinctValues, GroupValues
from psoup.aggregates.measures import folding_of
from psoup.aggregates.numbers import Hold
from psoup.aggregates.ordered_rows import OrderedRows
from psoup.aggregates.picks import Extreme
from psoup.aggregates.sketches import Sketch
from psoup.aggregates.state import Folding, State, places_in, size_of
from psoup.aggregates.sums import Count, DoubleSum, IntegerSum
from psoup.expressions.tree import AttributeRef, Expr
from psoup.model import Kind
from psoup.plan.nodes import Measure
from psoup.values.columns import Array, Column

_FIRST: Array = np.zeros(1, np.int64)
_MAX_GROUPS = 2**31 - 1
"""The default limit of the number of groups."""
FOLD_BYTES = 400
"""Approximate bytes of the objects of a fold, without its arrays."""


def not_held(size: int) -> None:
    """Do nothing with a number of bytes. The default for callers without a budget."""


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """The states that some measures need. A cache returns the same recipe for equal measures and keys."""

    measures: tuple[Measure, ...]
    foldings: tuple[Folding, ...]
    places: tuple[int, ...]
    """For each measure, the place of its state."""
    firsts: tuple[Measure, ...]
    """For each state, the first measure that needs it."""
    plain: tuple[tuple[int, ...], ...] | None
    """For each state, the columns of the stream that it reads. None if a state needs computed values."""
    numbers: tuple[int, ...] | None
    """All columns that the states read. None unless each state is a count, integer sum or extreme of a plain column."""
    keys: tuple[Expr, ...] = ()
    """The keys of GROUP BY."""
    commutes: bool = False
    """Whether the states are the same for every order of the rows. They are not for MIN of DOUBLE, for instance: 0.0
    equals -0.0, and the first one stays.
    """

    def joined(self, folds: Iterable[Fold], limit: int = _MAX_GROUPS, hold: Hold = not_held) -> Fold:
        """Combine the folds of neighbouring spans, given in the order of the stream. O(folds + their groups).

        Raises `over_keys` above `limit` groups. `hold` is called with the bytes to be allocated.
        """
        if self.keys:
            return self._joined_groups(list(folds), limit, hold)
        matched = errors = failed = 0
        states = [folding.empty(1) for folding in self.foldings]
        for fold in folds:
            matched, errors, failed = matched + fold.matched, errors + fold.errors, failed + fold.failed
            states = self.combined(states, fold)
        return Fold(matched, errors, failed, tuple(states))

    def _joined_groups(self, folds: list[Fold], limit: int, hold: Hold) -> Fold:
        """Combine folds with GROUP BY. First finds all groups of the result, so that it allocates each state once."""
        if len(folds) == 1:
            return folds[0]
        hold(sum(fold.nbytes for fold in folds))
        columns, places = self._groups_of(folds, limit, hold)
        states = []
        for at, folding in enumerate(self.foldings):
            state = folding.empty(len(columns[0]))
            for fold, group_places in zip(folds, places, strict=True):
                state = folding.combine(state, fold.states[at], group_places)
            states.append(state)
        counts = np.array([(0, 0, 0), *[(fold.matched, fold.errors, fold.failed) for fold in folds]])
        matched, errors, failed = counts.sum(0).tolist()
        return Fold(matched, errors, failed, tuple(states), columns)

    def _groups_of(self, folds: list[Fold], limit: int, hold: Hold) -> tuple[tuple[Column, ...], list[Array]]:
        """The union of the keys of all folds, in order. For each fold, the places of its groups in the union."""
        if folds and all(fold.keys is folds[0].keys for fold in folds):
            return folds[0].keys, [np.arange(folds[0].groups)] * len(folds)
        keys = Keys([key.type for key in self.keys], limit, hold)
        numbers = [keys.number(fold.keys).copy() for fold in folds]
        order = keys.order()
        places = places_in(order)
        return tuple(keys.columns(order)), [places[group_numbers] for group_numbers in numbers]

    def combined(self, states: Sequence[State], fold: Fold) -> list[State]:
        """Add a fold of later rows to the states. The caller must not use the old states any more."""
        parts = zip(self.foldings, states, fold.states, strict=True)
        return [folding.combine(state, later, _FIRST) for folding, state, later in parts]


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """The aggregate states of one clause's tuples in a span.

    `matched`: the number of tuples. `errors`: the number of tuples whose WHERE failed. `failed`: the number of values
    of keys, arguments and FILTERs that failed. `states`: the recipe's states, with a group for each row of `keys`, or
    one group without keys.
    """

    matched: int
    errors: int
    failed: int
    states: tuple[State, ...]
    keys: tuple[Column, ...] = ()
    numbers: Keys | None = None
    """The table of the numbers of the keys, or None. Readers must fork it before they add keys."""

    @property
    def groups(self) -> int:
        """The number of groups."""
        return len(self.keys[0]) if self.keys else 1

    @property
    def pays(self) -> bool:
        """Whether a reader saves work if it combines this fold, and does not group its tuples again."""
        return not self.keys or 2 * self.groups <= self.matched

    @property
    def nbytes(self) -> int:
        """The approximate bytes, with the keys, even if other folds share them."""
        numbers = 0 if self.numbers is None else self.numbers.nbytes
        return FOLD_BYTES + sum(map(size_of, self.states)) + sum(key.nbytes for key in self.keys) + numbers


class Between(NamedTuple):
    """The fold of the middle of a window, which the next windows of a sliding query share. None if it has no tuples.

    `window`: the tuple IDs of the whole window. `begins`: the tuple ID at which the middle begins.
    """

    recipe: Recipe
    window: tuple[int, int]
    fold: Fold | None = None
    begins: int = 0


def recipe_of(measures: tuple[Measure, ...], keys: tuple[Expr, ...] = ()) -> Recipe | None:
    """The recipe of some measures and keys. None if a measure has no state that is exact and of bounded size."""
    return _recipe(measures, keys)  # always two arguments, as the cache would store a call with one separately


@lru_cache(4_096)
def _recipe(measures: tuple[Measure, ...], keys: tuple[Expr, ...]) -> Recipe | None:
    states: dict[object, tuple[Folding, Measure]] = {}
    names = list[object]()
    for measure in measures:
        folding = folding_of(measure)
        if not folding.exact or isinstance(folding, DistinctValues | GroupValues | OrderedRows):
            return None
        names.append((folding, measure.args, measure.condition))
        states.setdefault(names[-1], (folding, measure))
    order = list(states)
    foldings, firsts = zip(*states.values(), strict=True) if states else ((), ())
    columns = [_columns_of(measure) for measure in firsts]
    plain = None if None in columns else tuple([column for column in columns if column is not None])
    places = tuple([order.index(name) for name in names])
    common = plain is not None and all(isinstance(folding, Count | IntegerSum | Extreme) for folding in foldings)
    numbers = tuple(sorted({index for refs in plain for index in refs})) if plain is not None and common else None
    return Recipe(measures, tuple(foldings), places, tuple(firsts), plain, numbers, keys, all(map(_commutes, foldings)))


def _commutes(folding: Folding) -> bool:
    """Whether the state is the same for every order of the rows."""
    if isinstance(folding, Extreme):
        return folding.type.kind is not Kind.DOUBLE
    return isinstance(folding, Count | IntegerSum | DoubleSum | Sketch | Bits)


def _columns_of(measure: Measure) -> tuple[int, ...] | None:
    """The columns of the stream that a measure reads. None if it needs computed values."""
    refs = [arg for arg in measure.args if isinstance(arg, AttributeRef) and arg.index >= 0]
    if measure.condition is not None or len(refs) < len(measure.args):
        return None
    return tuple([ref.index for ref in refs])
