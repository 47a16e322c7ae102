"""CACQ, the table of routing: how many filters a tuple goes through on average, by the policy that routes it.

    query i    the first i of a > 90, b > 70, c > 50, d > 30, e > 10, over values uniform in [0, 100)

Queries and range are a reconstruction, as the text that we have of the paper lost its numbers. PSoup has an index in
place of filters. Beside the filters of a tuple are the tuples that its index looks at, in pushes of two sizes.
"""

from __future__ import annotations

import numpy as np

from benchmarks.reproduce.cacq_2002.index_work import looks
from benchmarks.reproduce.emulators.cacq.filters import Filters, Query, Random
from benchmarks.reproduce.experiment import Experiment
from benchmarks.reproduce.shapes import Series, Shape, ratio, value
from benchmarks.tool.run import Run
from psoup.joins.policies import Fixed, Greedy, Lottery

LEAST = (90, 70, 50, 30, 10)
QUERIES: list[Query] = [dict(enumerate(LEAST[:count])) for count in range(1, 6)]
OPTIMAL = 1 + 0.1 + 0.03 + 0.015 + 0.0105
BY_CHANCE = 2.627
"""Filters a tuple if every order is as likely, computed as well."""
LOOKED, WORK = "PSoup: tuples that its index looks at", "PSoup: counted work"
PUSHES = {"pushes of 16": 16, "pushes of 4,096": 4_096}
"""Sizes of the pushes to PSoup. Eddies take 16 tuples at a time here."""
_FACTORS = sum(map(len, QUERIES))
_BIT = 1 / 16
"""The engine's estimate of a test of a factor as a bit, in tests of a tuple in a list."""


def cacq_routing(run: Run) -> Experiment:
    """The experiment."""
    tuples = np.random.default_rng(5).integers(0, 100, (5, run.of(20_000, 20_000, 2_000))) + 1
    policies = {
        "worst": Fixed((4, 3, 2, 1, 0)),
        "random": Random(),
        "ticket": Lottery(1),
        "greedy": Greedy(),
        "optimal": Fixed((0, 1, 2, 3, 4)),
    }
    visits: dict[str, float] = {}
    for name, policy in policies.items():
        filters = Filters(QUERIES, policy)
        filters.route(tuples)
        visits[name] = filters.visits / tuples.shape[1]
    counted = {
        name: looks(QUERIES, tuples[:, : 2 * PUSHES["pushes of 4,096"]], piece) for name, piece in PUSHES.items()
    }
    looked = {name: counts.looked for name, counts in counted.items()}
    work = {name: counts.work for name, counts in counted.items()}
    series = {"filters a tuple": visits, LOOKED: looked, WORK: work}
    best = dict.fromkeys(visits, OPTIMAL)
    shapes = [
        Shape(f"the best order takes {OPTIMAL:.4f}, as can be computed", value(visits, "optimal", OPTIMAL, 0.025)),
        Shape("the worst order takes 5, as can be computed", value(visits, "worst", 5)),
        Shape(f"chance takes {BY_CHANCE}, as can be computed", value(visits, "random", BY_CHANCE, 0.05)),
        Shape("tickets are near the best", ratio(visits, best, "ticket", 0, 1.3)),
        Shape("chance is not", ratio(visits, best, "random", 1.3)),
        Shape(
            "the greedy order, which PSoup's joins use, is within 5 % of the best",
            ratio(visits, best, "greedy", 0, 1.05),
        ),
        *_of_index(looked, work),
    ]
    published = (
        "tickets route a tuple to few filters, near the optimal order; random routing to clearly more (numbers lost)"
    )
    kinds = {"filters a tuple": "emulator: the product's policies over filters", LOOKED: "product", WORK: "product"}
    units = {LOOKED: "looks for each tuple", WORK: "tests in lists for each tuple"}
    source = "CACQ (SIGMOD 2002), routing"
    facts = "policy", "filters", series, shapes, kinds
    return Experiment("R10", "cacq_routing", source, published, *facts, parameters=_PARAMETERS, units=units)


def _of_index(looked: Series, work: Series) -> list[Shape]:
    """Shapes that follow from the form of the index. In the tiny form the large push has 2,000 tuples."""
    small, large = PUSHES
    return [
        Shape(
            "in small pushes PSoup's index looks at less than half as many tuples as the best order has filters",
            ratio(looked, {small: OPTIMAL}, small, 0, 0.5),
        ),
        Shape("in large pushes it tests each tuple for all 5 queries, as bits", value(looked, large, len(QUERIES))),
        Shape(
            "the work of that is a sixteenth of a list's test for each of the 15 factors",
            value(work, large, _FACTORS * _BIT),
        ),
    ]


_PARAMETERS = (
    "reconstructed, as the numbers are lost: query i has the first i of a > 90, b > 70, c > 50, d > 30, e > 10, over"
    " values uniform in [0, 100). PSoup counts what `psoup top` shows: a look is a test of a tuple for a query"
)
