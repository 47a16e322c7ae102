"""Rows `arrival.q100k.*` and `arrival.q1m.*`: very many queries, each of which few tuples match; and the paper's
queries on both cores.

    .eq      sym = ? AND a >= ? AND a < ? AND b >= ? AND b < ?     10,000 symbols, uniform; each range covers half
    .zipf    the same with symbols Zipf(1), in queries and tuples  tests a second: (query, tuple) pairs of one symbol
    .range   a >= ? AND a < ?                                      one range over 0.1 % of the values

The tuples are pushed into the embedded engine and all matches kept, as in `benchmarks.arrival`. One core, and with
`.two` both. `.b64` are batches of 64 pushed one by one, `.b64.run` the same applied 64 at a time, as the service does
when they queue up. The peers keep the pairs of one batch and forget them; DuckDB and Polars use all cores.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.arrival import Loaded
from benchmarks.arrival import check as check_paper
from benchmarks.measure import Row, Sample, Target, seconds
from benchmarks.peers import NumPyPerQuery
from benchmarks.scale_peers import DuckDBJoin, Integers, NumPyBySymbol, NumPySorted, Peer, PolarsJoin
from benchmarks.workload import Query, batches, make_columns, make_queries
from psoup.answer.matches import matches
from psoup.events import Push
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT
from psoup.stems.piece import Task
from psoup_service.runner import TaskPool

Turn = Callable[[], object]
BATCH, SMALL, CHUNK, BLOCK = 4_096, 64, 65_536, 100_000
SYMBOLS, VALUES, WIDE = 10_000, 1_000, 1_000_000
COLUMNS = ("sym", "a", "b")
CREATE = f"CREATE STREAM s (sym BIGINT NOT NULL, a BIGINT NOT NULL, b BIGINT NOT NULL) RETENTION {2 * CHUNK} ROWS"
BY_SYMBOL = "SELECT * FROM s WHERE sym = ? AND a >= ? AND a < ? AND b >= ? AND b < ?"
BY_RANGE = "SELECT * FROM s WHERE a >= ? AND a < ?"


@dataclass(frozen=True, slots=True)
class Workload:
    """`bounds`: int64[Q, p], the values of the statement's parameters; `data`: int64[3, CHUNK]."""

    statement: str
    bounds: Integers
    data: Integers

    def batches(self, rows: int, upto: int) -> list[pa.Table]:
        """The first `upto` tuples, `rows` at a time."""
        table = pa.table(dict(zip(COLUMNS, self.data, strict=True)))
        return [table.slice(start, rows) for start in range(0, upto, rows)]

    def mask(self, values: Integers) -> npt.NDArray[np.bool_]:
        """Which queries a tuple matches: bool[Q]."""
        if self.statement == BY_RANGE:
            return (self.bounds[:, 0] <= values[1]) & (values[1] < self.bounds[:, 1])
        wanted, low, high, low_2, high_2 = self.bounds.T
        symbol, a, b = values
        return (wanted == symbol) & (low <= a) & (a < high) & (low_2 <= b) & (b < high_2)


