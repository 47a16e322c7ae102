"""T11: relations between answers that hold without knowing any of them.

P, NOT P and P IS NULL share out the tuples          sizes, thresholds and maintenance change no answer
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import note

from psoup.config import EngineConfig
from psoup.model import BOOLEAN
from psoup_testing.engines.recorded import Player
from psoup_testing.histories.expressions import Expression, Maker, Scope
from psoup_testing.histories.histories import (
    EAGER,
    MAX_AHEAD,
    Invoke,
    Maintain,
    Push,
    Register,
    Unregister,
    draw_history,
)
from psoup_testing.histories.predicates import Leaf, Negation, draw_predicate
from psoup_testing.histories.queries import ID, Query
from psoup_testing.oracles.questions import again, rows_of
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept


@pytest.mark.parametrize("cases", swept([32, 110], fast=1))
def test_a_predicate_its_negation_and_its_unknown_share_out_the_tuples(cases: int) -> None:
    budget = Budget("T11 partition", cases=cases)

    def case(draw: Any) -> int:
        history = draw_history(draw, events=5)
        make = Maker(draw, Scope(history.declaration.schema, history.pools), 1)
        where = draw_predicate(make)
        raw = Expression(BOOLEAN, where.psoup_sql().replace("{", "{{").replace("}", "}}"))
        parts = [where, Negation(where), Leaf("is_null", next(iter(where.leaves())).about, _unknown(raw))]
        queries = [Query("s", (), (ID,), part) for part in [*parts, None]]
        # one third is registered before all data, one in between, the rest after
        actions = [a for a in history.actions if not isinstance(a, Register | Unregister | Invoke)]
        half = len(actions) // 2
        actions = [Register(queries[0]), *actions[:half], Register(queries[1]), Maintain(), *actions[half:]]
        actions += [Register(query) for query in queries[2:]]
        played = Player(replace(history, actions=tuple(actions), declaration=_keep_all(history.declaration)))
        note(repr(replace(history, actions=tuple(actions))))
        if played.query_ids[:3] == [None] * 3:  # a constant of the predicate is an error, which is said at once
            return 0
        assert None not in played.query_ids, played.said
        answers = [again(played.psoup.invoke, query_id) for query_id in played.standing()]
        found = [[row[0] for row in rows_of(answer)] for answer in answers]
        together = sorted(i for part in found[:3] for i in part)
        assert len(together) == len(set(together)), f"a tuple is in two parts: {found[:3]}"
        lost = set(found[3]) - set(together)
        errors = [answer.completeness.errors for answer in answers]
        assert not lost or max(errors), f"tuples {sorted(lost)[:5]} are in no part, and no error explains it"
        return 1

    run_cases(budget, case)


def _unknown(raw: Expression) -> Expression:
    return Expression(BOOLEAN, "({0}) IS NULL", (raw,))


def _keep_all(declaration: Any) -> Any:
    return replace(declaration, keep_seconds=None, keep_rows=None)


VARIANTS = (
    EngineConfig(
        chunk_rows=64,
        piece_rows=5,
        dense_share=1,
        list_limit=1024,
        delta_queries=1,
        ahead=MAX_AHEAD,
        shape=EAGER,
    ),
    EngineConfig(
        chunk_rows=128,
        dense_share=1 << 40,
        sparse_floor=0,
        list_limit=0,
        results_bytes=0,
        ahead=MAX_AHEAD,
        shape=EAGER,
    ),
    EngineConfig(ahead=MAX_AHEAD),
)


@pytest.mark.parametrize("cases", swept([80, 320], fast=1))
def test_sizes_thresholds_and_maintenance_change_no_answer(cases: int) -> None:
    budget = Budget("T11 configurations", cases=cases)

    def case(draw: Any) -> int:
        history = draw_history(draw, events=12)
        note(repr(history))
        first = Player(history)
        for number, config in enumerate(VARIANTS):
            other = Player(history.under(config), maintain_always=number % 2 == 0)
            for action, left, right in zip(history.actions, first.said, other.said, strict=True):
                assert left == right, f"{action}\n{history.config}: {left}\n{config}: {right}"
        return sum(isinstance(action, Invoke) for action in history.actions) * len(VARIANTS)

    run_cases(budget, case)


@pytest.mark.parametrize("cases", swept([8, 20], fast=1))
def test_batches_may_be_cut_anywhere_in_system_time(cases: int) -> None:
    budget = Budget("T11 batches", cases=cases)

    def case(draw: Any) -> int:
        history = draw_history(draw, events=8)
        if history.declaration.time_column is not None:
            return 0
        cut: list[Any] = []
        for action in history.actions:
            if isinstance(action, Push):
                cut += [Push(action.rows[at : at + 7]) for at in range(0, len(action.rows), 7)]
            else:
                cut.append(action)
        whole, parts = Player(history), Player(replace(history, actions=tuple(cut)))
        kept = [said for action, said in zip(history.actions, whole.said, strict=True) if not isinstance(action, Push)]
        other = [said for action, said in zip(cut, parts.said, strict=True) if not isinstance(action, Push)]
        assert kept == other
        return 1

    run_cases(budget, case)
