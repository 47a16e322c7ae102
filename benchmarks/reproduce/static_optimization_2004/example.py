"""Static optimization, Example 1 and Figure 6: the output of three plans as a join takes longer.

The windows of A, B and C have 10 rows. The rates are 10, 70 and 20 tuples a second, and f(A, B) = 0.5, f(B, C) = 0.2.
Everything follows from the formulas of the paper, so values are compared.
"""

from __future__ import annotations

import numpy as np

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Differs, Series, Shape, crossover, flat, value
from benchmarks.reproduce.static_optimization_2004.plans import Streams, throughput
from benchmarks.tool.run import Run

STREAMS = Streams({"A": 10, "B": 10, "C": 10}, {frozenset("AB"): 0.5, frozenset("BC"): 0.2})
RATES = np.array([10.0, 70.0, 20.0])
PLANS = {"(a) (A B) C": "ABC", "(b) (B C) A": "BCA", "(c) (A C) B": "ACB"}
JOIN_MS = (0.5, 2, 2.5, 3, 3.5, 4, 4.5, 5, 10, 14, 20, 50, 100)
"""Milliseconds of a join for a tuple, in the table."""
FINE = np.arange(1, 20_001) / 200
"""The same for crossings: every 5 us."""


def static_example(_: Run) -> Experiment:
    """The experiment."""
    inputs = {name: float(STREAMS.left_deep(order).cost @ RATES) for name, order in PLANS.items()}
    series = {name: _outputs(order, np.array(JOIN_MS)) for name, order in PLANS.items()}
    a, b, c = PLANS
    shapes = [*_costs(inputs), *_limits(inputs)]
    fine = {name: _outputs(order, FINE) for name, order in PLANS.items()}
    gap = {cost: fine[c][cost] / fine[b][cost] for cost in fine[b]}
    widest = max(gap, key=lambda cost: gap[cost])
    more = {"more": 100 * (inputs[a] / inputs[b] - 1)}
    shapes += [
        Shape(f"at 5 ms {name} gives {expected}", value(series[name], 5, expected, 1e-3))
        for name, expected in ((a, 500), (b, 733.3), (c, 818.2))
    ]
    shapes += [
        Shape("(b) and (c) change places between 4 and 4.5 ms", crossover(fine[b], fine[c], 4, 4.5)),
        Shape("the gap is widest at about 14 ms", value({"gap": widest}, "gap", 14, 0.03)),
        Shape("there (c) gives more than twice as much as (b)", value(gap, widest, 7 / 3, 1e-3)),
        Shape("(b) is the worst from 17 ms", crossover(fine[b], fine[a], 16.5, 17.5)),
        Shape("at 100 ms all give as much", flat({name: series[name][100] for name in PLANS}, 1 + 1e-9)),
        Shape("(a) takes 170 % more than (b)", value(more, "more", 170, 0.01), Differs(78.57, _PERCENT)),
    ]
    published = (
        "at 0.5 ms the plans take 25, 14 and 20 % of the time; load is shed first by (a), then (c), and by (b) from 3.5"
        " ms; (c) is the best plan from between 4 and 4.5 ms; at 100 ms all are equal"
    )
    source = "Static optimization (SIGMOD 2004), Example 1 and Figure 6"
    kinds = dict.fromkeys(PLANS, "formula")
    points: dict[str, Series] = {name: {JOIN_MS[0]: 1_000} for name in PLANS}
    place = ("R22", "static_example", source, published)
    return Experiment(*place, "join, ms", "tuples/s", series, shapes, kinds, points, _PARAMETERS)


_PARAMETERS = "windows of 10 rows, rates 10, 70 and 20 tuples/s, f(A, B) = 0.5, f(B, C) = 0.2"


_PERCENT = "the paper's own rates, 500 and 280 a second, give 79 %"


def _costs(inputs: Series) -> list[Shape]:
    """The tuples a second that come to the joins of each plan, and what part of the time they take."""
    shapes = []
    for name, rate, share in zip(PLANS, (500, 280, 400), (25, 14, 20), strict=True):
        shapes.append(Shape(f"{name} joins {rate} tuples a second", value(inputs, name, rate)))
        used = {name: inputs[name] * 0.0005 * 100}
        shapes.append(Shape(f"{name} takes {share} % of the time at 0.5 ms", value(used, name, share)))
    return shapes


def _limits(inputs: Series) -> list[Shape]:
    """The time of a join from which each plan sheds load."""
    limits = {name: 1e3 / rate for name, rate in inputs.items()}
    return [
        Shape(f"{name} sheds load from {expected} ms", value(limits, name, expected, 1e-3))
        for name, expected in zip(PLANS, (2.0, 3.571, 2.5), strict=True)
    ]


def _outputs(order: str, join_ms: np.ndarray[tuple[int], np.dtype[np.float64]]) -> dict[float, float]:
    """The output of a plan for each time of a join."""
    plan = STREAMS.left_deep(order)
    output = throughput(plan.cost * RATES, plan.output * RATES, 1e3 / join_ms)
    return dict(zip(join_ms.tolist(), output.tolist(), strict=True))
