"""The emulated eddy of CACQ: its outputs equal a recomputation, whatever the width of its state."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.reproduce.cacq_2002.rates import (
    drawn_queries,
    drawn_tuples,
    engine_of,
    pieces_of,
    query_rates,
    source_rates,
    tuple_state_rates,
)
from benchmarks.reproduce.emulators.cacq.eddy import Eddy, EddyQuery, by_hand
from benchmarks.tool.run import Run, Size

ATTRIBUTES = 5


def queries_of(rng: np.random.Generator, count: int, sources: int) -> list[EddyQuery]:
    """Queries with a predicate on each attribute by chance; some have none."""
    return [
        EddyQuery(
            int(rng.integers(sources)),
            {at: (bool(rng.integers(2)), int(rng.integers(-1, 12))) for at in range(ATTRIBUTES) if rng.random() < 0.4},
        )
        for _ in range(count)
    ]


def recomputed(query: EddyQuery, values: np.ndarray, sources: np.ndarray) -> int:
    passes = sources == query.source
    for at, (above, constant) in query.predicates.items():
        passes &= values[:, at] > constant if above else values[:, at] < constant
    return int(passes.sum())


@pytest.mark.parametrize(("count", "sources", "bits"), [(1, 1, 0), (64, 1, 0), (65, 3, 0), (130, 2, 500), (7, 4, 64)])
def test_outputs_are_those_of_a_recomputation(count: int, sources: int, bits: int) -> None:
    rng = np.random.default_rng([count, sources])
    queries = queries_of(rng, count, sources)
    values, source_of_row = rng.integers(0, 11, (300, ATTRIBUTES)), rng.integers(0, sources, 300)
    wanted = [recomputed(query, values, source_of_row) for query in queries]
    eddy = Eddy(queries, sources, ATTRIBUTES, bits)
    assert eddy.route(values, source_of_row).tolist() == wanted
    assert by_hand(queries, ATTRIBUTES, values, source_of_row).tolist() == wanted
    assert 0 < eddy.visits <= 300 * ATTRIBUTES


def test_a_tuple_visits_no_filter_after_all_queries_refused_it() -> None:
    queries = [EddyQuery(0, dict.fromkeys(range(ATTRIBUTES), (True, 10)))]
    eddy = Eddy(queries, 1, ATTRIBUTES)
    assert eddy.route(np.zeros((50, ATTRIBUTES), np.int64), np.zeros(50, np.int64)).tolist() == [0]
    assert eddy.visits == 50


def test_tickets_go_to_the_filter_that_refuses_most() -> None:
    eddy = Eddy([EddyQuery(0, {0: (True, 90), 1: (True, 10)})], 1, 2)
    values = np.random.default_rng(1).integers(0, 101, (20_000, 2))
    eddy.route(values, np.zeros(len(values), np.int64))
    assert eddy.visits / len(values) < 1.3, "the best order takes 1.1, the other one 1.9"


@pytest.mark.seeded("tickets that never fade")
def test_a_filter_that_no_longer_refuses_loses_its_tickets() -> None:
    """The filter of the first attribute refuses all tuples; later the filter of the second one does."""
    eddy = Eddy([EddyQuery(0, {0: (True, 50), 1: (True, 50)})], 1, 2)
    for values in ([0, 100], [100, 0]):
        before = eddy.visits
        eddy.route(np.tile(values, (20_000, 1)), np.zeros(20_000, np.int64))
        assert eddy.visits - before < 1.2 * 20_000


def test_psoup_finds_the_outputs_of_the_eddy() -> None:
    queries, (values, sources) = drawn_queries(40, 3), drawn_tuples(900, 3)
    local = engine_of(queries, 3)
    for stream, table in pieces_of(values, sources, 3):
        local.push(stream, table)
    counts = [local.invoke(query).matched for query in local.queries()]
    assert counts == Eddy(queries, 3, ATTRIBUTES).route(values, sources).tolist()


def test_rates_are_measured_at_every_point() -> None:
    run = Run(Size.TINY)
    for rates in (tuple_state_rates(run), query_rates(run), source_rates(run)):
        points = [list(series) for series in rates.values()]
        assert len(points[0]) == 2 and all(each == points[0] for each in points)
        assert all(rate > 0 for series in rates.values() for rate in series.values())