def by_symbol(queries: int, zipf: bool, seed: int = 1) -> Workload:
    """One symbol and two ranges that cover half each."""
    random = np.random.default_rng([seed, queries, zipf])
    share = 1 / np.arange(1, SYMBOLS + 1) if zipf else np.ones(SYMBOLS)
    wanted, seen = (random.choice(SYMBOLS, size, p=share / share.sum()) for size in (queries, CHUNK))
    lows = random.integers(0, VALUES // 2, (2, queries))
    bounds = np.stack([wanted, lows[0], lows[0] + VALUES // 2, lows[1], lows[1] + VALUES // 2], axis=1)
    return Workload(BY_SYMBOL, bounds, np.stack([seen, *random.integers(0, VALUES, (2, CHUNK))]))


def by_range(queries: int, seed: int = 3) -> Workload:
    """One range over 0.1 % of the values."""
    random = np.random.default_rng([seed, queries])
    low = random.integers(0, WIDE - WIDE // 1000, queries)
    data = np.stack([np.zeros(CHUNK, np.int64), random.integers(0, WIDE, CHUNK), np.zeros(CHUNK, np.int64)])
    return Workload(BY_RANGE, np.stack([low, low + WIDE // 1000], axis=1), data)


class Cores:
    """A runner whose number of threads can be changed between two pushes."""

    def __init__(self) -> None:
        self.threads = 1
        self._pool = TaskPool(2)

    def __call__(self, tasks: Sequence[Task]) -> None:
        self._pool(tasks)

    def close(self) -> None:
        """End the threads."""
        self._pool.close()


class Crowd:
    """An embedded engine with the queries of a workload registered and indexed."""

    def __init__(self, work: Workload, cores: Cores) -> None:
        self.cores = cores
        self.local = LocalPSoup(run=cores)
        self.local.execute(CREATE)
        rows = work.bounds.tolist()
        for start in range(0, len(rows), BLOCK):
            ids = self.local.register_many(work.statement, rows[start : start + BLOCK])
            if start == 0:
                self.first_id = ids[0]
        self.local.maintain()

    def arrive(self, batches: Sequence[pa.Table], threads: int = 1) -> None:
        """Push each batch by itself."""
        self.cores.threads = threads
        for table in batches:
            self.local.push("s", table)

    def arrive_together(self, batches: Sequence[pa.Table]) -> None:
        """Apply up to 64 pushes at a time, as the writer of the service does with what has queued up."""
        self.cores.threads = 1
        for start in range(0, len(batches), SMALL):
            taken = [self.local.admission.prepare(Push("s", table), 0) for table in batches[start : start + SMALL]]
            events = [prepared.event for prepared in taken if prepared.event is not None]
            self.local.admission.give_back(self.local.engine.apply(events).freed_bytes)

    def queries_of(self, back: int) -> Integers:
        """Positions of the queries that the last tuple but `back` matched, ascending."""
        snapshot = self.local.engine.snapshot()
        last = snapshot.stream("s", DEFAULT_TENANT).next_id - 1
        found = matches(snapshot, "s", last - back, tenant=DEFAULT_TENANT, limit=BLOCK * BLOCK)
        return np.array(found, np.int64) - self.first_id


def mixed_rows(quick: bool) -> Iterator[Row]:
    """The paper's queries, 1 to 8 factors mixed; one core and two."""
    queries = [query for factors in range(1, 9) for query in make_queries(128, factors)]
    yield from _paper("arrival.q1024.mixed", queries, 1, 3 if quick else 5, Target(value_at_least=6e6), None)


def long_rows(quick: bool) -> Iterator[Row]:
    """4,096 queries of four factors over 64 chunks a sample, sealing and expiry inside; one core and two."""
    one, two = Target(value_at_least=2e6), Target(value_at_least=3.5e6)
    yield from _paper("arrival.q4096.f4.long", make_queries(4_096, 4), 8 if quick else 64, 1 if quick else 3, one, two)


def _paper(
    name: str, queries: list[Query], chunks: int, samples: int, one: Target | None, two: Target | None
) -> Iterator[Row]:
    columns = make_columns(CHUNK)
    tables, last = batches(columns, BATCH), np.ascontiguousarray(columns[:, -BATCH:])
    peer = NumPyPerQuery(queries)
    with closing(Cores()) as cores:
        engine = Loaded(queries, tables, cores)

        def arrive(threads: int) -> None:
            cores.threads = threads
            for _ in range(chunks):
                engine.sustain() if chunks > 1 else engine.arrive()

        turns: list[Turn] = [partial(arrive, 1), partial(arrive, 2), partial(peer.arrive, last)]
        rates = in_turns(turns, [chunks * CHUNK, chunks * CHUNK, BATCH], samples, engine.local.maintain)
        check_paper(engine, peer, last)
    for suffix, rate, target in (("", rates[0], one), (".two", rates[1], two)):
        yield _row(name + suffix, rate, "tuples/s", "NumPy int64", rates[2], target)


def rows_of_100k(quick: bool) -> Iterator[Row]:
    """100,000 queries."""
    with closing(Cores()) as cores:
        yield from _by_symbol("arrival.q100k.eq", by_symbol(100_000, False), cores, CHUNK, Target(value_at_least=8e6))


def rows_of_1m(quick: bool) -> Iterator[Row]:
    """A million queries: minutes to load, so not when it has to be quick."""
    if quick:
        return
    with closing(Cores()) as cores:
        million = by_symbol(1_000_000, False)
        yield from _by_symbol(
            "arrival.q1m.eq", million, cores, CHUNK, Target(value_at_least=2e6), Target(value_at_least=1.2e6)
        )
        yield from _zipf("arrival.q1m.zipf", by_symbol(1_000_000, True), cores)
        yield from _by_range("arrival.q1m.range", by_range(1_000_000), cores)


def _by_symbol(
    name: str, work: Workload, cores: Cores, tuples: int, two: Target | None, one: Target | None = None
) -> Iterator[Row]:
    crowd = Crowd(work, cores)
    peers: list[Peer] = [NumPyBySymbol(work.bounds), PolarsJoin(work.bounds), DuckDBJoin(work.bounds)]
    large, small = work.batches(BATCH, tuples), work.batches(SMALL, tuples // 8)
    last, few = work.data[:, tuples - BATCH : tuples], work.data[:, :SMALL]
    turns: list[Turn] = [
        partial(crowd.arrive, large),
        partial(crowd.arrive, large, 2),
        *(partial(p.join, last) for p in peers),
    ]
    rates = in_turns(turns, [tuples, tuples] + [BATCH] * len(peers), 3, crowd.local.maintain)
    crowd.arrive(large)
    check(crowd, work, peers, tuples)
    yield from _beside(name, rates[0], peers, rates[2:], one)
    yield from _beside(f"{name}.two", rates[1], peers, rates[2:], two)
    turns = [
        partial(crowd.arrive, small),
        partial(crowd.arrive_together, small),
        *(partial(p.join, few) for p in peers),
    ]
    rates = in_turns(turns, [tuples // 8] * 2 + [SMALL] * len(peers), 3, crowd.local.maintain)
    yield from _beside(f"{name}.b64", rates[0], peers, rates[2:], Target(value_at_least=1e6) if one else None)
    yield from _beside(f"{name}.b64.run", rates[1], peers, rates[2:], None)


def _zipf(name: str, work: Workload, cores: Cores) -> Iterator[Row]:
    crowd = Crowd(work, cores)
    tuples, few = 2 * BATCH, 256
    peers: list[Peer] = [NumPyBySymbol(work.bounds), PolarsJoin(work.bounds), DuckDBJoin(work.bounds)]
    turns: list[Turn] = [partial(crowd.arrive, work.batches(BATCH, tuples), threads) for threads in (1, 2)]
    turns += [partial(p.join, work.data[:, tuples - few : tuples]) for p in peers]
    wanted = np.bincount(work.bounds[:, 0], minlength=SYMBOLS)
    ours, theirs = (int(wanted[work.data[0, a:tuples]].sum()) for a in (0, tuples - few))
    rates = in_turns(turns, [ours, ours] + [theirs] * len(peers), 3, crowd.local.maintain)
    check(crowd, work, peers, tuples)
    for suffix, rate in zip(("", ".two"), rates, strict=False):
        yield from _beside(name + suffix, rate, peers, rates[2:], Target(at_least=10), "tests/s")


def _by_range(name: str, work: Workload, cores: Cores) -> Iterator[Row]:
    crowd = Crowd(work, cores)
    tuples = 2 * BATCH
    peers: list[Peer] = [NumPySorted(work.bounds), DuckDBJoin(work.bounds)]
    turns: list[Turn] = [partial(crowd.arrive, work.batches(BATCH, tuples), threads) for threads in (1, 2)]
    turns += [partial(p.join, work.data[:, tuples - BATCH : tuples]) for p in peers]
    rates = in_turns(turns, [tuples, tuples] + [BATCH] * len(peers), 3, crowd.local.maintain)
    check(crowd, work, peers, tuples)
    for suffix, rate in zip(("", ".two"), rates, strict=False):
        yield from _beside(name + suffix, rate, peers, rates[2:], Target(value_at_least=4e5))
    turns = [partial(crowd.arrive, work.batches(SMALL, 1024)), *(partial(p.join, work.data[:, :SMALL]) for p in peers)]
    rates = in_turns(turns, [1024] + [SMALL] * len(peers), 3, crowd.local.maintain)
    yield from _beside(f"{name}.b64", rates[0], peers, rates[1:], Target(value_at_least=5e4))


def _beside(
    name: str, rate: Rate, peers: Sequence[Peer], theirs: Sequence[Rate], target: Target | None,
    unit: str = "tuples/s",
) -> Iterator[Row]:  # fmt: skip
    """A row for each peer; the target belongs to the fastest."""
    best = max(range(len(peers)), key=lambda k: theirs[k].wall.median)
    for k, peer in enumerate(peers):
        yield _row(name, rate, unit, peer.name, theirs[k], target if k == best else None)


def _row(name: str, rate: Rate, unit: str, peer: str, theirs: Rate, target: Target | None) -> Row:
    note = f"{rate.cpu:,.0f} {unit} by the CPU time of the pushing thread"
    return Row(name, rate.wall, unit, peer, theirs.wall, target, note, {"cpu_rate": rate.cpu})


class Rate(NamedTuple):
    """By the clock; and the median by the CPU time of the calling thread, which a busy machine disturbs less."""

    wall: Sample
    cpu: float


def in_turns(turns: Sequence[Turn], amounts: Sequence[int], samples: int, between: Turn) -> list[Rate]:
    """The rate of each, taking turns; the first round is warm-up."""
    walls: list[list[float]] = [[] for _ in turns]
    cpus: list[list[float]] = [[] for _ in turns]
    for _ in range(samples + 1):
        for wall, cpu, turn, amount in zip(walls, cpus, turns, amounts, strict=True):
            before = time.thread_time()
            wall.append(amount / seconds(turn))
            cpu.append(amount / max(time.thread_time() - before, 1e-9))
            between()
    return [Rate(Sample.of(w[1:]), Sample.of(c[1:]).median) for w, c in zip(walls, cpus, strict=True)]


def check(crowd: Crowd, work: Workload, peers: Sequence[Peer], tuples: int) -> None:
    """The queries that some of the last tuples matched are those of every peer, and of a mask over all queries."""
    last = work.data[:, tuples - 8 : tuples]
    pairs = [peer.join(last) for peer in peers]
    for number in range(8):
        wanted = np.flatnonzero(work.mask(last[:, number]))
        found = [crowd.queries_of(7 - number), *(np.sort(own.queries[own.tuples == number]) for own in pairs)]
        for name, own in zip(("PSoup", *(peer.name for peer in peers)), found, strict=True):
            if not np.array_equal(own, wanted):
                raise AssertionError(f"{name}: {len(own)} queries match tuple {number}, the mask has {len(wanted)}")
