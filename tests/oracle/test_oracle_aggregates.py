"""Aggregates and groups: random schemas, data, windows and interleavings, against exact Python and DuckDB."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.engines.attachments import AttachingDuel
from psoup_testing.engines.attachments import History as Attached
from psoup_testing.engines.restarts import HOT, making
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import History, Maintain, draw_history
from psoup_testing.oracles.duel import play
from psoup_testing.oracles.groups import GroupedDuel, with_groups
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept


class AttachingGroups(GroupedDuel, AttachingDuel):
    """A duel with aggregates in which history may be attached, and the store is started anew."""


def _drawn(draw: Any, events: int = 14) -> History:
    history = draw_history(draw, events)
    return with_groups(Maker(draw, Scope(history.declaration.schema, history.pools), 2), history)


@pytest.mark.parametrize("cases", swept([20, 60], fast=1))
def test_aggregates_equal_those_of_the_tuples_of_the_window(cases: int) -> None:
    budget = Budget("aggregates", cases=cases)

    def case(draw: Any) -> int:
        history = _drawn(draw)
        note(repr(history))
        return play(history, kind=GroupedDuel)

    run_cases(budget, case)


@pytest.mark.parametrize("cases", swept([16, 48, 90], fast=1))
def test_aggregates_over_the_archive_history_and_restarts(tmp_path: Path, cases: int) -> None:
    budget, numbers, seen = Budget("aggregates, stored", cases=cases), itertools.count(), [0, 0, 0]

    def case(draw: Any) -> int:
        history = _drawn(draw, 12)
        rows = draw(st.sampled_from((100, 300)))
        kept = replace(history.declaration, keep_seconds=None, keep_rows=rows, archive=rows - 70)
        history = replace(history, declaration=kept)
        actions: list[Any] = []
        for action in history.actions:
            extra = draw(st.integers(0, 5))
            if extra == 0:
                count, seed = draw(st.integers(0, 150)), draw(st.integers(0, 1 << 16))
                actions.append(Attached(count, 60, seed, 64, False, draw(st.booleans())))
            actions += [action, Maintain()] if extra < 3 else [action]
        every, hot = draw(st.sampled_from((3, 0, 3))), draw(st.sampled_from((HOT, 4_000, 0)))
        note(f"{history!r}\n{actions}\nevery {every}, hot {hot}")
        with (
            making(tmp_path / str(next(numbers)), every, hot, 1_000) as made,
            closing(AttachingGroups(history.declaration, history.config, made, history.pools)) as duel,
        ):
            for action in actions:
                duel.act(action)
            seen[0] += duel.attached
            seen[1] += made.soup.restarts
            seen[2] += made.soup.store.archive_reads
            return duel.compared

    run_cases(budget, case)
    assert min(seen) > 1, f"{seen[0]} attached, {seen[1]} restarts, {seen[2]} columns read are too few to say anything"
