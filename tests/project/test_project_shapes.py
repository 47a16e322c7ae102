"""The predicates of the papers' experiments, on series that pass, fail, and lie on the edge."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import (
    Differs,
    Measured,
    Shape,
    State,
    crossover,
    flat,
    monotone,
    order,
    ratio,
    value,
)

RISING = {1: 1.0, 2: 2.0, 4: 8.0}
FALLING = {1: 6.0, 2: 4.0, 4: 2.0}


@pytest.mark.parametrize(
    ("measured", "expected", "holds"),
    [
        (value(RISING, 4, 8), 8, True),
        (value(RISING, 4, 10, within=0.2), 8, True),
        (value(RISING, 4, 10, within=0.19), 8, False),
        (value({1: 0.0}, 1, 1e-10), 0, True),
        (ratio(RISING, FALLING, 4, 4, 5), 4, True),
        (ratio(RISING, FALLING, 4, 3, 4), 4, True),
        (ratio(RISING, FALLING, 4, 4.1), 4, False),
        (ratio(RISING, FALLING, 4, 0, 3.9), 4, False),
        (ratio(RISING, {4: 0.0}, 4, 4), math.inf, True),
        (order(4, FALLING, RISING), 4, True),
        (order(1, FALLING, RISING), 1 / 6, False),
        (order(1, RISING, RISING), 1, False),
        (order(4, FALLING, RISING, {4: 24.0}), 3, True),
        (crossover(RISING, FALLING, 2.5, 3), 2.5, True),
        (crossover(FALLING, RISING, 2, 2.5), 2.5, True),
        (crossover(RISING, FALLING, 2.6, 4), 2.5, False),
        (crossover(RISING, {1: 0.0, 2: 2.0, 4: 9.0}, 1, 2), 2, True),
        (monotone(RISING), 2, True),
        (monotone(FALLING, rises=False), 1.5, True),
        (monotone({1: 4.0, 2: 4.0}), 1, True),
        (monotone({1: 4.0, 2: 3.0, 3: 9.0}), 0.75, False),
        (monotone({1: 4.0, 2: 3.0, 3: 9.0}, slack=0.25), 0.75, True),
        (flat(FALLING, 3), 3, True),
        (flat(FALLING, 2.9), 3, False),
    ],
)
def test_a_predicate_returns_what_it_measured(measured: Measured, expected: float, holds: bool) -> None:
    assert measured.value == pytest.approx(expected)
    assert measured.holds is holds


def test_series_that_do_not_cross_have_no_crossover() -> None:
    found = crossover(RISING, {1: 2.0, 2: 9.0, 4: 9.0}, 0, 9)
    assert math.isnan(found.value)
    assert not found.holds


@pytest.mark.seeded("an excuse that excuses everything")
@pytest.mark.parametrize(
    ("measured", "stated", "state"),
    [
        (Measured(3.0, holds=True), None, State.AGREES),
        (Measured(3.0, holds=False), None, State.FAILED),
        (Measured(3.0, holds=False), 1.5, State.DIFFERS),
        (Measured(3.0, holds=False), 6.0, State.DIFFERS),
        (Measured(3.0, holds=False), 6.1, State.FAILED),
        (Measured(3.0, holds=False), 1.4, State.FAILED),
        (Measured(3.0, holds=False), math.nan, State.FAILED),
        (Measured(math.nan, holds=False), math.nan, State.DIFFERS),
        (Measured(math.nan, holds=False), 3.0, State.FAILED),
    ],
)
def test_a_stated_difference_excuses_no_other_one(measured: Measured, stated: float | None, state: State) -> None:
    shape = Shape("a shape", measured, None if stated is None else Differs(stated, "of a reason"))
    assert shape.state is state
    assert ("because of a reason" in shape.verdict()) is (state is State.DIFFERS)


def test_a_shape_that_agrees_although_a_difference_is_stated_says_so() -> None:
    verdict = Shape("a shape", Measured(3.0, holds=True), Differs(1, "of a reason")).verdict()
    assert verdict == "agrees (3), although 1 was expected, a difference from the paper"


def test_the_state_of_an_experiment_is_that_of_its_worst_shape() -> None:
    agrees, fails = (Shape("a shape", Measured(3.0, holds=holds)) for holds in (True, False))
    differs = Shape("a shape", Measured(3.0, holds=False), Differs(3, "of a reason"))
    made = Experiment("R99", "none", "a paper", "", "x", "ms", {"a": {1: 2.0}}, [agrees])
    assert made.state is State.AGREES
    assert replace(made, shapes=[agrees, differs]).state is State.DIFFERS
    assert replace(made, shapes=[fails, agrees, differs]).state is State.FAILED
    assert replace(made, kinds={"a": "waits for summaries"}).state is State.WAITS
    assert Experiment.failed("R99", "none", ValueError("no")).state is State.FAILED
    assert "Here: a shape: 3. differs because of a reason" in replace(made, shapes=[differs]).summary()
