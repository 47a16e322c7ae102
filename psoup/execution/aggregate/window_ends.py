"""The row of an aggregate whose inner chunks are folded: plain columns at two ends of a window, without an evaluator.

    left end's matches ─ columns, as they lie in the chunk ─> states ─ + fold ─ + right end's matches ─> a row

All other aggregates (expressions, FILTER, chunks on disk) are folded row by row into the same states, by
`psoup.execution.aggregate.fold_rows`.
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
from psoup.execution.select.clause_matches import Matches
from psoup.execution.select.match_bits_at_ends import EndBits
from psoup.kernels.fold import group_states as fold
from psoup.values.columns import Array, Column

_NO_VALUES: Array = np.zeros(0, np.int64)

MOST_MATCHES = 4
"""Most chunks whose matches are added one by one; `fold_rows` adds the matches of several chunks together."""


def fits_ends(between: Between, matches: Sequence[Matches]) -> bool:
    """Whether the values of plain columns, of few chunks in memory, are all that the row takes. O(chunks)."""
    recipe = between.recipe
    if recipe.keys or recipe.plain is None or len(matches) > MOST_MATCHES:
        return False
    return not [match for match in matches if not isinstance(match.data, ChunkView)]


def row_of(between: Between, matches: Sequence[Matches]) -> dict[int, Column]:
    """The value of each measure, by its place; of what `fits_ends`. O(matches)."""
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
    """Whether a window is folded but for its two ends, and these need no evaluator."""
    between = case.rows.reading.between
    return between is not None and isinstance(case.rows, SourceRows) and fits_ends(between, case.rows.matches)


def window_ends(case: GroupCase) -> GroupTable:
    """The table of an aggregate without keys: its only row. O(matches)."""
    between = case.rows.reading.between
    assert between is not None and isinstance(case.rows, SourceRows)
    return row_of(between, case.rows.matches), 1


def first_of(match: Matches) -> int:
    """A tuple ID of a chunk's matches, at least one, that is not above the first of them."""
    return match.data.first_id + (match.start if isinstance(match, EndBits) else int(match.offsets[0]))


def _fits_bits(recipe: Recipe, columns: Sequence[Column]) -> bool:
    """Whether all measures are counts, sums and extremes of whole numbers without NULL, which need no offsets."""
    return recipe.numbers is not None and not [i for i in recipe.numbers if not _is_straight(columns[i])]


def _add_bits(recipe: Recipe, states: list[State], match: EndBits, columns: Sequence[Column]) -> None:
    """Add matches that are kept as bits to the states, in place."""
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
    """Whether a column is integers of 64 bits without NULL, as kernels take them."""
    values = column.values
    return column.valid is None and values.dtype == np.int64 and values.flags.writeable


def _added(recipe: Recipe, states: list[State], match: Matches, data: ChunkView) -> list[State]:
    """States with the matches of a chunk."""
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
