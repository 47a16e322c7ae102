"""Rows `arrival.q100k.*` and `arrival.q1m.*`: very many queries, each of which few tuples match.

    .eq      sym = ? AND a >= ? AND a < ? AND b >= ? AND b < ?     10,000 symbols, uniform; each range covers half
    .zipf    the same with symbols Zipf(1), in queries and tuples  tests a second: (query, tuple) pairs of one symbol
    .range   a >= ? AND a < ?                                      one range over 0.1 % of the values

The tuples are pushed into the embedded engine and all matches kept, as in `benchmarks.arrival.arrival`. One core, and
with `.two` both. `.b64` are batches of 64 pushed one by one. `.b64.run` applies 64 of these at a time, as a service
with a queue does. `.match` asks which queries batches of 4,096 would match, and stores nothing. The peers keep the
pairs of one batch and forget them; DuckDB and Polars use all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.arrival.arrival import Cores
from benchmarks.peers import Missing, made, pathway
from benchmarks.peers.join import Integers, NumPyBySymbol, Peer, range_joins, symbol_joins
from benchmarks.tool.measure import Rate, Row, Sample, Target, beside, in_turns
from benchmarks.tool.run import Run
from psoup.events.commands import Push
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT

Turn = Callable[[], object]
BATCH, SMALL, CHUNK, BLOCK = 4_096, 64, 65_536, 100_000
LISTED = 1_000
"""Queries of a tuple that are returned at a time."""

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
    """Queries of a symbol and two ranges that cover half each."""
    random = np.random.default_rng([seed, queries, zipf])
    share = 1 / np.arange(1, SYMBOLS + 1) if zipf else np.ones(SYMBOLS)
    wanted, seen = (random.choice(SYMBOLS, size, p=share / share.sum()) for size in (queries, CHUNK))
    lows = random.integers(0, VALUES // 2, (2, queries))
    bounds = np.stack([wanted, lows[0], lows[0] + VALUES // 2, lows[1], lows[1] + VALUES // 2], axis=1)
    return Workload(BY_SYMBOL, bounds, np.stack([seen, *random.integers(0, VALUES, (2, CHUNK))]))


def by_range(queries: int, seed: int = 3) -> Workload:
    """Queries of a range over 0.1 % of the values."""
    random = np.random.default_rng([seed, queries])
    low = random.integers(0, WIDE - WIDE // 1000, queries)
    data = np.stack([np.zeros(CHUNK, np.int64), random.integers(0, WIDE, CHUNK), np.zeros(CHUNK, np.int64)])
    return Workload(BY_RANGE, np.stack([low, low + WIDE // 1000], axis=1), data)


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

    def match(self, batches: Sequence[pa.Table]) -> None:
        """Ask which queries each batch would match."""
        self.cores.threads = 1
        for table in batches:
            self.local.match("s", table)

    def queries_of(self, back: int) -> Integers:
        """Positions of the queries that the last tuple but `back` matched, ascending, the first LISTED of them."""
        last = self.local.engine.snapshot().stream("s", DEFAULT_TENANT).next_id - 1
        return np.array(self.local.matches("s", last - back), np.int64) - self.first_id


def rows_of_100k(run: Run) -> Iterator[Row]:
    """100,000 queries."""
    name = "arrival.q100k.eq"
    queries, tuples = run.of(100_000, 100_000, 200), run.of(CHUNK, CHUNK, 2 * BATCH)
    yield from run.part(lambda: _by_symbol(name, queries, tuples, (None, Target(value_at_least=8e6))), *_forms(name))


def rows_of_1m(run: Run) -> Iterator[Row]:
    """A million queries: minutes to load, so not when it has to be quick, unless they are named."""
    if run.quick and not run.only:
        return
    queries, tuples = run.of(1_000_000, 1_000_000, 300), run.of(CHUNK, CHUNK, 2 * BATCH)
    targets = Target(value_at_least=1.2e6), Target(value_at_least=2e6)
    name = "arrival.q1m.eq"
    streaming = run.of(True, False, False)
    yield from run.part(lambda: _by_symbol(name, queries, tuples, targets, streaming=streaming), *_forms(name))
    zipf, ranges = "arrival.q1m.zipf", "arrival.q1m.range"
    yield from run.part(lambda: _zipf(zipf, queries), zipf, f"{zipf}.two")
    yield from run.part(lambda: _by_range(ranges, queries), ranges, f"{ranges}.two", f"{ranges}.b64")


def _forms(name: str) -> tuple[str, ...]:
    """The rows of one workload."""
    return name, f"{name}.two", f"{name}.b64", f"{name}.b64.run", f"{name}.match"


def _by_symbol(
    name: str, queries: int, tuples: int, targets: tuple[Target | None, Target], *, streaming: bool = False
) -> Iterator[Row]:
    with closing(Cores()) as cores:
        yield from _symbols(name, by_symbol(queries, False), cores, tuples, targets, streaming=streaming)


def _symbols(
    name: str,
    work: Workload,
    cores: Cores,
    tuples: int,
    targets: tuple[Target | None, Target],
    *,
    streaming: bool,
) -> Iterator[Row]:
    first, two = targets
    crowd = Crowd(work, cores)
    peers, missing = made(symbol_joins(work.bounds))
    large, small = work.batches(BATCH, tuples), work.batches(SMALL, tuples // 8)
    turns: list[Turn] = [partial(crowd.arrive, large), partial(crowd.arrive, large, 2)]
    rates, theirs = beside_joins(crowd, work, peers, turns, [tuples] * 2, BATCH)
    crowd.arrive(large)
    check(crowd, work, peers, tuples)
    if streaming:
        theirs, missing = _with_pathway(work, theirs, missing)
    yield from beside(name, rates[0], "tuples/s", theirs, missing, first)
    yield from beside(f"{name}.two", rates[1], "tuples/s", theirs, missing, two)
    turns = [partial(crowd.arrive, small), partial(crowd.arrive_together, small)]
    rates, theirs = beside_joins(crowd, work, peers, turns, [tuples // 8] * 2, SMALL)
    target = Target(value_at_least=1e6) if first else None
    yield from beside(f"{name}.b64", rates[0], "tuples/s", theirs, missing, target)
    yield from beside(f"{name}.b64.run", rates[1], "tuples/s", theirs, missing)
    close(peers)
    match, arrive = in_turns(
        [partial(crowd.match, large), partial(crowd.arrive, large)], [tuples] * 2, 3, crowd.local.maintain
    )
    yield from beside(
        f"{name}.match", match, "tuples/s", [("PSoup, the same rows pushed", arrive)], [], Target(at_least=0.7)
    )


def _with_pathway(
    work: Workload, theirs: list[tuple[str, Rate | Sample]], missing: list[Missing]
) -> tuple[list[tuple[str, Rate | Sample]], list[Missing]]:
    tuples = np.ascontiguousarray(work.data[:, : 4 * 256])
    pairs = NumPyBySymbol(work.bounds, 256).join(tuples)
    expected = np.bincount(pairs.tuples, minlength=tuples.shape[1])
    try:
        return [*theirs, (pathway.NAME, pathway.rate(work.bounds, tuples, 256, expected, equal=True))], missing
    except Missing as absent:
        return theirs, [*missing, absent]


def _zipf(name: str, queries: int) -> Iterator[Row]:
    with closing(Cores()) as cores:
        yield from _skewed(name, by_symbol(queries, True), cores)


def _skewed(name: str, work: Workload, cores: Cores) -> Iterator[Row]:
    crowd = Crowd(work, cores)
    tuples = 2 * BATCH
    peers, missing = made(symbol_joins(work.bounds, rows=256))
    turns: list[Turn] = [partial(crowd.arrive, work.batches(BATCH, tuples), threads) for threads in (1, 2)]
    wanted = np.bincount(work.bounds[:, 0], minlength=SYMBOLS)
    ours = int(wanted[work.data[0, :tuples]].sum())
    rates, theirs = beside_joins(crowd, work, peers, turns, [ours, ours], 256, wanted)
    crowd.arrive(work.batches(BATCH, tuples))
    check(crowd, work, peers, tuples)
    for suffix, rate in zip(("", ".two"), rates, strict=True):
        yield from beside(name + suffix, rate, "candidates/s", theirs, missing, Target(at_least=10))
    close(peers)


def _by_range(name: str, queries: int) -> Iterator[Row]:
    with closing(Cores()) as cores:
        yield from _ranges(name, by_range(queries), cores)


def _ranges(name: str, work: Workload, cores: Cores) -> Iterator[Row]:
    crowd = Crowd(work, cores)
    tuples = 2 * BATCH
    peers, missing = made(range_joins(work.bounds))
    turns: list[Turn] = [partial(crowd.arrive, work.batches(BATCH, tuples), threads) for threads in (1, 2)]
    rates, theirs = beside_joins(crowd, work, peers, turns, [tuples, tuples], BATCH)
    crowd.arrive(work.batches(BATCH, tuples))
    check(crowd, work, peers, tuples)
    for suffix, rate in zip(("", ".two"), rates, strict=True):
        yield from beside(name + suffix, rate, "tuples/s", theirs, missing, Target(value_at_least=4e5))
    rates, theirs = beside_joins(crowd, work, peers, [partial(crowd.arrive, work.batches(SMALL, 1024))], [1024], SMALL)
    yield from beside(f"{name}.b64", rates[0], "tuples/s", theirs, missing, Target(value_at_least=5e4))
    close(peers)


def beside_joins(
    crowd: Crowd,
    work: Workload,
    peers: Sequence[Peer],
    turns: Sequence[Turn],
    amounts: Sequence[int],
    rows: int,
    wanted: Integers | None = None,
) -> tuple[list[Rate], list[tuple[str, Rate | Sample]]]:
    """Our rates and the peers', who get the first `rows` tuples at a time, or fewer if they are slow.

    `wanted`: how many queries want each symbol; then amounts are candidates.
    """
    given = [np.ascontiguousarray(work.data[:, : min(rows, peer.rows)]) for peer in peers]
    theirs = [data.shape[1] if wanted is None else int(wanted[data[0]].sum()) for data in given]
    every: list[Turn] = [*turns, *(partial(peer.join, data) for peer, data in zip(peers, given, strict=True))]
    rates = in_turns(every, [*amounts, *theirs], 3, crowd.local.maintain)
    return rates[: len(turns)], [(peer.name, rate) for peer, rate in zip(peers, rates[len(turns) :], strict=True)]


def close(peers: Sequence[Peer]) -> None:
    for peer in peers:
        peer.close()


def check(crowd: Crowd, work: Workload, peers: Sequence[Peer], tuples: int) -> None:
    """Check that the queries matched by some of the last tuples are the same for every peer, and for a mask over all
    queries.
    """
    last = work.data[:, tuples - 8 : tuples]
    pairs = [peer.join(last) for peer in peers]
    for number in range(8):
        wanted = np.flatnonzero(work.mask(last[:, number]))
        ours = crowd.queries_of(7 - number)
        answers = [("PSoup", ours, wanted[:LISTED])]
        answers += [(p.name, np.sort(q.queries[q.tuples == number]), wanted) for p, q in zip(peers, pairs, strict=True)]
        for name, queries, expected in answers:
            if not np.array_equal(queries, expected):
                raise AssertionError(
                    f"{name}: {len(queries)} queries match tuple {number}, the mask has {len(expected)}"
                )
