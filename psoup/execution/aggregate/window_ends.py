"""The way that adds plain columns at the two ends of a window to the fold between them.

    left end's matches ─ columns, as they lie in the chunk ─> states ─ + fold ─ + right end's matches ─> a row

It needs no evaluator of expressions. `psoup.execution.aggregate.fold_rows` folds all other aggregates (expressions,
FILTER, chunks on disk) into the same states.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.aggregates.measures import rows_for
from psoup.aggregates.picks import Extreme
from psoup.aggregates.recipes import Between, Recipe
from psoup.aggregates.state import State, copied
from psoup.aggregates.sums import IntegerSum
from psoup.data.chunk import ChunkView
from psoup.execution.aggregate.row_parts import GroupCase, GroupTable
from psoup.execution.rows.source_rows import SourceRows
from psoup.execution.select.match_bits_at_ends import EndBits
from psoup.execution.select.match_forms import Matches
from psoup.kernels.fold import group_states as fold
from psoup.values.columns import Array, Column

_NO_VALUES: Array = np.zeros(0, np.int64)

MOST_MATCHES = 4
"""The most chunks with matches for this way. For more, `fold_rows` is quicker, as it reads several chunks as one part.
"""


def fits_ends(between: Between, matches: Sequence[Matches]) -> bool:
    """Whether the measures have plain columns only, and the matches lie in few chunks, all in memory. O(chunks)."""
    recipe = between.recipe
    if recipe.keys or recipe.plain is None or len(matches) > MOST_MATCHES:
        return False
    return not [match for match in matches if not isinstance(match.data, ChunkView)]


def row_of(between: Between, matches: Sequence[Matches]) -> dict[int, Column]:
    """The value of each measure, by its place. Requires `fits_ends`. O(matches)."""
    recipe, fold = between.recipe, between.fold
    if fold is not None and recipe.commutes:
        states, fold = [copied(state) for state in fold.states], None
    else:
        states = [folding.empty(1) for folding in recipe.foldings]
    for match in matches:
        if not match.count:
            continue
        if fold is not None and first_of(match) >= between.begins:
            states, fold = recipe.combined(states, fold), None
        data = match.data
        assert isinstance(data, ChunkView)
        states = _added(recipe, states, match, data)
    if fold is not None:
        states = recipe.combined(states, fold)
    measures = zip(recipe.measures, recipe.places, strict=True)
    return {place: recipe.foldings[at].finish(states[at], measure, 1) for place, (measure, at) in enumerate(measures)}


def accepts(case: GroupCase) -> bool:
    """Whether the rows are the ends of a window that was read for an aggregate, and `fits_ends` accepts them."""
    between = case.rows.reading.between
    return between is not None and isinstance(case.rows, SourceRows) and fits_ends(between, case.rows.matches)


def window_ends(case: GroupCase) -> GroupTable:
    """Compute the table of an aggregate without keys, which has one row. O(matches)."""
    between = case.rows.reading.between
    assert between is not None and isinstance(case.rows, SourceRows)
    return row_of(between, case.rows.matches), 1


def first_of(match: Matches) -> int:
    """A lower bound of the tuple IDs of the matches of a chunk, inside the chunk. There must be a match."""
    return match.data.places.id_of(match.start if isinstance(match, EndBits) else int(match.offsets[0]))


def _fits_bits(recipe: Recipe, columns: Sequence[Column]) -> bool:
    """Whether kernels can fold the match bits directly: counts, sums and extremes of whole numbers without NULL."""
    return recipe.numbers is not None and not [i for i in recipe.numbers if not _is_straight(columns[i])]


def _add_bits(recipe: Recipe, states: list[State], match: EndBits, columns: Sequence[Column]) -> None:
    """Add matches given as a bitmap to the states, in place."""
    assert recipe.plain is not None
    bits, start, stop = match.bits, match.start, match.stop
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


def _is_straight(column: Column) -> bool:
    """Whether a column has integers of 64 bits without NULL, as the kernels require."""
    values = column.values
    return column.valid is None and values.dtype == np.int64 and values.flags.writeable


def _added(recipe: Recipe, states: list[State], match: Matches, data: ChunkView) -> list[State]:
    """Add the matches of a chunk to the states, and return them. May change `states` in place."""
    assert recipe.plain is not None
    if isinstance(match, EndBits) and _fits_bits(recipe, data.columns):
        _add_bits(recipe, states, match, data.columns)
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
