"""The log is the state: events applied singly, in runs, or again from the start leave the same answers."""

from __future__ import annotations

from typing import Any

from hypothesis import note

from psoup_testing.engines.recorded import Player, answers, replayed
from psoup_testing.histories.histories import draw_history
from psoup_testing.suite.budget import Budget, run_cases


def test_replay_in_any_runs_gives_the_same_answers() -> None:
    budget = Budget("replay", cases=30)

    def case(draw: Any) -> int:
        history = draw_history(draw, events=12)
        note(repr(history))
        played = Player(history)
        wanted = answers(played.psoup.engine, played)
        for run_length in (1, 3, len(played.psoup.events)):
            engine, admission = replayed(played.psoup.events, history.config, run_length)
            engine.check()
            admission.check()
            assert admission.state() == played.psoup.admission.state(), f"runs of {run_length}"
            assert engine.snapshot().groups == played.psoup.engine.snapshot().groups, f"runs of {run_length}"
            assert answers(engine, played) == wanted, f"runs of {run_length}"
        return 3

    run_cases(budget, case)
