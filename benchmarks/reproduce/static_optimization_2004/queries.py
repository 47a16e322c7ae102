"""Static optimization, Figures 7 to 10: a thousand queries of five streams whose rates differ.

    R23   the queries whose cheapest plan is not the best one to shed load from
    R24   the output of the best plan beside the cheapest one
    R25   the output of the plan that dynamic programming finds, beside the best one

Resources are a share of those at which the cheapest plan of a query is saturated. All left-deep plans are compared,
also those with cross products. Without these, at most 20 % of the queries need another plan, so the paper allowed them.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Differs, Shape, crossover, flat, monotone, value
from benchmarks.reproduce.static_optimization_2004.plans import FEASIBLE, Floats, Plan, Streams, shares, throughput
from benchmarks.tool.run import Run

STREAMS = Streams(
    {"A": 100, "B": 300, "C": 500, "D": 400, "E": 1000},
    {frozenset("AB"): 0.2, frozenset("AC"): 0.5, frozenset("BD"): 0.1, frozenset("DE"): 0.001},
)
QUERIES = 1_000
LEVELS = (100, 90, 80, 70, 60, 50, 40, 30, 20, 10, 1)
"""Resources in percent of those at saturation."""
SOURCE = "Static optimization (SIGMOD 2004)"
PARAMETERS = f"{QUERIES:,} queries of five streams, rates uniform in [10, 1000), left-deep plans with cross products"
_MORE = 1 + 1e-9


class Costs(NamedTuple):
    """Every query under every plan: costs and outputs of all tuples of each stream, float64[queries, plans, streams].

    `saturation`: the cost of the cheapest plan of each query, float64[queries].
    """

    cost: Floats
    output: Floats
    saturation: Floats

    def best(self, level: int) -> tuple[Floats, Floats]:
        """The output of the best plan of each query, and of the cheapest plan, float64[queries]."""
        resources = np.broadcast_to((self.saturation * level / 100)[:, None], self.cost.shape[:2])
        outputs = throughput(self.cost, self.output, resources)
        cheapest = self.cost.sum(-1).argmin(1)
        return outputs.max(1), outputs[np.arange(len(outputs)), cheapest]


@cache
def costs() -> Costs:
    """The costs of the queries."""
    plans = [STREAMS.left_deep(order) for order in STREAMS.orders()]
    cost = rates()[:, None, :] * np.stack([plan.cost for plan in plans])
    output = rates()[:, None, :] * np.stack([plan.output for plan in plans])
    return Costs(cost, output, cost.sum(-1).min(1))


@cache
def rates() -> Floats:
    """The rates of the streams, float64[queries, streams]."""
    return np.random.default_rng(1).uniform(10, 1_000, (QUERIES, len(STREAMS.names)))


def need(_: Run) -> Experiment:
    """R23: the share of the queries whose cheapest plan is not the best."""
    needed = {}
    for level in LEVELS:
        best, cheapest = costs().best(level)
        needed[level] = 100 * float((best > cheapest * _MORE).mean())
    half = dict.fromkeys(LEVELS, 50.0)
    shapes = [
        Shape("below saturation the need rises", monotone({at: needed[at] for at in LEVELS[1:]})),
        Shape("at about 60 % of the resources half of the queries need it", crossover(needed, half, 50, 65)),
        Shape("from 30 % on it is flat", flat({at: needed[at] for at in LEVELS[7:]}, 1.15)),
        Shape("there nearly all need it", value(needed, 20, 95, 0.05)),
    ]
    published = "almost linear; more than half from about 60 % of the resources; flat from about 30 %"
    series, kinds = {"in need": needed}, {"in need": "formula"}
    place = ("R23", "static_need", f"{SOURCE}, Figure 7", published)
    return Experiment(*place, "resources, %", "%", series, shapes, kinds, {"in need": {60: 50}}, PARAMETERS)


def gain(_: Run) -> Experiment:
    """R24: the mean gain of the best plan over the cheapest one."""
    series: dict[str, dict[int, float]] = {"mean": {}, "mean of those in need": {}, "greatest": {}}
    for level in LEVELS[1:]:
        best, cheapest = costs().best(level)
        gains = 100 * (best / cheapest - 1)
        figures = (gains.mean(), gains[best > cheapest * _MORE].mean(), gains.max())
        for values, figure in zip(series.values(), figures, strict=True):
            values[level] = float(figure)
    mean, _in_need, greatest = series.values()
    folds = {1: 1 + mean[1] / 100}
    spread = {level: greatest[level] / mean[level] for level in LEVELS[4:]}
    shapes = [
        Shape("at 60 % the mean gain is 4 %", value(mean, 60, 4, 0.05)),
        Shape("at 1 % the best plan gives almost eight times as much", value(folds, 1, 8, 0.1)),
        Shape("the mean gain rises as resources decrease", monotone(mean)),
        Shape(
            "the greatest gain by the mean falls as resources decrease",
            monotone(spread, rises=False),
            Differs(0.358, _LAST),
        ),
    ]
    published = (
        "4 % at 60 % of the resources, almost 8-fold at 1 %; the greatest gain by the mean falls as resources decrease"
    )
    place = ("R24", "static_gain", f"{SOURCE}, Figures 8 and 9", published)
    kinds = dict.fromkeys(series, "formula")
    return Experiment(*place, "resources, %", "%", series, shapes, kinds, {"mean": {60: 4, 1: 700}}, PARAMETERS)


_LAST = "it falls from 12 at 60 % to 3.8 at 10 %, and is 10 at 1 %, where one query gains 68-fold"


def heuristic(_: Run) -> Experiment:
    """R25: how far the plan of dynamic programming is from the best one."""
    mean, greatest, two = {}, {}, {}
    for level in LEVELS:
        searched, best, last_two = _searched(level)
        errors = np.round(100 * (1 - searched / best), 9)
        mean[level], greatest[level] = float(errors.mean()), float(errors.max())
        two[level] = 100 * float(last_two.mean())
    off = {level: mean[level] for level in LEVELS[:-1]}
    worst = {"error": max(off.values())}
    shapes = [
        Shape("above 1 % of the resources the mean error is at most 0.2 %", value(worst, "error", 0.1, 0.1)),
        Shape("at 1 % the mean error is 28 %", value(mean, 1, 28, 0.1), Differs(1.551e-5, _LONE)),
        Shape("no error is above 100 %", value({"error": max(greatest.values())}, "error", 50, 1)),
    ]
    published = "the mean error is at most 0.2 %, but 28 % at 1 % of the resources; no error is above 100 %"
    place = ("R25", "static_heuristic", f"{SOURCE}, Figure 10", published)
    series = {
        "mean error": mean,
        "greatest error": greatest,
        "best plan keeps the last two streams only": two,
    }
    kinds = dict.fromkeys(series, "formula")
    return Experiment(*place, "resources, %", "%", series, shapes, kinds, {"mean error": {1: 28}}, PARAMETERS)


_LONE = (
    "the best plan of every query then keeps all tuples of the stream that is joined last, as these are cheap, and some"
    " of the one before it; dynamic programming finds this plan, as each of its steps sheds load anew"
)


class _Found(NamedTuple):
    """The best plan for a set of streams, of each query: coefficients, and the shares that streams keep."""

    plan: Plan
    shares: Floats


def _searched(level: int) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """The value of the plan that dynamic programming finds, and of the best one: output by used share of resources.

    Also whether the best plan keeps tuples of the last two streams only. Each is [queries].
    """
    every, resources = costs(), costs().saturation * level / 100
    best = {frozenset(name): _Found(_spread(STREAMS.alone(name)), np.ones_like(rates())) for name in STREAMS.names}
    searched = np.zeros(QUERIES)
    for size in range(2, len(STREAMS.names) + 1):
        for names in combinations(STREAMS.names, size):
            tried = [_extended(best[frozenset(names) - {last}], names, last, resources) for last in names]
            winner = np.stack([values for values, _ in tried]).argmax(0)
            parts = [[*candidate.plan, candidate.shares] for _, candidate in tried]
            *plan, keeps = (np.stack(part)[winner, np.arange(QUERIES)] for part in zip(*parts, strict=True))
            best[frozenset(names)] = _Found(Plan(*plan), keeps)
            searched = np.stack([values for values, _ in tried]).max(0)
    limits = np.broadcast_to(resources[:, None], every.cost.shape[:2])
    outputs = throughput(every.cost, every.output, limits)
    values = outputs / np.minimum(every.cost.sum(-1) / limits, 1)
    top = values.argmax(1)
    keeps = shares(every.cost, every.output, limits)[np.arange(QUERIES), top]
    first = np.array([[STREAMS.names.index(name) for name in order[:-2]] for order in STREAMS.orders()])[top]
    last_two: npt.NDArray[np.bool_] = np.logical_not(np.take_along_axis(keeps, first, 1).any(1))
    return searched, values.max(1), last_two


def _spread(plan: Plan) -> Plan:
    """The same plan for every query."""
    size = len(STREAMS.names)
    cost, output = (np.broadcast_to(part, (QUERIES, size)) for part in plan[:2])
    return Plan(cost, output, np.full(QUERIES, plan.window))


def _extended(sub_plan: _Found, names: tuple[str, ...], last: str, resources: Floats) -> tuple[Floats, _Found]:
    """A plan joined with one more stream. If it costs more than the resources, its streams shed load anew.

    Returns its value for each query, and the plan.
    """
    plan = STREAMS.joined(sub_plan.plan, [name for name in names if name != last], last)
    places = [STREAMS.names.index(name) for name in names]
    keeps = sub_plan.shares.copy()
    cost, output = plan.cost * rates() * keeps, plan.output * rates() * keeps
    total = cost.sum(1)
    over = total > resources * FEASIBLE
    again = shares(np.maximum(cost[:, places], 1e-300), output[:, places], resources)
    keeps[:, places] *= np.where(over[:, None], again, 1)
    used = (plan.cost * rates() * keeps).sum(1) / resources
    return (plan.output * rates() * keeps).sum(1) / used, _Found(plan, keeps)
