"""All matches of a window, for plans without folds."""

from __future__ import annotations

from psoup.execution.aggregate.window_case import Ends, WindowCase
from psoup.execution.select.clause_matches import matches_in


def all_matches(case: WindowCase) -> Ends:
    """The matches, chunk by chunk. Raises as `matches_in`."""
    config = case.snapshot.config
    return Ends(matches_in(*case.side, case.snapshot.run, config.archive_rows, case.budget, config.texts))
