"""The row of an aggregate whose inner chunks are folded: plain columns at two ends of a window, without an evaluator.

    left end's matches ─ columns, as they lie in the chunk ─> states ─ + fold ─ + right end's matches ─> a row

What takes more than the values of columns (expressions, FILTER, chunks on disk) goes the common way,
`psoup.answer.grouped.Folder`, to the same states.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.aggregates.measures import rows_for
from psoup.aggregates.recipes import Between, Recipe
from psoup.aggregates.state import State
from psoup.answer.matches import Matches
from psoup.columns import Column
from psoup.data.chunk import ChunkView

_CHUNKS = 4
"""Chunks whose matches are put to the states one by one; of more, the common way puts those of several together."""


def row_of(between: Between, matches: Sequence[Matches]) -> dict[int, Column] | None:
    """The value of each measure, by its place; None: not this way. O(matches)."""
    recipe, fold = between.recipe, between.fold
    if recipe.keys or recipe.plain is None or len(matches) > _CHUNKS:
        return None
    states = [folding.empty(1) for folding in recipe.foldings]
    for match in matches:
        data = match.data
        if not isinstance(data, ChunkView):
            return None
        if fold is not None and data.first_id >= between.begins:
            states, fold = recipe.combined(states, fold), None
        if match.count:
            states = _added(recipe, states, match, data)
    if fold is not None:
        states = recipe.combined(states, fold)
    measures = zip(recipe.measures, recipe.places, strict=True)
    return {place: recipe.foldings[at].finish(states[at], measure, 1) for place, (measure, at) in enumerate(measures)}


def _added(recipe: Recipe, states: list[State], match: Matches, data: ChunkView) -> list[State]:
    """States with the matches of a chunk."""
    assert recipe.plain is not None
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
