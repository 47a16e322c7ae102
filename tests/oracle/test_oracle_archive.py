"""Streams that are mostly on disk, restarted at any time: every answer against DuckDB and the naive model."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.engines.restarts import HOT, making
from psoup_testing.histories.histories import Action, Maintain, draw_history
from psoup_testing.oracles.duel import play
from psoup_testing.oracles.model import Declaration
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept


def archived(draw: Any, declaration: Declaration) -> Declaration:
    """The same stream with a retention of which only a part is in memory."""
    if draw(st.booleans()):
        kept = draw(st.sampled_from((100, 300)))
        return replace(declaration, keep_seconds=None, keep_rows=kept, archive=kept - draw(st.sampled_from((1, 70))))
    kept = draw(st.sampled_from((120, 400, 5_000)))
    return replace(declaration, keep_rows=None, keep_seconds=kept, archive=kept - draw(st.sampled_from((1, 40, 100))))


@pytest.mark.parametrize("cases", swept([80, 110], fast=1))
def test_answers_out_of_the_archive_equal_the_query_run_once_over_its_window(cases: int, tmp_path: Path) -> None:
    budget, numbers, seen = Budget("T10 archive", cases=cases), itertools.count(), [0, 0]

    def case(draw: Any) -> int:
        history = draw_history(draw, events=16)
        actions: list[Action] = []
        for action in history.actions:
            actions += [action, Maintain()] if draw(st.booleans()) else [action]
        history = replace(history, declaration=archived(draw, history.declaration), actions=tuple(actions))
        every, hot = draw(st.sampled_from((0, 3))), draw(st.sampled_from((HOT, 4_000, 0)))
        note(f"{history!r}\nevery {every}, hot {hot}")
        cache = draw(st.sampled_from((2**20, 1_000, 0)))
        with making(tmp_path / str(next(numbers)), every, hot, cache) as made:
            compared = play(history, made)
            seen[0] += made.soup.restarts
            seen[1] += made.soup.store.archive_reads
        return compared

    run_cases(budget, case)
    assert min(seen) > 5, f"{seen[0]} restarts and {seen[1]} columns read from disk are too few to say anything"
