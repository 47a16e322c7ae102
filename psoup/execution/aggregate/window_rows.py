"""The way that reads all matches of a window for an aggregate, without folds.

The first invocation of a clause takes this way. Later invocations take it if the folds are too large to be kept.
"""

from __future__ import annotations

from psoup.aggregates.recipes import Between, Recipe
from psoup.execution.aggregate.window_case import Ends, Found, WindowCase, known_in, only_counts
from psoup.execution.aggregate.window_middle import with_middle
from psoup.execution.select import many_matches
from psoup.execution.select.clause_matches import matches_in
from psoup.results.chunk_results import ALL


def window_rows(case: WindowCase) -> Ends:
    """Return all matches of the window. Raises as `matches_in`."""
    recipe = case.recipe
    return with_middle(case, Ends(_matches(case, recipe), Between(recipe, (case.low, case.high))))


def _matches(case: WindowCase, recipe: Recipe) -> list[Found]:
    short = (case.inner is None or only_counts(recipe)) and case.clause.sqc_id < ALL
    parts = many_matches.parts_of(case.view, case.low, case.high)
    matches = known_in(case.clause, recipe, parts) if short else None
    if matches is not None:
        return matches
    config = case.snapshot.config
    return [*matches_in(*case.side, case.snapshot.run, config.archive_rows, case.budget, config.texts)]
