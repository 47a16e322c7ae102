"""Streams whose chunks are thinned at random times: every answer against DuckDB over the rows that are left."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from hypothesis import note

from psoup_testing.histories.expressions import Maker, Scope
from psoup_testing.histories.histories import History, Maintain, draw_history
from psoup_testing.oracles.groups import with_groups
from psoup_testing.oracles.thinning_duel import ThinningDuel, ThinningGroups, with_thinnings
from psoup_testing.suite.budget import Budget, run_cases


def _maker(draw: Any, history: History) -> Maker:
    return Maker(draw, Scope(history.declaration.schema, history.pools), 2)


def _maintained(make: Maker, history: History) -> list[Any]:
    """The actions, with maintenance and thinnings among them."""
    actions = list[Any]()
    for action in history.actions:
        actions += [action, Maintain()] if make.number(0, 2) else [action]
    return with_thinnings(make, actions)


def test_answers_over_thinned_chunks_equal_the_query_over_the_rows_left() -> None:
    budget, seen = Budget("thinned", cases=180), [0]

    def case(draw: Any) -> int:
        history = draw_history(draw, 16)
        actions = _maintained(_maker(draw, history), history)
        note(f"{history!r}\n{actions}")
        with closing(ThinningDuel(history.declaration, history.config, shards=history.shards)) as duel:
            duel.run(actions)
            seen[0] += duel.thinned
            return duel.compared

    run_cases(budget, case)
    assert seen[0] > budget.cases // 2, f"only {seen[0]} chunks were thinned"


def test_aggregates_over_thinned_chunks_equal_those_of_the_rows_left() -> None:
    budget, seen = Budget("thinned aggregates", cases=90), [0]

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
    assert seen[0] > budget.cases // 2, f"only {seen[0]} chunks were thinned"
