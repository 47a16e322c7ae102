"""T10: random schemas, data, queries, windows and interleavings; every answer against DuckDB and the naive model."""

from __future__ import annotations

from typing import Any

from hypothesis import note

from psoup_testing.histories.histories import draw_history
from psoup_testing.oracles.duel import play, play_again, play_together
from psoup_testing.suite.budget import Budget, run_cases


def test_answers_equal_the_query_run_once_over_its_window() -> None:
    budget = Budget("T10 differential", cases=240)

    def case(draw: Any) -> int:
        history = draw_history(draw)
        note(repr(history))
        return play(history)

    run_cases(budget, case)


def test_streams_of_one_engine_do_not_disturb_each_other() -> None:
    budget = Budget("T10 two streams", cases=90)

    def case(draw: Any) -> int:
        one, two = draw_history(draw, 8), draw_history(draw, 8, "other")
        note(f"{one!r}\n{two!r}")
        return play_together(one, two)

    run_cases(budget, case)


def test_the_name_of_a_dropped_stream_can_be_used_again() -> None:
    budget = Budget("T10 dropped stream", cases=60)

    def case(draw: Any) -> int:
        one, two = draw_history(draw, 6), draw_history(draw, 6)
        note(f"{one!r}\n{two!r}")
        return play_again(one, two)

    run_cases(budget, case)
