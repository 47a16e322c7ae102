"""Aggregates and groups: random schemas, data, windows and interleavings, against exact Python and DuckDB."""

from __future__ import annotations

from typing import Any

from hypothesis import note

from psoup_testing.budget import Budget, run_cases
from psoup_testing.duel import play
from psoup_testing.expressions import Maker, Scope
from psoup_testing.grouped import GroupedDuel, with_groups
from psoup_testing.histories import draw_history


def test_aggregates_equal_those_of_the_tuples_of_the_window() -> None:
    budget = Budget("aggregates", cases=60)

    def case(draw: Any) -> int:
        history = draw_history(draw)
        history = with_groups(Maker(draw, Scope(history.declaration.schema, history.pools), 2), history)
        note(repr(history))
        return play(history, kind=GroupedDuel)

    run_cases(budget, case)
