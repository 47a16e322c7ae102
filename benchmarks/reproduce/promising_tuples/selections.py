"""Promising tuples (Nile), Figures 15 and 16: many selections under a budget, and aggregates over their results.

    SIMPLE         each query tests each tuple, until the next one arrives
    PT-Selection   a query looks at what is new in the buckets of its interval
    PSoup          the product: its index joins all tuples with all queries, so it gives 100 % at every point

The first two run on a virtual clock with the measured costs of `step_costs`: SIMPLE takes T1's, PT takes T3's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reproduce.emulators.promising_tuples.selection import Selected, promising, simple
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.promising_tuples.sales import ITEMS, WINDOW, Sales, popularity, sales
from benchmarks.reproduce.promising_tuples.step_costs import StepCosts, step_costs
from benchmarks.reproduce.promising_tuples.summaries import SOURCE, TRACE
from benchmarks.reproduce.shapes import Differs, Measured, Series, Shape, ratio, value
from benchmarks.tool.run import Run
from psoup.config import EngineConfig
from psoup.local import LocalPSoup

Array = npt.NDArray[Any]
ARRIVALS = (10, 20, 30, 40, 60, 80, 100)
"""Milliseconds between tuples."""
QUERIES = 100
COUNTS = (20, 40, 60, 80, 100, 120, 160, 200)
"""Queries, as in Figure 15b."""
LOADED = 20
"""Milliseconds between tuples for Figure 15b."""
SHARES = (0.05, 0.10)
"""Bounds of the selectivity."""
WAITING = "PSoup under a budget"
KINDS = {"SIMPLE": "emulator", "PT-Selection": "emulator", "PSoup": "product, without a budget"}
AVG, SUM = "MSE of AVG", "10³ relative MSE of SUM"


def intervals_of(count: int, seed: int = 1) -> Array:
    """Intervals of items, int64[count, 2], whose selectivity is drawn uniformly between SHARES."""
    random = np.random.default_rng([seed, 15])
    chances = np.empty(ITEMS)
    chances[np.random.default_rng(seed).permutation(ITEMS)] = popularity()
    upto = np.concatenate(([0.0], np.cumsum(chances)))
    intervals = list[tuple[int, int]]()
    while len(intervals) < count:
        low = int(random.integers(ITEMS))
        high = int(np.searchsorted(upto, upto[low] + random.uniform(*SHARES)))
        if high <= ITEMS and SHARES[0] <= upto[high] - upto[low] <= SHARES[1]:
            intervals.append((low, high - 1))
    return np.array(intervals)


def promising_selection(run: Run) -> Experiment:
    """R29."""
    costs = step_costs(run.size)
    arrivals, counts = run.of(ARRIVALS, ARRIVALS, ARRIVALS[-2:]), run.of(COUNTS, COUNTS[::2] + COUNTS[-1:], COUNTS[:2])
    seconds = run.of(300, 180, 80)
    series: dict[str, dict[int, float]] = {}
    for at in arrivals:
        for name, figure in _point(costs, sales(seconds, at), intervals_of(QUERIES)).items():
            series.setdefault(name, {})[at] = figure
    trace = sales(seconds, LOADED)
    for count in counts:
        shares = {name: share for name, share in _point(costs, trace, intervals_of(count)).items() if name in KINDS}
        for name, share in shares.items():
            series.setdefault(f"{name} by queries", {})[count] = share
    kinds = {name: next(kind for system, kind in KINDS.items() if name.startswith(system)) for name in series}
    facts = "ms between tuples; queries", "% of the exact output, or as named"
    parameters = f"{TRACE}; {QUERIES} queries of 5 to 10 %; by queries: {LOADED} ms between tuples"
    every: dict[str, Series] = {**series, WAITING: {}}
    kinds[WAITING] = "waits for answers under a budget"
    shapes, source = _shapes(series, arrivals, counts), f"{SOURCE} Figures 15 and 16"
    return Experiment("R29", "nile_selection", source, _PUBLISHED, *facts, every, shapes, kinds, parameters=parameters)


_PUBLISHED = (
    "PT-Selection gives more than SIMPLE, up to 33 % at 100 ms (axis 25 to 75 %); SIMPLE is better below 80 queries"
    " (axis 40 to 100 %); the mean square errors of AVG (axis 2 to 22) and SUM (150 to 400) are lower with promising"
    " tuples"
)
_BATCHED = (
    "SIMPLE loses what it has not tested when the next tuple arrives, even where it has time later; PT goes on where it"
    " stopped, and its buckets hold only what a query wants, so its cost of an insertion is made up from 20 queries on"
)

_WHOLE_TURNS = (
    "an insertion leaves 3 of 10 ms for the queries, and a query's turn ends only when it has seen all that waits; so a"
    " query comes to its turn once in a minute or less often, and its window has few results until then"
)


def _shapes(series: Mapping[str, Series], arrivals: Sequence[int], counts: Sequence[int]) -> list[Shape]:
    simple_share, promised, product = (series[name] for name in KINDS)
    fastest = arrivals[0]
    steady = arrivals[min(2, len(arrivals) - 1)]
    few, many, slow, fast = counts[0], counts[-1], arrivals[-1], arrivals[min(1, len(arrivals) - 2)]
    by_queries = [series[f"{name} by queries"] for name in KINDS]
    whole = {0: min(min(product.values()), min(by_queries[2].values()))}

    def gain(error: str, at: int) -> Measured:
        return ratio(series[f"SIMPLE, {error}"], series[f"PT-Selection, {error}"], at, 1)

    return [
        Shape(f"at {slow} ms PT gives up to 33 % more", ratio(promised, simple_share, slow, 1.1, 1.5)),
        Shape(f"at {fast} ms PT gives more", ratio(promised, simple_share, fast, 1)),
        Shape(
            f"at {few} queries SIMPLE is better", ratio(by_queries[0], by_queries[1], few, 1), Differs(0.7, _BATCHED)
        ),
        Shape(f"at {many} queries PT is better", ratio(by_queries[1], by_queries[0], many, 1)),
        *(Shape(f"at {steady} ms PT has the lower {name}", gain(name, steady)) for name in (AVG, SUM)),
        Shape(f"at {fastest} ms PT has the lower {SUM}", gain(SUM, fastest), Differs(0.7, _WHOLE_TURNS)),
        Shape("PSoup gives 100 % at every point", value(whole, 0, 100)),
    ]


def _point(costs: StepCosts, trace: Sales, intervals: Array) -> dict[str, float]:
    """Every series for a trace and queries."""
    exact = exact_outputs(trace, intervals)
    figures = {"PSoup": 100 * product_outputs(trace, intervals) / len(exact.query)}
    got = {
        "SIMPLE": simple(trace.item, trace.seconds, intervals, costs.costs["T1"]),
        "PT-Selection": promising(trace.item, trace.seconds, intervals, costs.costs["T3"], ITEMS),
    }
    for name, selected in got.items():
        figures[name] = 100 * len(selected.query) / len(exact.query)
        figures[f"{name}, {AVG}"], figures[f"{name}, {SUM}"] = errors_of(trace, len(intervals), exact, selected)
    return figures


def exact_outputs(trace: Sales, intervals: Array) -> Selected:
    """All outputs, each at the time of its tuple."""
    matches = (trace.item >= intervals[:, :1]) & (trace.item <= intervals[:, 1:])
    query, place = np.nonzero(matches)
    return Selected(query, place, 1e3 * trace.seconds[place])


def errors_of(trace: Sales, queries: int, exact: Selected, got: Selected) -> tuple[float, float]:
    """The mean square errors of AVG(price) and, as a share, of SUM(price), over the windows every 10 seconds.

    An average without tuples is 0.
    """
    averages, sums = list[float](), list[float]()
    for now in np.arange(WINDOW, trace.seconds[-1], 10.0):
        wanted, had = (_sums(trace, queries, selected, now) for selected in (exact, got))
        some = wanted[0] > 0
        mean = [total[some] / np.maximum(count[some], 1) for count, total in (wanted, had)]
        averages += ((mean[1] - mean[0]) ** 2).tolist()
        sums += ((1 - had[1][some] / wanted[1][some]) ** 2).tolist()
    return float(np.mean(averages)), 1e3 * float(np.mean(sums))


def _sums(trace: Sales, queries: int, selected: Selected, now: float) -> tuple[Array, Array]:
    """Each query's number of tuples and sum of prices, of what is in the window and was found by now."""
    seconds = trace.seconds[selected.tuple]
    within = (seconds > now - WINDOW) & (seconds <= now) & (selected.times <= 1e3 * now)
    query, price = selected.query[within], trace.price[selected.tuple[within]]
    return np.bincount(query, minlength=queries), np.bincount(query, price, queries)


def product_outputs(trace: Sales, intervals: Array) -> int:
    """The number of outputs that PSoup gives."""
    local = LocalPSoup(EngineConfig())
    local.execute("CREATE STREAM sales (item BIGINT NOT NULL, price BIGINT NOT NULL)")
    local.register_many([f"SELECT * FROM sales WHERE item BETWEEN {low} AND {high}" for low, high in intervals])
    local.push("sales", pa.table({"item": trace.item, "price": trace.price}))
    return sum(local.invoke(query).matched for query in local.queries())
