"""The soak for some seconds: answers are right at the end, and a leak or a wrong answer is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import soak
from benchmarks.tool.processes import served


@pytest.mark.long
def test_a_service_under_load_and_churn_answers_right() -> None:
    found = soak.soak(3.0, standing=64, churn=4)
    assert found["problems"] == []
    assert found["wrong"] == []
    assert found["compared"] == found["queries"] == 64
    assert found["replaced"] >= 4
    assert found["invocations"] > 0
    assert found["tuples"] > 0
    assert found["memory_mb"] > 0


@pytest.mark.long
def test_a_wrong_answer_is_noticed(tmp_path: Path) -> None:
    with served(tmp_path, durable=False) as there:
        run = soak.Soak(there, 0.5, standing=8, churn=1)
        taken = run.columns.copy()
        run.columns = taken
        found = run.run()
        assert found["wrong"] == []
        run.columns = 255 - taken
        assert len(run._wrong_answers()) == 8


@pytest.mark.parametrize(
    ("rise", "expected"),
    [(0, True), (50 << 20, True), (300 << 20, False)],
    ids=["level", "little", "leak"],
)
def test_memory_that_rises_is_no_level(rise: int, expected: bool) -> None:
    warm_up = [(float(k), k * 10_000_000) for k in range(50)]
    noise = np.random.default_rng(1).integers(0, 5 << 20, 100)
    after = [(50.0 + k, (1 << 30) + rise * k // 100 + int(noise[k])) for k in range(100)]
    growth, median = soak.growth_of(warm_up + after)
    assert growth == pytest.approx(rise, abs=4 << 20)
    assert soak.flat(growth, median) is expected
