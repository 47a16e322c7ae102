"""T10: random schemas, data, queries, windows and interleavings; every answer against DuckDB and the naive model."""

from __future__ import annotations

from typing import Any

from hypothesis import note

from psoup_testing.budget import Budget, run_cases
from psoup_testing.duel import play
from psoup_testing.histories import draw_history


def test_answers_equal_the_query_run_once_over_its_window() -> None:
    budget = Budget("T10 differential", seconds=20, least=300)

    def case(draw: Any) -> int:
        history = draw_history(draw)
        note(repr(history))
        return play(history)

    run_cases(budget, case)
