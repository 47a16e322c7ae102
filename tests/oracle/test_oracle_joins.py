"""Random joins of one to four streams, and all that may happen to their data: every answer against DuckDB."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.oracles.join_duel import JoinDuel
from psoup_testing.suite.budget import Budget, run_cases
from psoup_testing.suite.sweeps import swept


class GroupingDuel(JoinDuel):
    """Histories with many grouped joins: few of their answers have several groups."""

    GROUPED = 60


@pytest.mark.parametrize("cases", swept([72, 120, 180], fast=1))
def test_joins_equal_the_query_run_once_over_their_windows(cases: int, tmp_path: Path) -> None:
    budget = Budget("joins", cases=cases)
    histories = nonempty = grouped = 0

    def case(draw: Any) -> int:
        nonlocal histories, nonempty, grouped
        seed = draw(st.integers(0, 2**48))
        note(f"seed {seed}")
        histories += 1
        duel = GroupingDuel(seed, tmp_path / str(histories))
        try:
            duel.run(events=16)
        finally:
            duel.close()
        nonempty += duel.nonempty
        grouped += duel.grouped
        return duel.compared

    run_cases(budget, case)
    assert nonempty > budget.cases // 4, f"only {nonempty} answers had rows"
    assert grouped > budget.cases // 25, f"only {grouped} answers had several groups"


@pytest.mark.parametrize("last", swept([2, 9], fast=1))
@pytest.mark.parametrize("kind", swept(["idle", "jobs", "ends"], fast=1))
def test_what_random_histories_seldom_have(tmp_path: Path, kind: str, last: int) -> None:
    """Streams that are idle and wake; history that is attached, and sides that jobs cover; ends after NOW."""
    met = Counter[str]()
    for seed in range(1, last + 1):  # of seed 0 DuckDB computes a join of seven sources for half a minute
        duel = JoinDuel(seed, tmp_path / str(seed), **{kind: True})
        try:
            duel.run(events=8)
            duel.work()
            duel.wake()
        finally:
            duel.close()
        met.update(idle=duel.idled, attached=duel.attached, covered=duel.covered, ends=duel.cut)
    wanted = ["attached", "covered"] if kind == "jobs" else [kind]
    assert all(met[what] >= min(last, 4) for what in wanted), met
