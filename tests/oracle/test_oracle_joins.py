"""Random joins of one to four streams, and all that may happen to their data: every answer against DuckDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st

from psoup_testing.budget import Budget, run_cases
from psoup_testing.join_duel import JoinDuel


def test_joins_equal_the_query_run_once_over_their_windows(tmp_path: Path) -> None:
    budget = Budget("joins", cases=300)
    histories = nonempty = idled = 0

    def case(draw: Any) -> int:
        nonlocal histories, nonempty, idled
        seed = draw(st.integers(0, 2**48))
        note(f"seed {seed}")
        histories += 1
        duel = JoinDuel(seed, tmp_path / str(histories))
        try:
            duel.run(events=16)
        finally:
            duel.close()
        nonempty, idled = nonempty + duel.nonempty, idled + duel.idled
        return duel.compared

    run_cases(budget, case)
    assert nonempty > budget.cases // 4, f"only {nonempty} answers had rows"
    assert idled > budget.cases // 40, f"only {idled} answers left a stream out"
