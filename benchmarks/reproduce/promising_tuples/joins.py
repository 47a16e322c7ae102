"""Promising tuples (Nile), Figures 11 to 14: the window join under a budget, against the symmetric hash join.

    SHJ              a hash table of 64 buckets for each stream, whose chains are in the order of arrival
    list             T1: a list for each stream, the paper's way without summaries
    PT-Join          T4, most matches first: Figure 11 over a minute, Figure 12 over the whole stream
    PT-Join weighted, asc       a faithful sample of the output (Figure 13); rare items first (Figure 14)
    PSoup            the product, which has no budget: it gives the whole answer

All but PSoup run on a virtual clock with the measured costs of `step_costs`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.reproduce.emulators.promising_tuples.join import join
from benchmarks.reproduce.emulators.promising_tuples.queue import ASC, DESC, WEIGHTED
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.promising_tuples.sales import ITEMS, WINDOW, Sales, pairs_within, sales
from benchmarks.reproduce.promising_tuples.step_costs import StepCosts, records_of, step_costs
from benchmarks.reproduce.promising_tuples.summaries import SOURCE, TRACE
from benchmarks.reproduce.shapes import Differs, Measured, Series, Shape, ratio, value
from benchmarks.tool.run import Run
from psoup.config import EngineConfig
from psoup.local import LocalPSoup

Pairs = npt.NDArray[np.int64]
ARRIVALS = (10, 20, 40, 60, 80, 100)
"""Milliseconds between tuples."""
FORM_OF = {"SHJ": "SHJ", "list": "T1", "PT-Join": "T4"}
BINS = 100
"""Intervals of the histograms of items: k of the paper's equation 2."""
WAITING = "PSoup under a budget"
RARE = 5.0
"""The percentile of frequencies up to which an item is an outlier."""


def promising_join(run: Run) -> Experiment:
    """R28."""
    costs, arrivals = step_costs(run.size), run.of(ARRIVALS, ARRIVALS, ARRIVALS[-2:])
    seeds, seconds = run.of((1, 2, 3), (1,), (1,)), run.of(180, 180, 20)
    series: dict[str, dict[int, float]] = {}
    for at in arrivals:
        traces = [_of_trace(costs, sales(seconds, at, seed)) for seed in seeds]
        for name in traces[0]:
            series.setdefault(name, {})[at] = float(np.mean([figures[name] for figures in traces]))
    kinds = {name: "product, without a budget" if name == "PSoup" else "emulator" for name in series}
    waiting: Series = {}
    facts = "ms between tuples", "% of the exact output, or as named"
    every, kinds = {**series, WAITING: waiting}, {**kinds, WAITING: "waits for answers under a budget"}
    parameters = f"{TRACE}; a window of {WINDOW:.0f} s; {len(seeds)} traces of {seconds} s"
    shapes, source = _shapes(series, arrivals), f"{SOURCE} Figures 11 to 14"
    return Experiment("R28", "nile_join", source, _PUBLISHED, *facts, every, shapes, kinds, parameters=parameters)


_PUBLISHED = (
    "PT-Join gives more outputs than SIMPLE-SHJ (axis to 80 % over a minute, to 16 % over the whole stream), and"
    " fresher ones; weighted, its histogram is nearer to the exact one; asc, it gives few outputs, and most are"
    " outliers (axis to 55 %)"
)
_HASH = (
    "a hash table of 64 buckets looks at 1.3 tuples for an output and needs no estimates; PT-Join makes 12 estimates"
    " for a tuple, and its insertion takes twice as long. Against a list, PT-Join has the published gain"
)
_FEWER = "the same cause: SHJ has more outputs, so its histogram is nearer to the exact one"


def _shapes(series: Mapping[str, Series], arrivals: Sequence[int]) -> list[Shape]:
    early, middle, late = (min(arrivals, key=lambda at: abs(at - wanted)) for wanted in (20, 40, 60))
    shares = {0: min(series["PSoup"].values())}

    def by(over: str, under: str, at: int, low: float = 1.0, high: float = math.inf) -> Measured:
        return ratio(series[over], series[under], at, low, high)

    mse, whole, apart, rare = ", 10⁴ Hist-MSE", ", whole stream", ", seconds apart", ", % outliers"
    outlying = ratio(series[f"PT-Join asc{rare}"], {early: 100}, early, 0.2)
    hashed = by("PT-Join", "SHJ", late), by(f"PT-Join{whole}", f"SHJ{whole}", late)
    nearer = by(f"PT-Join weighted{mse}", f"SHJ{mse}", middle, 0, 1)
    return [
        Shape(f"Figure 11: at {late} ms PT-Join gives more than a list", by("PT-Join", "list", late)),
        Shape(f"at {late} ms PT-Join gives more than SHJ", hashed[0], Differs(0.73, _HASH)),
        Shape(f"Figure 12: at {late} ms PT-Join gives more than a list", by(f"PT-Join{whole}", f"list{whole}", late)),
        Shape(f"at {late} ms PT-Join gives more than SHJ of the whole stream", hashed[1], Differs(0.66, _HASH)),
        Shape(f"at {early} ms SHJ's outputs are less fresh", by(f"SHJ{apart}", f"PT-Join{apart}", early)),
        Shape(f"Figure 13: at {late} ms a list's Hist-MSE is above PT-Join's", by(f"list{mse}", f"PT-Join{mse}", late)),
        Shape(f"at {early} ms weighting lowers it", by(f"PT-Join{mse}", f"PT-Join weighted{mse}", early)),
        Shape(f"at {middle} ms it is below SHJ's", nearer, Differs(2.9, _FEWER)),
        Shape(f"Figure 14: at {late} ms asc gives fewer outputs than SHJ", by("PT-Join asc", "SHJ", late, 0, 1)),
        Shape(f"at {early} ms more of them are outliers", by(f"PT-Join asc{rare}", f"SHJ{rare}", early)),
        Shape(f"at {early} ms a good part of them is (axis to 55 %)", outlying),
        Shape("PSoup gives the whole answer at every point, in %", value(shares, 0, 100)),
    ]


