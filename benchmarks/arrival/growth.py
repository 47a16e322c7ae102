"""Rows `growth.*`: how the cost grows with the number of queries, the window, the factors and the match rate.

    growth.queries.eq.N      N queries of one equality and two ranges     ns a tuple, one core
    growth.queries.f4.N      N queries of the paper, four factors         ns a tuple, one core
    growth.factors.N         4,096 queries of N factors                   ns a tuple, one core
    growth.match.N           4,096 ranges, each matches N millionths      ns a tuple, one core
    growth.window.N          an answer over the last N tuples             us

The first peer of a row is the row before, scaled as if the cost were proportional: a ratio above 1 is superlinear
growth. The others are engines and NumPy at the same work. `make figures` draws the curves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial

import numpy as np

from benchmarks.answers import invocation
from benchmarks.arrival import scale
from benchmarks.arrival.arrival import BATCH, CHUNK, Cores, Loaded, check, last_of
from benchmarks.peers import made
from benchmarks.peers.arrive import DuckDBJoin, PolarsMasks
from benchmarks.peers.by_hand import BruteForce, NumPyPerQuery, Peer
from benchmarks.peers.join import DuckDBJoin as DuckDBEqual
from benchmarks.peers.join import NumPyBySymbol, NumPySorted, PolarsJoin
from benchmarks.peers.join import Peer as Joiner
from benchmarks.tool.measure import Rate, Row, Sample, Target, in_turns
from benchmarks.tool.run import Run
from benchmarks.tool.workload import Query, batches, make_columns, make_queries

Costs = tuple[Sample, list[tuple[str, Sample]]]
"""Ours and the peers', in the unit of the series."""

QUERIES = (100, 1_000, 10_000, 100_000, 1_000_000)
PAPER_QUERIES = (128, 512, 2_048, 8_192)
FACTORS = (1, 2, 3, 4, 5, 6, 7, 8)
MATCHES = (10, 100, 1_000, 10_000, 100_000, 500_000)
WINDOWS = tuple(2**power for power in range(10, 25, 2))
SUPERLINEAR = 1.3
"""A ratio to the proportional cost from which on growth is called superlinear: what is below is noise."""


def rows(run: Run) -> Iterator[Row]:
    """All series; the quick ones are two points each."""
    standing = run.of(4_096, 4_096, 8)
    yield from series(run, "growth.queries.eq", run.of(QUERIES, QUERIES[:2], (50, 100)), _equalities)
    yield from series(run, "growth.queries.f4", run.of(PAPER_QUERIES, PAPER_QUERIES[:2], (4, 8)), _paper_queries)
    yield from series(run, "growth.factors", run.of(FACTORS, FACTORS[:2], (1, 8)), partial(_factors, standing))
    yield from series(run, "growth.match", run.of(MATCHES, MATCHES[:2], (10, 500_000)), partial(_matches, standing))
    yield from series(run, "growth.window", run.of(WINDOWS, WINDOWS[:2], WINDOWS[:2]), _window, "us")


def series(
    run: Run, name: str, points: Sequence[int], measured: Callable[[int], Costs], unit: str = "ns"
) -> Iterator[Row]:
    """A part for each point; the cost of the point before is what the next is compared with."""
    costs: dict[int, Sample] = {}

    def rows_at(x: int) -> Iterator[Row]:
        ours, peers = measured(x)
        yield from point(name, x, ours, peers, next(reversed(costs.items()), None), unit)
        costs[x] = ours

    for x in points:
        yield from run.part(partial(rows_at, x), f"{name}.{x}")


def point(
    name: str, x: int, ours: Sample, peers: Sequence[tuple[str, Sample]], before: tuple[int, Sample] | None, unit: str
) -> Iterator[Row]:
    details = {"series": name, "x": x}
    if before is not None:
        proportional = before[1].scaled(x / before[0])
        target = Target(at_most=SUPERLINEAR)
        yield Row(f"{name}.{x}", ours, unit, f"{before[0]:,}, scaled", proportional, target, details=details)
    for peer, sample in peers:
        yield Row(f"{name}.{x}", ours, unit, peer, sample, details=details)


def _equalities(queries: int) -> Costs:
    work = scale.by_symbol(queries, False)
    bounds = work.bounds
    makers: list[Callable[[], Joiner]] = [lambda: NumPyBySymbol(bounds, BATCH), lambda: PolarsJoin(bounds, BATCH)]
    return _crowd(work, [*makers, lambda: DuckDBEqual(bounds, BATCH)], CHUNK)


def _matches(queries: int, millionths: int) -> Costs:
    random = np.random.default_rng([4, millionths])
    width = scale.WIDE * millionths // 1_000_000
    low = random.integers(0, scale.WIDE - width, queries)
    data = np.stack([np.zeros(CHUNK, np.int64), random.integers(0, scale.WIDE, CHUNK), np.zeros(CHUNK, np.int64)])
    work = scale.Workload(scale.BY_RANGE, np.stack([low, low + width], axis=1), data)
    some = 64 if millionths > 10_000 else 1_024
    return _crowd(work, [lambda: NumPySorted(work.bounds, some), lambda: DuckDBEqual(work.bounds, some)], 4 * BATCH)


def _crowd(work: scale.Workload, makers: Sequence[Callable[[], Joiner]], tuples: int) -> Costs:
    with closing(Cores()) as cores:
        crowd = scale.Crowd(work, cores)
        peers, _ = made(makers)
        turns = [partial(crowd.arrive, work.batches(BATCH, tuples))]
        rates, theirs = scale.beside_joins(crowd, work, peers, turns, [tuples], BATCH)
        crowd.arrive(work.batches(BATCH, tuples))
        scale.check(crowd, work, peers, tuples)
        scale.close(peers)
    return _cost(rates[0]), [(name, _cost(rate)) for name, rate in theirs]


def _paper_queries(queries: int) -> Costs:
    return paper(make_queries(queries, 4))


def _factors(queries: int, factors: int) -> Costs:
    return paper(make_queries(queries, factors))


def paper(queries: list[Query]) -> Costs:
    columns = make_columns(CHUNK)
    makers: list[Callable[[], Peer]] = [lambda: NumPyPerQuery(queries), lambda: BruteForce(queries)]
    makers += [lambda: PolarsMasks(queries), lambda: DuckDBJoin(queries, rows=256)]
    peers, _ = made(makers)
    engine = Loaded(queries, batches(columns, BATCH))
    turns: list[Callable[[], object]] = [engine.arrive]
    turns += [partial(peer.arrive, last_of(columns, peer.rows)) for peer in peers]
    rates = in_turns(turns, [CHUNK, *(peer.rows for peer in peers)], 3, engine.local.maintain)
    check(engine, queries, peers, columns)
    for peer in peers:
        peer.close()
    return _cost(rates[0]), [(peer.name, _cost(rate)) for peer, rate in zip(peers, rates[1:], strict=True)]


def _window(window: int) -> Costs:
    rows = list(invocation.shape("", window, 4, 5 if window <= 2**20 else 1, queries=16))
    return rows[0].sample, [(row.peer, row.peer_sample) for row in rows if row.peer_sample is not None]


def _cost(rate: Rate | Sample) -> Sample:
    """Nanoseconds a tuple."""
    given = rate.wall if isinstance(rate, Rate) else rate
    return Sample(1e9 / given.median, 1e9 / given.high, 1e9 / given.low, given.count)
