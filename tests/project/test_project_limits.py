"""The limits of tests: on work, and on time."""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest

from psoup_testing.engines.within import in_calls, within
from psoup_testing.suite.budget import run_round


def test_a_limit_on_calls_counts_them_and_ends_endless_work() -> None:
    def work(turns: int) -> int:
        return sum(map(abs, [abs(-1) for _ in range(turns)]))

    def endless() -> None:
        while True:
            try:
                abs(-1)
            except Exception:
                continue

    assert in_calls(1_000, lambda: work(100)) == 100
    with pytest.raises(AssertionError, match="more than 1,000 calls"):
        in_calls(1_000, lambda: work(1_000))
    with pytest.raises(AssertionError, match="more than 1,000 calls"):
        in_calls(1_000, endless)


def test_a_limit_on_time_takes_the_best_of_three() -> None:
    turns = iter([10**7, 0])
    assert within(0.05, lambda: sum(range(next(turns)))) == 0
    with pytest.raises(AssertionError, match="may take 0"):
        within(0, lambda: None)


def test_a_random_case_that_took_too_long_is_not_called_flaky() -> None:
    numbers = count()

    def case(draw: Any) -> int:
        if next(numbers) == 0:
            pytest.fail("Timeout (>600.0s) from pytest-timeout.")  # as pytest-timeout does it, inside of the case
        return 1

    with pytest.raises(pytest.fail.Exception, match="Timeout"):
        run_round(0, case, 5)
