"""Streams whose chunks are thinned at random times: every answer against DuckDB over the rows that are left."""

from __future__ import annotations

import itertools
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.engines.restarts import HOT, making
from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import History, Maintain, Push, draw_history, make_rows
from psoup_testing.oracles.groups import with_groups
from psoup_testing.oracles.thinning_duel import ThinningDuel, ThinningGroups, ThinningJoins, with_thinnings
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept


def _maker(draw: Any, history: History) -> Maker:
    return Maker(draw, Scope(history.declaration.schema, history.pools), 2)


def _maintained(make: Maker, history: History) -> list[Any]:
    """The actions after a first push, with maintenance and thinnings among them."""
    rows = make_rows(history.declaration, history.pools, make.number(60, 200), 0, make.number(0, 1 << 16))
    actions: list[Any] = [Push(tuple(rows)), Maintain()]
    for action in history.actions:
        actions += [action, Maintain()] if make.number(0, 2) else [action]
    return with_thinnings(make, actions)


@pytest.mark.parametrize("cases", swept([20, 60], fast=1))
def test_answers_over_thinned_chunks_equal_the_query_over_the_rows_left(cases: int) -> None:
    budget, seen = Budget("thinned", cases=cases), [0]

    def case(draw: Any) -> int:
        history = draw_history(draw, 16)
        actions = _maintained(_maker(draw, history), history)
        note(f"{history!r}\n{actions}")
        with closing(ThinningDuel(history.declaration, history.config, shards=history.shards)) as duel:
            duel.run(actions)
            seen[0] += duel.thinned
            return duel.compared

    run_cases(budget, case)
    assert seen[0] > budget.cases // 4, f"only {seen[0]} chunks were thinned"


@pytest.mark.parametrize("cases", swept([16, 40], fast=1))
def test_aggregates_over_thinned_chunks_equal_those_of_the_rows_left(cases: int) -> None:
    budget, seen = Budget("thinned aggregates", cases=cases), [0]

    def case(draw: Any) -> int:
        history = draw_history(draw, 16)
        history = with_groups(_maker(draw, history), history)
        actions = _maintained(_maker(draw, history), history)
        note(f"{history!r}\n{actions}")
        with closing(ThinningGroups(history.declaration, history.config, shards=history.shards)) as duel:
            duel.run(actions)
            seen[0] += duel.thinned
            return duel.compared

    run_cases(budget, case)
    assert seen[0] > budget.cases // 4, f"only {seen[0]} chunks were thinned"


def test_answers_over_thinned_chunks_on_disk_and_after_restarts(tmp_path: Path) -> None:
    budget, numbers, seen = Budget("thinned, stored", cases=40), itertools.count(), [0, 0, 0]

    def case(draw: Any) -> int:
        every, hot = draw(st.sampled_from((0, 3))), draw(st.sampled_from((HOT, 4_000, 0)))
        history = draw_history(draw, 14)
        make = _maker(draw, history)
        declared = replace(history.declaration, keep_seconds=None, keep_rows=None)
        rows = make.pick((0, 100, 300))
        if rows:
            declared = replace(declared, keep_rows=rows, archive=rows - make.pick((1, 70)))
        history = replace(with_groups(make, history), declaration=declared)
        actions = _maintained(make, history)
        note(f"{history!r}\n{actions}\nevery {every}, hot {hot}")
        with (
            making(tmp_path / str(next(numbers)), every, hot) as made,
            closing(ThinningGroups(history.declaration, history.config, make=made)) as duel,
        ):
            duel.run(actions)
            seen[0] += duel.thinned
            seen[1] += made.soup.restarts
            seen[2] += made.soup.store.archive_reads
            return duel.compared

    run_cases(budget, case)
    assert min(seen) > 0, f"{seen[0]} thinned, {seen[1]} restarts, {seen[2]} columns read are too few to say anything"


@pytest.mark.parametrize("cases", swept([16, 40], fast=1))
def test_joins_over_thinned_chunks_equal_those_of_the_rows_left(cases: int, tmp_path: Path) -> None:
    budget, numbers, seen = Budget("thinned joins", cases=cases), itertools.count(), [0, 0]

    def case(draw: Any) -> int:
        seed = draw(st.integers(0, 2**48))
        note(f"seed {seed}")
        duel = ThinningJoins(seed, tmp_path / str(next(numbers)))
        try:
            duel.run(events=16)
        finally:
            duel.close()
        seen[0] += duel.thinned
        seen[1] += duel.nonempty
        return duel.compared

    run_cases(budget, case)
    assert min(seen) > 1, f"{seen[0]} chunks thinned and {seen[1]} answers with rows are too few"
