"""The row of an aggregate whose inner chunks are folded: plain columns at two ends of a window, without an evaluator.

    left end's matches ─ columns, as they lie in the chunk ─> states ─ + fold ─ + right end's matches ─> a row

What takes more than the values of columns (expressions, FILTER, chunks on disk) goes the common way,
`psoup.execution.aggregate.groups.Folder`, to the same states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.measures import rows_for
from psoup.aggregates.picks import Extreme
from psoup.aggregates.recipes import Between, Recipe
from psoup.aggregates.state import State, copied
from psoup.aggregates.sums import IntegerSum
from psoup.columns import Array, Column
from psoup.data.chunk import ChunkView
from psoup.execution.select.clause_matches import Matches
from psoup.execution.select.match_bits_at_ends import EndBits
from psoup.kernels import fold

_NO_VALUES: Array = np.zeros(0, np.int64)

MOST_MATCHES = 4
"""Chunks whose matches are put to the states one by one; of more, the common way puts those of several together."""


def row_of(between: Between, matches: Sequence[Matches]) -> dict[int, Column] | None:
    """The value of each measure, by its place; None: not this way. O(matches)."""
    recipe, fold = between.recipe, between.fold
    if recipe.keys or recipe.plain is None or len(matches) > MOST_MATCHES:
        return None
    if fold is not None and recipe.commutes:
        states, fold = [copied(state) for state in fold.states], None
    else:
        states = [folding.empty(1) for folding in recipe.foldings]
    for match in matches:
        data = match.data
        if not isinstance(data, ChunkView):
            return None
        if not match.count:
            continue
        if fold is not None and first_of(match) >= between.begins:
            states, fold = recipe.combined(states, fold), None
        states = _added(recipe, states, match, data)
    if fold is not None:
        states = recipe.combined(states, fold)
    measures = zip(recipe.measures, recipe.places, strict=True)
    return {place: recipe.foldings[at].finish(states[at], measure, 1) for place, (measure, at) in enumerate(measures)}


def first_of(match: Matches) -> int:
    """A tuple ID of a chunk's matches, at least one, that is not above the first of them."""
    return match.data.first_id + (match.start if isinstance(match, EndBits) else int(match.offsets[0]))


def _from_bits(recipe: Recipe, states: list[State], match: EndBits, data: ChunkView) -> bool:
    """Add matches that are kept as bits to counts, sums and extremes of integers without NULL; False: not this way."""
    assert recipe.plain is not None
    columns, bits, start, stop = data.columns, match.bits, match.start, match.stop
    if recipe.numbers is None:
        return False
    for index in recipe.numbers:
        if not _is_straight(columns[index]):
            return False
    for folding, state, indexes in zip(recipe.foldings, states, recipe.plain, strict=True):
        first, values = state[0], columns[indexes[0]].values if indexes else _NO_VALUES
        if isinstance(folding, Extreme):
            seen, best = state
            fold.extreme_bits(bits, start, stop, values, folding.greatest, best, seen)
            continue
        assert isinstance(first, np.ndarray)
        first[0] += match.count
        if isinstance(folding, IntegerSum):
            fold.sum_bits(bits, start, stop, values, state[1])
    return True


def _is_straight(column: Column) -> bool:
    """Whether a column is integers of 64 bits without NULL, as kernels take them."""
    values = column.values
    return column.valid is None and values.dtype == np.int64 and values.flags.writeable


def _added(recipe: Recipe, states: list[State], match: Matches, data: ChunkView) -> list[State]:
    """States with the matches of a chunk."""
    assert recipe.plain is not None
    if isinstance(match, EndBits) and _from_bits(recipe, states, match, data):
        return states
    offsets, columns = match.offsets, dict[int, Column]()
    first, count = int(offsets[0]), len(offsets)
    whole = int(offsets[-1]) - first == count - 1
    added = []
    for folding, state, measure, indexes in zip(recipe.foldings, states, recipe.firsts, recipe.plain, strict=True):
        for index in indexes:
            if index not in columns:
                own = data.columns[index]
                columns[index] = own.slice(first, first + count) if whole else own.take(offsets)
        args = [columns[index] for index in indexes]
        added.append(folding.add(state, rows_for(measure, args, None, None, count)))
    return added
