"""Seeded sales of two stores, in place of the retail logs of the promising tuples paper, which are not public.

    marginal       the items of each store follow Zipf 1.1 over 10,000 items
    featured item  for a while (20 s on average) one item has a share of the sales of both stores; then another one
    selectivity    6.7 % of the pairs of two sales at most a minute apart have the same item

Equal draws alone give a selectivity of 3.4 %. The featured item adds the rest. It is drawn from the same
Zipf law, so it leaves the marginal as it is. It is also the change of behaviour for which the paper adjusts its zones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
ITEMS = 10_000
EXPONENT = 1.1
SELECTIVITY = 0.067
WINDOW = 60.0
"""Seconds."""
FEATURED = 20.0
"""Mean seconds for which an item is featured."""
_TURNS = 10_000
"""Featured items of a trace: enough for 50 hours."""


class Sales(NamedTuple):
    """Sales of both stores in the order of time: store int64 (0 or 1), seconds float64, item and price int64.

    `featured`: the item featured at the time of each sale, for tests.
    """

    store: Array
    seconds: Array
    item: Array
    price: Array
    featured: Array


def popularity() -> Array:
    """The probability of each rank."""
    weights = np.arange(1, ITEMS + 1) ** -EXPONENT
    return np.asarray(weights / weights.sum())


def featured_share(chances: Array) -> float:
    """The share of sales that are of the featured item, so that the selectivity over a window is SELECTIVITY.

    Two sales at a distance of d seconds have the same featured item with probability exp(-d / FEATURED). Then they have
    the same item with probability q² + (1 - q²) s. Otherwise they have it with probability s, as independent draws.
    """
    same = float((chances**2).sum())
    together = FEATURED / WINDOW * (1 - math.exp(-WINDOW / FEATURED))
    return math.sqrt((SELECTIVITY - same) / (together * (1 - same)))


def sales(seconds: float, interarrival: float, seed: int = 1) -> Sales:
    """The sales of `seconds` seconds, `interarrival` milliseconds apart on average, exponentially distributed."""
    random = np.random.default_rng([seed, round(interarrival * 1_000)])
    count = round(1e3 * seconds / interarrival)
    times = np.cumsum(random.exponential(interarrival / 1e3, count))
    chances = popularity()
    store = np.random.default_rng(seed)  # item numbers and featured items do not depend on the inter-arrival time
    numbers = store.permutation(ITEMS)
    """The item number of each rank: popular items are anywhere among the numbers."""
    turns = np.cumsum(store.exponential(FEATURED, _TURNS))
    featured = store.choice(ITEMS, _TURNS + 1, p=chances)[np.searchsorted(turns, times)]
    ranks = np.where(random.random(count) < featured_share(chances), featured, random.choice(ITEMS, count, p=chances))
    prices = np.random.default_rng([seed, 2]).integers(1, 100, ITEMS)
    items = numbers[ranks]
    return Sales(random.integers(0, 2, count), times, items, prices[items], numbers[featured])


def pairs_within(trace: Sales, window: float) -> Array:
    """The pairs of sales of different stores with the same item, at most `window` seconds apart: int64[n, 2].

    The earlier sale is first. Recomputed item by item.
    """
    pairs = list[Array]()
    order = np.argsort(trace.item, kind="stable")
    starts = np.flatnonzero(np.diff(trace.item[order], prepend=-1))
    for places in np.split(order, starts[1:]):
        first = np.searchsorted(trace.seconds[places], trace.seconds[places] - window)
        reach = np.arange(len(places)) - first
        later = np.repeat(places, reach)
        within = np.arange(reach.sum()) - np.repeat(np.cumsum(reach) - reach, reach)
        earlier = places[np.repeat(first, reach) + within]
        other = trace.store[earlier] != trace.store[later]
        pairs.append(np.column_stack((earlier[other], later[other])))
    return np.concatenate(pairs)