def _of_trace(costs: StepCosts, trace: Sales) -> dict[str, float]:
    """Every series of a trace."""
    exact = pairs_within(trace, WINDOW)
    figures = {"PSoup": 100 * product_pairs(trace) / max(len(exact), 1)}
    shown = {name: _pairs(costs, form, trace) for name, form in FORM_OF.items()}
    figures |= {name: 100 * len(pairs) / len(exact) for name, pairs in shown.items()}
    weighted, rare = _pairs(costs, "T4", trace, WEIGHTED), _pairs(costs, "T4", trace, ASC)
    figures["PT-Join weighted"] = 100 * len(weighted) / len(exact)
    figures["PT-Join asc"] = 100 * len(rare) / len(exact)
    shown |= {"PT-Join weighted": weighted, "PT-Join asc": rare}
    for name in ("SHJ", "list", "PT-Join", "PT-Join weighted"):
        figures[f"{name}, 10⁴ Hist-MSE"] = 1e4 * hist_mse(trace, exact, shown[name])
    for name in ("SHJ", "list", "PT-Join", "PT-Join asc"):
        figures[f"{name}, % outliers"] = 100 * outliers(trace, exact, shown[name])
    counts = [np.bincount(trace.item[trace.store == store], minlength=ITEMS) for store in (0, 1)]
    everything = int(counts[0] @ counts[1])
    for name, form in FORM_OF.items():
        pairs = _pairs(costs, form, trace, whole=True)
        figures[f"{name}, whole stream"] = 100 * len(pairs) / everything
        apart = trace.seconds[pairs[:, 1]] - trace.seconds[pairs[:, 0]]
        figures[f"{name}, seconds apart"] = float(apart.mean()) if len(pairs) else 0.0
    return figures


def _pairs(costs: StepCosts, form: str, trace: Sales, preference: int = DESC, *, whole: bool = False) -> Pairs:
    records = records_of(trace)
    return join(records, trace.seconds, form, costs.costs[form], preference=preference, whole=whole).pairs


def hist_mse(trace: Sales, exact: Pairs, obtained: Pairs) -> float:
    """The paper's equation 2: the squared differences of two histograms of items, each by its own number of outputs."""
    shares = [
        np.histogram(trace.item[pairs[:, 0]], BINS, (0, ITEMS))[0] / max(len(pairs), 1) for pairs in (exact, obtained)
    ]
    return float(((shares[0] - shares[1]) ** 2).sum())


def outliers(trace: Sales, exact: Pairs, obtained: Pairs) -> float:
    """The share of outputs with a rare item: an item of the rarest RARE % of the exact outputs."""
    counts = np.bincount(trace.item[exact[:, 0]], minlength=ITEMS)
    limit = np.percentile(counts[trace.item[exact[:, 0]]], RARE)
    return float((counts[trace.item[obtained[:, 0]]] <= limit).mean()) if len(obtained) else 0.0


def product_pairs(trace: Sales) -> int:
    """The number of pairs that PSoup finds."""
    local, microseconds = LocalPSoup(EngineConfig()), (1e6 * trace.seconds).astype(np.int64)
    for store in (0, 1):
        sold = trace.store == store
        local.execute(f"CREATE STREAM store{store} (at BIGINT NOT NULL, item BIGINT NOT NULL)")
        local.push(f"store{store}", pa.table({"at": microseconds[sold], "item": trace.item[sold]}))
    reach = round(1e6 * WINDOW)
    statement = (
        "SELECT COUNT(*) AS pairs FROM store0 a, store1 b"
        f" WHERE a.item = b.item AND a.at <= b.at + {reach} AND b.at <= a.at + {reach}"
    )
    return int(local.ask(statement).to_table()["pairs"][0].as_py())
