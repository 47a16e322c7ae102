"""The formulas of static optimization and of Chain, beside brute force, and the published values of R22 to R26."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from benchmarks.reproduce.__main__ import EXPERIMENTS
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import State
from benchmarks.reproduce.static_optimization_2004.plans import Streams, shares, throughput
from benchmarks.reproduce.stream_2003.chain import (
    ARRIVALS,
    CASCADE,
    CHAIN,
    FIFO,
    STEPS,
    Step,
    bursts,
    chain,
    envelope,
    fifo,
    sizes_of,
)
from benchmarks.tool.run import Run, Size
from psoup_testing.suite.sweeps import swept

STATES = {
    "R22": State.DIFFERS,
    "R23": State.AGREES,
    "R24": State.DIFFERS,
    "R25": State.DIFFERS,
    "R26": State.AGREES,
}
"""R22, R24 and R25 have a shape that differs in the stated way. In R22 the text of the paper is in error."""


def made(number: str) -> Experiment:
    """An experiment."""
    return next(entry for entry in EXPERIMENTS if entry.number == number).make(Run(Size.WHOLE))


@pytest.mark.parametrize("number", swept(STATES, fast=1))
def test_what_follows_from_formulas_comes_out(number: str) -> None:
    experiment = made(number)
    assert experiment.state is STATES[number], experiment.summary()
    assert [shape.state for shape in experiment.shapes].count(State.DIFFERS) == (STATES[number] is State.DIFFERS)


@pytest.mark.seeded("window and selectivity of two streams exchanged in a plan")
def test_every_plan_has_the_output_of_the_paper() -> None:
    """Equation (18): the product of all selectivities and, for each stream, of the other windows."""
    streams = Streams({"A": 2, "B": 3, "C": 5, "D": 7}, {frozenset("AB"): 0.5, frozenset("BD"): 0.25})
    expected = [0.125 * 210 / rows for rows in streams.windows.values()]
    for order in streams.orders():
        np.testing.assert_allclose(streams.left_deep(order).output, expected)


def test_a_plan_costs_the_tuples_that_come_to_its_joins() -> None:
    streams = Streams({"A": 10, "B": 20, "C": 40}, {frozenset("AB"): 0.5, frozenset("BC"): 0.1})
    rates = np.array([1.0, 2.0, 3.0])
    between = {"AB": 0.5 * (20 * 1 + 10 * 2), "BC": 0.1 * (40 * 2 + 20 * 3), "AC": 40 * 1 + 10 * 3}
    for order, rate in between.items():
        third = next(name for name in "ABC" if name not in order)
        assert streams.left_deep(order + third).cost @ rates == pytest.approx(rates.sum() + rate)


@pytest.mark.seeded("a knapsack sorted the wrong way")
@pytest.mark.parametrize("seed", range(4))
def test_no_other_shares_give_more(seed: int) -> None:
    """Against all shares in steps of a tenth that fit; the best ones leave nothing of the resources unused."""
    random = np.random.default_rng(seed)
    cost, gain = random.uniform(1, 9, (2, 3))
    resources = np.array(random.uniform(0.1, 0.9) * cost.sum())
    part = shares(cost, gain, resources)
    assert ((part >= 0) & (part <= 1)).all()
    assert part @ cost == pytest.approx(float(resources))
    tried = np.array([*product(np.linspace(0, 1, 11), repeat=3)])
    assert throughput(cost, gain, resources) >= (tried[tried @ cost <= resources] @ gain).max() - 1e-9


def test_the_rows_of_the_chain_table() -> None:
    assert sizes_of(STEPS, ARRIVALS, fifo) == pytest.approx(FIFO)
    assert sizes_of(STEPS, ARRIVALS, chain) == pytest.approx(CHAIN)


@pytest.mark.seeded("a Chain envelope taken from the upper side")
def test_an_envelope_takes_a_step_that_drops_little_with_the_next_one() -> None:
    assert envelope(STEPS) == pytest.approx([0.8, 0.2])
    assert envelope(CASCADE) == pytest.approx([0.41, 0.41, 0.18], abs=0.011)
    assert envelope((Step(1, 0.5), Step(0.5, 0.1))) == pytest.approx([0.5, 0.45])


def test_schedulers_process_the_same_tuples() -> None:
    """Each scheduler is busy whenever there are tuples, and ends with empty queues at the same time."""
    trace = [*bursts(200), *(0.0,) * 200]
    ends = [max(time for time, size in enumerate(sizes_of(CASCADE, trace, turn)) if size) for turn in (chain, fifo)]
    assert ends[0] == ends[1]
