"""CACQ, the throughput experiments: against the width of a tuple's state, the number of queries, and of sources.

An emulated eddy has the mechanisms that the paper measures (`emulators.cacq.eddy`). PSoup answers the same queries over
the same tuples. `rates` measures the rates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchmarks.reproduce.cacq_2002.rates import (
    ATTRIBUTES,
    DOMAIN,
    OF_SOURCES,
    OF_STATE,
    query_rates,
    source_rates,
    tuple_state_rates,
)
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Differs, Measured, Series, Shape, flat, monotone, ratio
from benchmarks.tool.run import Run

_LINE = 512
"""Bits of a bitmap that fills a line of the processor's cache: the paper's greatest state has several hundred."""
_FEW = 64
"""The most queries that count as few."""
_KINDS = {
    "eddy": "emulator",
    "shared eddy": "emulator",
    "an eddy for each query": "emulator",
    "by hand": "by hand: a loop over tuples and queries",
    "PSoup": "product",
}
_TUPLES = (
    f"{ATTRIBUTES} attributes with integers below {DOMAIN:,}, one thread; a reconstruction, as the numbers are lost"
)


def tuple_state(run: Run) -> Experiment:
    """The rate against the width of the bitmap that each tuple carries."""
    series = tuple_state_rates(run)
    eddy, points = series["eddy"], list(series["eddy"])
    middle = min(_LINE, points[-1])
    shapes = [
        Shape("the eddy's rate falls as the state grows", monotone(eddy, rises=False, slack=0.15)),
        Shape(
            f"at {middle:,} bits the eddy has fallen by a factor",
            ratio({0: eddy[points[0]]}, {0: eddy[middle]}, 0, 1.5),
            Differs(1.0, _IN_A_LINE),
        ),
        Shape("at the widest state the eddy has fallen by a factor", ratio(_at(eddy, 0), _at(eddy, -1), 0, 1.5)),
        Shape("the fall for each bit gets smaller", _flattens(eddy, points[-3:])),
        Shape("PSoup has no state to carry: its rate is flat", flat(series["PSoup"], 2)),
    ]
    published = "the rate drops by a factor as the state grows to several hundred bits, and ever more slowly"
    axes = "bits of a tuple", "tuples/s"
    return _experiment("R07", "state", "tuple state", published, axes, series, shapes, f"{OF_STATE} queries")


def query_count(run: Run) -> Experiment:
    """The outputs against the number of queries."""
    series = query_rates(run)
    shared, separate, product = series.values()
    points = list(shared)
    peak = max(separate, key=lambda count: separate[count])
    best = {0: max(separate.values())}, {0: max(shared.values())}
    shapes = [
        Shape("the shared eddy's output rises with the queries", ratio(_at(shared, -1), _at(shared, 0), 0, 2)),
        Shape("its rise has a knee: each further query adds less", _flattens(shared, points[:1] + points[-2:])),
        Shape("eddies that share nothing have their peak at few queries", Measured(peak, peak <= _FEW)),
        Shape("their peak is about half of the shared eddy's", ratio(*best, 0, 0.3, 0.8), Differs(0.11, _BITMAPS)),
        Shape(f"PSoup's output rises to {points[-1]:,} queries", monotone(product, slack=0.1)),
    ]
    published = "output rises sharply to a knee, and goes on from there; separate eddies peak at few queries, at half"
    run_here = f"1 to {points[-1]:,} queries, a predicate on each attribute with probability a half"
    return _experiment("R08", "queries", "queries", published, ("queries", "outputs/s"), series, shapes, run_here)


def source_count(run: Run) -> Experiment:
    """The rate against the number of sources."""
    series = source_rates(run)
    shapes = [
        Shape(
            "the eddy's rate falls somewhat, by less than a factor of 3",
            ratio(_at(series["eddy"], 0), _at(series["eddy"], -1), 0, 1, 3),
            Differs(0.68, _FEWER),
        ),
        Shape(
            "PSoup's rate falls by less than a factor of 3",
            ratio(_at(series["PSoup"], 0), _at(series["PSoup"], -1), 0, 0, 3),
        ),
    ]
    published = "the rate falls somewhat with the number of sources"
    run_here = f"{OF_SOURCES} queries with one predicate on a random source and attribute"
    return _experiment("R09", "sources", "sources", published, ("sources", "tuples/s"), series, shapes, run_here)


_IN_A_LINE = (
    "a bitmap of 512 bits is one line of the cache, and copying it takes a nanosecond, beside 400 for the routing of a"
    " tuple; the fall begins at thousands of bits"
)
_BITMAPS = "one walk of the shared filters serves all queries, and outputs are read from the bitmap word by word"
_FEWER = (
    "with more sources fewer of the queries are over the source of a tuple, so its filters visit fewer predicates; the"
    " emulator has no threads or queues for each source"
)


def _experiment(
    number: str,
    name: str,
    against: str,
    published: str,
    axes: tuple[str, str],
    series: Mapping[str, Series],
    shapes: Sequence[Shape],
    run_here: str,
) -> Experiment:
    """An experiment of the paper. `against`: what the throughput is drawn against; `axes`: the point and the unit."""
    kinds = {system: _KINDS[system] for system in series}
    source = f"CACQ (SIGMOD 2002), throughput against {against}"
    facts = *axes, series, shapes, kinds
    return Experiment(number, f"cacq_{name}", source, published, *facts, parameters=f"{run_here}; {_TUPLES}")


def _at(series: Series, place: int) -> Series:
    """The first or last figure of a series, at the point 0."""
    return {0: list(series.values())[place]}


def _flattens(series: Series, points: list[int]) -> Measured:
    """The slope between the first two points by the slope between the last two. It holds if it is above 1."""
    if len(set(points)) < 3:
        return Measured(0.0, False)
    first, middle, last = points
    before = (series[middle] - series[first]) / (middle - first)
    after = (series[last] - series[middle]) / (last - middle)
    figure = abs(before / after) if after else float("inf")
    return Measured(figure, figure > 1)
