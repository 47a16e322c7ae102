"""The way that reads all matches of a window. It serves every plan, and plans that cannot use folds need it."""

from __future__ import annotations

from psoup.execution.aggregate.window_case import Ends, WindowCase
from psoup.execution.select.clause_matches import matches_in


def all_matches(case: WindowCase) -> Ends:
    """Return the matches of the window, chunk by chunk. Raises as `matches_in`."""
    config = case.snapshot.config
    return Ends(matches_in(*case.side, case.snapshot.run, config.archive_rows, case.budget, config.texts))
