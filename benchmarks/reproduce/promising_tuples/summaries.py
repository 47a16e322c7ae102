"""Promising tuples (Nile), Figures 9 and 10: what summaries of a stream cost, and how many more outputs they allow.

    T1   a list                    T3   summaries of zones of time and buckets of items
    T2   summaries of zones        T4   the same with self-adjusting zones

The stores are emulated (`emulators.promising_tuples.store`), on a virtual clock with their measured costs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.reproduce.emulators.promising_tuples.join import join
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.promising_tuples.sales import WINDOW, sales
from benchmarks.reproduce.promising_tuples.step_costs import INTERARRIVAL, StepCosts, records_of, step_costs
from benchmarks.reproduce.shapes import Differs, Series, Shape, crossover, monotone, ratio
from benchmarks.tool.run import Run

NAMES = ("T1", "T2", "T3", "T4")
SOURCE = "Promising tuples (Nile),"
TRACE = "sales of two stores, seeded: Zipf 1.1 over 10,000 items, selectivity 6.7 %"
ARRIVALS = (10, 15, 20, 25, 30, 35, 40, 45, 50)
"""Milliseconds between tuples, as in Figure 10a."""
WINDOWS = (20, 40, 60, 80, 100, 120)
"""Seconds, as in Figure 10b."""
WAITING = "PSoup with summaries"


def summaries(run: Run) -> Experiment:
    """R27: the costs of the four stores, and their outputs a tuple."""
    costs = step_costs(run.size)
    arrivals, windows = run.of(ARRIVALS, ARRIVALS[::2], ARRIVALS[-2:]), run.of(WINDOWS, WINDOWS[::2], WINDOWS[:2])
    traces = run.of(3, 3, 1)
    insert = {name: costs.costs[name].insert for name in NAMES}
    by_arrival = {name: {at: outputs(costs, name, at, WINDOW, traces) for at in arrivals} for name in NAMES}
    by_window = {name: {at: outputs(costs, name, INTERARRIVAL, at, traces) for at in windows} for name in NAMES}
    series: dict[str, Series] = {
        "t_ins, ms": insert,
        "t_hit, ms": {name: costs.hit[name] for name in NAMES},
        "outputs at 100 ms": {name: outputs(costs, name, INTERARRIVAL, WINDOW, traces) for name in NAMES},
        **{f"{name} by inter-arrival": by_arrival[name] for name in NAMES},
        **{f"{name} by window": by_window[name] for name in NAMES},
    }
    kinds = dict.fromkeys(series, "emulator")
    series[WAITING], kinds[WAITING] = {}, "waits for summaries of streams"
    facts = "store; ms between tuples; seconds of window", "outputs a tuple, or as named", series
    rates = ", ".join(f"{name} {rate:,.0f}" for name, rate in costs.rates.items())
    parameters = (
        f"{TRACE}; 100 ms between tuples and a window of 60 s if not said otherwise; a virtual millisecond is"
        f" {1 / costs.scale:.1f} ns; tuples a second without a budget: {rates}"
    )
    shapes, points = _shapes(series, arrivals, windows), {"t_ins, ms": {"T1": 3.5, "T4": 7.5}}
    source = f"{SOURCE} Figures 9 and 10"
    return Experiment("R27", "nile_summaries", source, _PUBLISHED, *facts, shapes, kinds, points, parameters)


_PUBLISHED = (
    "t_ins rises from T1 to T4 (axis 3.5 to 7.5), t_hit falls (axis to 80), outputs a tuple rise (axis to 12); below"
    " some inter-arrival time and below some window T1 is the best (axes to 6 and to 16)"
)
_COMPILED = (
    "a look at a tuple takes 2 ns compiled, a sixteenth of an insertion, so T1 has an output in 1.4 insertions; in the"
    " paper it has one in 20. The order of t_hit is as published but for T4"
)
_ALL = (
    "at 100 ms there is time for all outputs in every form, 94 % or more; T1 has a little more because its insertion is"
    " cheaper. T3 has three times T1's outputs at 50 ms"
)
_ZONES = (
    "half as long zones double the estimates of a probe, and the items of these sales change too seldom to pay for it:"
    " their zones end early because popular items are skewed"
)


def outputs(costs: StepCosts, name: str, interarrival: float, window: float, traces: int = 1) -> float:
    """Outputs a tuple on the virtual clock, the mean over some traces of three windows each."""
    total = tuples = 0
    for seed in range(1, traces + 1):
        trace = sales(3 * window, interarrival, seed)
        ran = join(records_of(trace), trace.seconds, name, costs.costs[name], window=window, room=0)
        total, tuples = total + ran.outputs, tuples + ran.inserts
    return total / tuples


def _shapes(series: Mapping[str, Series], arrivals: Sequence[int], windows: Sequence[int]) -> list[Shape]:
    insert, hit, wide = (series[name] for name in ("t_ins, ms", "t_hit, ms", "outputs at 100 ms"))
    hit_of, wide_of = ({name: {0: figures[name]} for name in NAMES} for figures in (hit, wide))
    by_arrival, by_window = (
        {name: series[f"{name} by {axis}"] for name in NAMES} for axis in ("inter-arrival", "window")
    )
    slow, long = arrivals[-1], windows[-1]
    return [
        Shape("t_ins rises from T1 to T4", monotone(insert, slack=0.2)),
        Shape("T4's t_ins is twice T1's", ratio({0: insert["T4"]}, {0: insert["T1"]}, 0, 1.4, 5)),
        Shape("t_hit falls from T1 to T3", monotone({name: hit[name] for name in NAMES[:3]}, rises=False, slack=0.1)),
        Shape("T4's t_hit is below T3's", ratio(hit_of["T3"], hit_of["T4"], 0, 1), Differs(0.87, _ZONES)),
        Shape("T4's t_hit is a tenth of T1's", ratio(hit_of["T1"], hit_of["T4"], 0, 5), Differs(1.7, _COMPILED)),
        Shape(
            "at 100 ms T4 has ten times T1's outputs", ratio(wide_of["T4"], wide_of["T1"], 0, 3), Differs(0.95, _ALL)
        ),
        Shape("T1 is better below some inter-arrival time", crossover(by_arrival["T1"], by_arrival["T3"], 5, 50)),
        Shape(f"at {slow} ms T3 has more outputs than T1", ratio(by_arrival["T3"], by_arrival["T1"], slow, 1.2)),
        Shape("T1 is better below some window", crossover(by_window["T1"], by_window["T3"], 10, 120)),
        Shape(f"at {long} s T3 has more outputs than T1", ratio(by_window["T3"], by_window["T1"], long, 1.2)),
    ]
