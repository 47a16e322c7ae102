"""Static optimization (SIGMOD 2004): the cost model of window joins, and the plan that loses the fewest tuples.

    streams    A 100 rows, B 300 rows, …      f(A, B) = 0.2, …          rates a second
    plan       ((A B) C) D, left deep: the order in which streams join; cross products are allowed
    cost       the tuples a second that arrive at its joins: a linear function of the rates
    output     the tuples a second that leave it: linear too, and the same for every order
    shed       with resources for fewer tuples, each stream keeps a share of its tuples: a continuous knapsack

A plan has two coefficients for each stream. So thousands of queries that differ in their rates are one array.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

FEASIBLE = 1 + 1e-12
"""A plan whose cost is within this factor of the resources sheds nothing."""


class Plan(NamedTuple):
    """A join of some streams: coefficients of its cost and output, float64[…, streams], and the rows of its window."""

    cost: Floats
    output: Floats
    window: Floats


@dataclass(frozen=True)
class Streams:
    """The streams of a query: the rows of their windows, and the selectivities of pairs that are not 1."""

    windows: Mapping[str, float]
    selectivities: Mapping[frozenset[str], float]

    @property
    def names(self) -> tuple[str, ...]:
        """The streams, in the order of the coefficients."""
        return tuple(self.windows)

    def alone(self, stream: str) -> Plan:
        """A stream that is not joined yet: it costs nothing."""
        unit = np.zeros(len(self.windows))
        unit[self.names.index(stream)] = 1
        return Plan(np.zeros(len(self.windows)), unit, np.array(self.windows[stream]))

    def joined(self, plan: Plan, names: Iterable[str], stream: str) -> Plan:
        """A plan of the streams `names`, joined with one more. Both inputs cost a tuple's time for each tuple.

        A tuple of an input meets the window of the other one; the selectivity is the product over all pairs.
        """
        selectivity = np.prod([self.selectivities.get(frozenset((name, stream)), 1.0) for name in names])
        other = self.alone(stream)
        window = plan.window[..., None]
        output = selectivity * (other.window * plan.output + window * other.output)
        return Plan(plan.cost + plan.output + other.output, output, selectivity * plan.window * other.window)

    def left_deep(self, order: Sequence[str]) -> Plan:
        """The plan that joins the streams in this order."""
        plan = self.alone(order[0])
        for place, stream in enumerate(order[1:], 1):
            plan = self.joined(plan, order[:place], stream)
        return plan

    def orders(self) -> list[tuple[str, ...]]:
        """All left-deep orders, once each: the first two streams are interchangeable."""
        return [order for order in permutations(self.names) if order[0] < order[1]]


def shares(cost: Floats, gain: Floats, resources: Floats) -> Floats:
    """The share of its tuples that each stream keeps, float64[…, streams], so that the output is the most.

    `cost`, `gain`: of all tuples of a stream, float64[…, streams]; `resources`: float64[…]. The streams with the most
    output for their cost keep all of their tuples, until the resources are used up.
    """
    cost, gain = np.broadcast_arrays(cost, gain, resources[..., None])[:2]
    order = np.argsort(-(gain / cost), axis=-1)
    sorted_cost = np.take_along_axis(cost, order, -1)
    before = np.cumsum(sorted_cost, -1) - sorted_cost
    left = np.clip(resources[..., None] - before, 0, sorted_cost)
    sorted_shares = left / sorted_cost
    result = np.empty_like(sorted_shares)
    np.put_along_axis(result, order, sorted_shares, -1)
    return result


def throughput(cost: Floats, gain: Floats, resources: Floats) -> Floats:
    """The output of plans that shed load as well as they can, float64[…]. Arguments as in `shares`."""
    output: Floats = (shares(cost, gain, resources) * gain).sum(-1)
    return output
