"""The budget of a random test: so many cases, the same on every machine and under any load.

    round 1, seed 0: 20 examples | round 2, seed 1: 20 examples | … 7 examples: enough was compared: end

Each round is one small Hypothesis run with its own seed, so that a failure can be repeated by its seed. The last one
ends between two examples: twenty of some tests are several times what the test is to compare. Without `PSOUP_TEST_SEED`
the seeds begin at 0: the same cases in every run, so what a test asks for at its end (so many restarts, so many
refusals) is there always or never. `PSOUP_TEST_SCALE=50` multiplies the cases, for `make soak`; from 20 on, a test that
goes through the places of a fixed script (`places`) visits all of them. A failure is shown as it was found;
`PSOUP_TEST_SHRINK=1` with its seed makes it small, which may take minutes.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any
from unittest import SkipTest

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.errors import FlakyFailure
from hypothesis.internal.conjecture import providers

SCALE = float(os.environ.get("PSOUP_TEST_SCALE", "1"))
SEED = int(os.environ.get("PSOUP_TEST_SEED", "0"))
SHRINK = os.environ.get("PSOUP_TEST_SHRINK", "0") != "0"
ALL_PLACES = 20
"""The scale from which on `places` are all."""
providers._get_local_constants = lambda: providers._local_constants
"""Hypothesis also draws constants that stand in the source of loaded modules: other cases from the same seed, by which
tests ran before and by where the tree lies. So it knows of none."""
BUDGETS: list[Budget] = []
"""All budgets of this process, for the summary at its end."""


@st.composite
def draws(draw: Any) -> Any:
    """`draw` itself, to be used during one example. `st.data()` would print every single choice of a failure."""
    return draw


class Budget:
    """The number of cases of a random test. The test defines a case. `first`: added to all seeds."""

    def __init__(self, name: str, cases: int, first: int = 0) -> None:
        self.name = name
        self.first = first
        self.cases = int(cases * SCALE)
        self.done = 0
        self.elapsed = 0.0
        BUDGETS.append(self)

    def count(self, cases: int = 1) -> None:
        """Count cases that have passed."""
        self.done += cases

    def rounds(self) -> Iterator[int]:
        """Seeds, one a round, until the budget is spent."""
        started, number = time.monotonic(), SEED + self.first
        while not self.spent:
            yield number
            number += 1
            self.elapsed = time.monotonic() - started

    @property
    def spent(self) -> bool:
        """Whether all cases are done."""
        return self.done >= self.cases

    def report(self) -> str:
        """The line of the summary."""
        return f"{self.name}: {self.done} cases in {self.elapsed:.0f} s ({self.cases} wanted)"


def places(total: int, bounded: int) -> list[int]:
    """Which of the places 0 … total - 1 of a fixed script a test visits: `bounded`, times the scale, or all."""
    count = total if SCALE >= ALL_PLACES else min(total, max(bounded, round(bounded * SCALE)))
    return sorted(random.Random(SEED).sample(range(total), count))


def unscaled(count: int) -> int:
    """The cases to give a `Budget` that has `count` of them at all scales up to 1."""
    return math.ceil(count / min(SCALE, 1))


def scaled(count: int) -> int:
    """The number of examples of a test with its own settings: `count` times the scale, at most ten times `count`."""
    return max(1, int(count * min(SCALE, 10)))


def round_settings(examples: int, **more: Any) -> settings:
    """Settings of one round. The phases that shrink and explain a failure take longer than a test may."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        print_blob=False,
        phases=(Phase.generate, Phase.shrink) if SHRINK else (Phase.generate,),
        suppress_health_check=list(HealthCheck),
        **more,
    )


class Spent(SkipTest):
    """The exception that ends a round of Hypothesis between two examples. Hypothesis lets it pass like a skipped
    test.
    """


def run_cases(budget: Budget, case: Callable[[Any], int], examples: int = 20) -> None:
    """Run `case(draw)`, which returns how many comparisons it made, round after round within the budget."""

    def counted(draw: Any) -> int:
        compared = case(draw)
        budget.count(compared)
        if budget.spent:  # after the example: one that draws less than another did is an error to Hypothesis
            raise Spent
        return compared

    for number in budget.rounds():
        with suppress(Spent):
            run_round(number, counted, examples)


def run_round(number: int, case: Callable[[Any], int], examples: int) -> int:
    """Run a round of `case(draw)` with a seed; returns the number of comparisons."""
    done = 0

    @seed(number)
    @round_settings(examples)
    @given(draws())
    def one_round(draw: Any) -> None:
        nonlocal done
        done += case(draw)

    with replayable(number):
        one_round()
    return done


@contextmanager
def replayable(number: int) -> Iterator[None]:
    """A failure inside says from which seed the round can be run again.

    Hypothesis runs a failed example again. If pytest ended it for its time, it passes then, and Hypothesis calls the
    test flaky. Here it fails as other tests do whose time is over.
    """
    try:
        yield
    except Exception as problem:
        if (failure := _failure_of_pytest(problem)) is not None:
            raise failure from None
        test = os.environ.get("PYTEST_CURRENT_TEST", "").split(" ")[0]
        command = f"PSOUP_TEST_SEED={number} PSOUP_TEST_SHRINK=1 python -m pytest --import-mode=importlib '{test}'"
        problem.add_note(f"replay with: {command}")
        raise


def _failure_of_pytest(problem: Exception) -> pytest.fail.Exception | None:
    """Return the failure that pytest raised in an example that passed when it was run again, or None."""
    parts = problem.exceptions if isinstance(problem, FlakyFailure) else ()
    causes = (part.__cause__ for part in parts)
    return next((cause for cause in causes if isinstance(cause, pytest.fail.Exception)), None)
