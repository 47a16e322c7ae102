"""Random histories whose watermarks follow the clock, against DuckDB, with a start every few events."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from psoup.events.commands import RaiseWatermarks
from psoup.model import SECOND
from psoup_testing.engines.restarts import making
from psoup_testing.histories.histories import History, draw_history
from psoup_testing.oracles.duel import Duel
from psoup_testing.suite.budget import Budget, run_cases

GRACE = 60 * SECOND


def timed(draw: Any) -> History:
    """A history over a stream in event time that states no AHEAD. Most streams are by the clock."""
    history = draw_history(draw, 14)
    while history.declaration.time_column is None:
        history = draw_history(draw, 14)
    declared = replace(history.declaration, by_clock=draw(st.integers(0, 3)) > 0)
    return replace(history, declaration=declared, config=replace(history.config, ahead=None))


def play(duel: Duel, history: History, draw: Any) -> int:
    """Play a history with heartbeats by the clock between its actions. Returns the number of moved watermarks."""
    moved = 0
    for action in history.actions:
        duel.act(action)
        if draw(st.integers(0, 2)):
            continue
        duel.clock.advance(seconds=draw(st.sampled_from((1, 20, 90, -30))))
        steady = draw(st.sampled_from((GRACE - 1, GRACE, 10 * GRACE)))
        done = duel.psoup.submit(RaiseWatermarks(steady))
        before = duel.model.watermark
        if history.declaration.by_clock:
            duel.model.follow_clock(steady, duel.clock.now())
        view = duel.psoup.engine.snapshot().by_id[1]
        assert view.watermark == duel.model.watermark
        assert done.duplicate == (before == duel.model.watermark)
        moved += not done.duplicate
        duel._count_arrival()
        duel.psoup.check()
    return moved


def test_answers_are_those_of_duckdb(tmp_path: Path) -> None:
    budget, numbers, seen = Budget("clock", cases=60), itertools.count(), [0, 0]

    def case(draw: Any) -> int:
        history, every = timed(draw), draw(st.sampled_from((0, 3)))
        note(f"{history!r}\nevery {every}")
        with (
            making(tmp_path / str(next(numbers)), every) as made,
            closing(Duel(history.declaration, history.config, make=made)) as duel,
        ):
            seen[0] += play(duel, history, draw)
            seen[1] += made.soup.restarts
            return duel.compared

    run_cases(budget, case)
    assert min(seen) > 3, f"{seen[0]} moved watermarks and {seen[1]} restarts are too few to say anything"
