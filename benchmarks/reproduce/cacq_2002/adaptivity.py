"""CACQ, the adaptivity runs: which filters the tickets send tuples to first, while queries come one after the other.

    workload 1   one predicate each, every next one more selective
    workload 2   equal selectivity, the filter applied by 1, 2, … 5 queries
    workload 3   queries of several predicates that share filters

Constants are a reconstruction, as the text that we have of the paper lost its numbers.
"""

from __future__ import annotations

import numpy as np

from benchmarks.reproduce.emulators.cacq.filters import Filters, Query
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Measured, Shape
from benchmarks.tool.run import Run
from psoup.joins.policies import Lottery

WORKLOADS: dict[str, list[list[Query]]] = {
    "workload 1": [[{at: 10 + 20 * at}] for at in range(5)],
    "workload 2": [[{at: 50} for _ in range(at + 1)] for at in range(5)],
    "workload 3": [[{at: 15 + 20 * at, (at + 1) % 5: 40}] for at in range(5)],
}
"""The queries that come at each step."""


def cacq_adapt(number: str, name: str, workload: str, run: Run) -> Experiment:
    """The experiment: the part of the tuples that begin with each filter, in the last step of a workload."""
    size = run.of(16_000, 8_000, 1_600)
    filters = Filters([], Lottery(2))
    rng = np.random.default_rng(6)
    early = dict[int, int]()
    for queries in WORKLOADS[workload]:
        filters.queries += queries
        filters.first = {}
        filters.route(rng.integers(0, 100, (5, size // 8)) + 1)
        early = filters.first
        filters.first = {}
        filters.route(rng.integers(0, 100, (5, size)) + 1)
    share = {at: filters.first.get(at, 0) / size for at in range(5)}
    soon = {at: early.get(at, 0) / (size // 8) for at in range(5)}
    refused = _refused(filters.queries)
    best = max(refused, key=lambda at: refused[at])
    lead = share[best] / max(figure for at, figure in share.items() if at != best)
    late = abs(soon[best] - share[best])
    shapes = [
        Shape("the filter that refuses most predicates gets most", Measured(lead, lead >= 1)),
        Shape(
            "an eighth of a step after the last query it has its share, within a tenth of the tuples",
            Measured(late, late < 0.1),
        ),
    ]
    published = (
        "a filter that comes gets its share within seconds; the most selective and the most shared get most tickets"
    )
    series = {workload: {"abcde"[at]: share[at] for at in range(5)}}
    kinds = {workload: "emulator: the product's lottery over filters"}
    source = f"CACQ (SIGMOD 2002), adaptivity, {workload}"
    facts = "filter", "share", series, shapes, kinds
    return Experiment(
        number,
        name,
        source,
        published,
        *facts,
        parameters=f"reconstructed, as the numbers are lost: {_STEPS[workload]}",
    )


_STEPS = {
    "workload 1": "five queries come in turn, with one predicate each; every next one refuses more",
    "workload 2": "in five steps come one, two, … five queries on one filter each; every predicate refuses a half",
    "workload 3": "five queries come in turn, with two predicates each; neighbours share a filter",
}


def _refused(queries: list[Query]) -> dict[int, float]:
    """The predicates that each filter refuses of a tuple, on average."""
    return {at: sum(filters[at] / 100 for filters in queries if at in filters) for at in range(5)}
