"""Streams fed in batches, with history before, between starts: every answer against DuckDB over all of it."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.engines.attachments import History
from psoup_testing.engines.batches import FedDuel
from psoup_testing.engines.restarts import making
from psoup_testing.histories.histories import Action, Maintain, draw_history
from psoup_testing.suite.budget import Budget, run_cases


def test_answers_over_batches_equal_the_query_run_once(tmp_path: Path) -> None:
    budget, numbers, seen = Budget("T12 batches", cases=40), itertools.count(), [0, 0, 0, 0]

    def case(draw: Any) -> int:
        history = draw_history(draw, events=12)
        actions: list[Action | History] = []
        for action in history.actions:
            extra = draw(st.integers(0, 9))
            past = History(draw(st.integers(0, 60)), 60, draw(st.integers(0, 1 << 16)), matches=True)
            actions += [past] if extra == 0 else [Maintain()] if extra == 1 else []
            actions.append(action)
        every = draw(st.sampled_from((3, 0, 3)))
        note(f"{history!r}\n{actions}\nevery {every}")
        declaration = replace(history.declaration, archive=0)
        with (
            making(tmp_path / str(next(numbers)), every) as made,
            closing(FedDuel(declaration, history.config, made, history.pools)) as duel,
        ):
            for action in actions:
                duel.act(action)
                duel.psoup.check()
            seen[0] += duel.fed
            seen[1] += duel.attached
            seen[2] += made.soup.restarts
            seen[3] += duel.on_disk()
            return duel.compared

    run_cases(budget, case, examples=12)
    what = f"{seen[0]} batches, {seen[1]} histories, {seen[2]} restarts, {seen[3]} columns found beforehand"
    assert min(seen) > 2, f"{what} are too few to say anything"
