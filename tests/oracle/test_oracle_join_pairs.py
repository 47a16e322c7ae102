"""The coverage counter of joins: every kind of factor, type, window, coverage and route meets every other, or it fails.

Directed cases, the same in every run, each against DuckDB; a pair counts if the answer in which it met has rows.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from psoup.joins.policies import Learned
from psoup_testing.oracles.join_sweep import FORMS, Swept, cases, required

MOST_CASES = 160
"""There are ninety pairs of a kind of factor and a type alone; a full product would be twenty thousand cases."""


@pytest.mark.long
def test_every_part_of_a_join_meets_every_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    all_cases = [*enumerate(cases())]
    assert len(all_cases) <= MOST_CASES
    met = set()
    for coverage in FORMS:
        wanted = [(number, case) for number, case in all_cases if case.coverage == coverage]
        with closing(Swept(coverage, tmp_path / coverage, wanted)) as swept:
            for number, case in wanted:
                monkeypatch.setattr(Learned, "policy", lambda _, case=case, number=number: case.policy(number))
                rows, problem = swept.compare(case)
                assert problem is None, problem
                met |= case.pairs if rows else set()
    assert sorted(required() - met) == []
