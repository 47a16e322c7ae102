"""T10: random schemas, data, queries, windows and interleavings; every answer against DuckDB and the naive model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import note

from psoup_testing.histories.histories import History, draw_history
from psoup_testing.oracles.duel import Duel, play, play_together
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept


@pytest.mark.parametrize("cases", swept([60, 240], fast=1))
def test_answers_equal_the_query_run_once_over_its_window(cases: int) -> None:
    budget = Budget("T10 differential", cases=cases)

    def case(draw: Any) -> int:
        history = draw_history(draw)
        note(repr(history))
        return play(history)

    run_cases(budget, case)


@pytest.mark.parametrize("cases", swept([30, 90], fast=1))
def test_streams_of_one_engine_do_not_disturb_each_other(cases: int) -> None:
    budget = Budget("T10 two streams", cases=cases)

    def case(draw: Any) -> int:
        first_history, second_history = draw_history(draw, 8), draw_history(draw, 8, "other")
        note(f"{first_history!r}\n{second_history!r}")
        return play_together(first_history, second_history)

    run_cases(budget, case)


def test_the_name_of_a_dropped_stream_can_be_used_again() -> None:
    budget = Budget("T10 dropped stream", cases=60)

    def case(draw: Any) -> int:
        first_history, second_history = draw_history(draw, 6), draw_history(draw, 6)
        note(f"{first_history!r}\n{second_history!r}")
        return _play_again(first_history, second_history)

    run_cases(budget, case)


def _play_again(first_history: History, second_history: History) -> int:
    """A history, its stream dropped, and another history on a stream of the same name."""
    first = Duel(first_history.declaration, first_history.config, shards=first_history.shards)
    first.run(first_history.actions)
    assert first.psoup.drop_stream(first_history.declaration.name, cascade=True) == len(first.standing)
    second = Duel(second_history.declaration, first_history.config, first)
    try:
        second.run(second_history.actions)
        return first.compared + second.compared
    finally:
        first.close()
        second.close()
