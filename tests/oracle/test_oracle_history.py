"""History attached between pushes and starts, queries covered by jobs: every answer against DuckDB over all of it."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.engines.attachments import AttachingDuel, Covering, History
from psoup_testing.engines.restarts import making
from psoup_testing.histories.histories import Action, Maintain, draw_history
from psoup_testing.oracles.model import Declaration
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept


def kept(draw: Any, declaration: Declaration) -> Declaration:
    """The same stream, which keeps all, or much, of which a part may be on disk."""
    found = replace(declaration, keep_seconds=None, keep_rows=None, archive=0)
    archive = draw(st.sampled_from((0, 1, 70)))
    match draw(st.integers(0, 4)):
        case 0:
            return replace(found, keep_rows=600, archive=archive and 600 - archive)
        case 1:
            return replace(found, keep_seconds=900, archive=archive and 900 - archive)
        case _:
            return found


def draw_attachment(draw: Any) -> History:
    """Up to some chunks of history."""
    numbers = st.integers(0, 1 << 16)
    count, span = draw(st.integers(0, 150)), draw(st.sampled_from((1, 60, 400)))
    overlap, matches = draw(st.integers(0, 2)) == 2, draw(st.booleans())
    return History(count, span, draw(numbers), draw(st.sampled_from((7, 40, 64))), overlap, matches)


@pytest.mark.parametrize("cases", swept([60, 180, 300], fast=1))
def test_answers_over_history_and_live_data_equal_the_query_run_once(tmp_path: Path, cases: int) -> None:
    budget, numbers, seen = Budget("T12 history", cases=cases), itertools.count(), [0, 0, 0, 0, 0]

    def case(draw: Any) -> int:
        history = draw_history(draw, events=14)
        actions: list[Action | History | Covering] = []
        for action in history.actions:
            extra = draw(st.integers(0, 7))
            if extra < 3:
                actions.append((draw_attachment(draw), Maintain(), Covering(1 + extra % 2))[extra])
            actions.append(action)
        history = replace(history, declaration=kept(draw, history.declaration))
        every = draw(st.sampled_from((0, 3)))
        note(f"{history!r}\n{actions}\nevery {every}")
        with (
            making(tmp_path / str(next(numbers)), every) as made,
            closing(AttachingDuel(history.declaration, history.config, made, history.pools)) as duel,
        ):
            for action in actions:
                duel.act(action)
                duel.psoup.check()
            seen[0] += duel.attached
            seen[1] += duel.refused
            seen[2] += made.soup.restarts
            seen[3] += duel.on_disk()
            seen[4] += duel.covered
            return duel.compared

    run_cases(budget, case)
    what = f"{seen[0]} attached, {seen[1]} refused, {seen[2]} restarts, {seen[3]} columns found beforehand,"
    what += f" {seen[4]} chunks covered later"
    assert min(seen) > budget.cases // 100, f"{what} are too few to say anything"
