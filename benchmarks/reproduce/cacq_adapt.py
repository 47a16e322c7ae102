"""CACQ, the adaptivity runs: which filters the tickets send tuples to first, while queries come one after the other.

    workload 1   one predicate each, every next one more selective
    workload 2   equal selectivity, the filter applied by 1, 2, … 5 queries
    workload 3   queries of several predicates that share filters

Constants are a reconstruction, as the text that we have of the paper lost its numbers.
"""

from __future__ import annotations

import numpy as np

from benchmarks.reproduce.cacq_filters import Filters, Query
from benchmarks.reproduce.experiment import Experiment, Shape
from benchmarks.tool.run import Run
from psoup.joins.policies import Lottery

WORKLOADS: dict[str, list[list[Query]]] = {
    "workload 1": [[{at: 10 + 20 * at}] for at in range(5)],
    "workload 2": [[{at: 50} for _ in range(at + 1)] for at in range(5)],
    "workload 3": [[{at: 15 + 20 * at, (at + 1) % 5: 40}] for at in range(5)],
}
"""The queries that come at each step."""


def cacq_adapt(run: Run) -> Experiment:
    """The experiment: the part of the tuples that begin with each filter, in the last steps of each workload."""
    size = run.of(16_000, 8_000, 1_600)
    series: dict[str, dict[str, float]] = {}
    shapes = []
    for workload, arriving in WORKLOADS.items():
        filters = Filters([], Lottery(2))
        rng = np.random.default_rng(6)
        early = dict[int, int]()
        for queries in arriving:
            filters.queries += queries
            filters.first = {}
            filters.route(rng.integers(0, 100, (5, size // 8)) + 1)
            early = filters.first
            filters.first = {}
            filters.route(rng.integers(0, 100, (5, size)) + 1)
        share = {at: filters.first.get(at, 0) / size for at in range(5)}
        soon = {at: early.get(at, 0) / (size // 8) for at in range(5)}
        series[workload] = {"abcde"[at]: share[at] for at in range(5)}
        value = _refused(filters.queries)
        best = max(value, key=lambda at: value[at])
        shapes += [
            Shape(f"{workload}: the filter that refuses most predicates gets most", share[best] == max(share.values())),
            Shape(
                f"{workload}: an eighth of a step after the last query it has nearly its share",
                abs(soon[best] - share[best]) < 0.1,
            ),
        ]
    published = (
        "a filter that comes gets its share within seconds; the most selective and the most shared get most tickets"
    )
    return Experiment("cacq_adapt", "CACQ (SIGMOD 2002), adaptivity", published, "filter", "share", series, shapes)


def _refused(queries: list[Query]) -> dict[int, float]:
    """The predicates that each filter refuses of a tuple, on average."""
    return {at: sum(filters[at] / 100 for filters in queries if at in filters) for at in range(5)}
