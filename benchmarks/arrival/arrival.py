"""Rows `arrival.q4096.f4` and `arrival.q1024.mixed`: how fast tuples are joined with some thousand standing queries of
the paper, results kept.

A batch of 4,096 tuples is pushed into the embedded engine: validated, stamped, released at once (the stream is in the
system time domain), joined with every query, and the matches kept in the open form. The clock runs over 16 batches,
which are one chunk; the chunk is sealed between two samples. In `.sustained` a sample has 64 chunks, with sealing and
expiry. One core, and with `.two` both: each batch in two shards, and sealing beside it. A peer finds the matches of one
batch, and that is all: no order, no window, no expiry, no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import closing
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.peers import Missing, made, pathway
from benchmarks.peers.arrive import engines
from benchmarks.peers.by_hand import BruteForce, NumPyPerQuery, Peer
from benchmarks.tool.measure import Rate, Row, Sample, Target, beside, in_turns
from benchmarks.tool.run import Run
from benchmarks.tool.workload import (
    ATTRIBUTES,
    CREATE,
    DOMAIN,
    STREAM,
    Columns,
    Query,
    batches,
    make_columns,
    make_queries,
)
from psoup.engine.maintenance.task import Installable
from psoup.local import LocalPSoup
from psoup.work.runner import Runner, Task, serial
from psoup_service.host.runner import TaskPool

BATCH = 4_096
CHUNK = 65_536
KEPT = 4 * CHUNK


FEW = 512
"""The number of queries that Pathway gets."""


def _headline(run: Run) -> list[Query]:
    return make_queries(run.of(4_096, 4_096, 16), 4)


def rows(run: Run) -> Iterator[Row]:
    """4,096 queries of four factors beside every peer."""
    targets = (Target(value_at_least=3e6), Target(value_at_least=5e6))
    name, samples, streaming = "arrival.q4096.f4", run.of(5, 3, 1), run.of(True, False, False)
    measured = partial(paper, name, _headline(run), targets, samples=samples, streaming=streaming)
    yield from run.part(measured, name, f"{name}.two")


def mixed_rows(run: Run) -> Iterator[Row]:
    """1,024 queries, 1 to 8 factors mixed."""
    queries = [query for factors in range(1, 9) for query in make_queries(run.of(128, 128, 2), factors)]
    name, targets = "arrival.q1024.mixed", (Target(value_at_least=6e6), None)
    yield from run.part(partial(paper, name, queries, targets, samples=run.of(5, 3, 1)), name, f"{name}.two")


def sustained_rows(run: Run) -> Iterator[Row]:
    """The headline over 64 chunks a sample, with sealing, expiry and index upkeep."""
    targets = (Target(value_at_least=2e6), Target(value_at_least=3.5e6))
    name = "arrival.q4096.f4.sustained"
    measured = partial(paper, name, _headline(run), targets, run.of(3, 1, 1), run.of(64, 8, 2))
    yield from run.part(measured, name, f"{name}.two")


def paper(
    name: str,
    queries: Sequence[Query],
    targets: tuple[Target | None, Target | None] = (None, None),
    samples: int = 3,
    chunks: int = 0,
    *,
    streaming: bool = False,
) -> Iterator[Row]:
    """Rows for one core and for both. `chunks`: how many a sample has, with upkeep inside; 0 is one without.

    Every engine is a peer of one chunk; the sustained form stands beside what is written by hand. `streaming`: beside
    Pathway as well.
    """
    columns = make_columns(CHUNK)
    peers, missing = paper_peers(queries, everything=not chunks)
    with closing(Cores()) as cores:
        engine = Loaded(queries, batches(columns, BATCH), cores)
        turns: list[Callable[[], object]] = [partial(engine.arrive, threads, chunks) for threads in (1, 2)]
        turns += [partial(peer.arrive, last_of(columns, peer.rows)) for peer in peers]
        amounts = [max(chunks, 1) * CHUNK] * 2 + [peer.rows * peer.queries // len(queries) for peer in peers]
        rates = in_turns(turns, amounts, samples, engine.local.maintain)
        check(engine, queries, peers, columns)
    theirs = _named(peers, rates[2:])
    if streaming:
        try:
            theirs.append((f"{pathway.NAME}, {FEW:,} of {len(queries):,} queries", _pathway(queries, columns)))
        except Missing as absent:
            missing.append(absent)
    for suffix, rate, target in zip(("", ".two"), rates, targets, strict=False):
        yield from beside(name + suffix, rate, "tuples/s", theirs, missing, target)
    for peer in peers:
        peer.close()


def paper_peers(queries: Sequence[Query], *, everything: bool) -> tuple[list[Peer], list[Missing]]:
    """NumPy on int64 and the limit; with `everything` every engine as well."""
    makers: list[Callable[[], Peer]] = [lambda: NumPyPerQuery(queries), lambda: BruteForce(queries)]
    if everything:
        makers += [lambda: NumPyPerQuery(queries, np.uint8), *engines(queries)]
    return made(makers)


def _pathway(queries: Sequence[Query], columns: Columns) -> Sample:
    """Pathway's rate with the first FEW queries, scaled to all of them: its join is with every query."""
    tuples = np.ascontiguousarray(columns[:, : 4 * 64])
    bounds = np.tile(np.array([0, DOMAIN] * ATTRIBUTES), (FEW, 1))
    for row, query in zip(bounds, queries, strict=False):
        for interval in query.intervals:
            row[2 * interval.attribute : 2 * interval.attribute + 2] = interval.low, interval.high + 1
    expected = np.stack([query.mask(tuples) for query in queries[:FEW]]).sum(axis=0, dtype=np.int64)
    rate = pathway.rate(bounds, tuples, 64, expected, equal=False)
    return rate.scaled(FEW / len(queries))


def _named(peers: Sequence[Peer], rates: Sequence[Rate]) -> list[tuple[str, Rate | Sample]]:
    return [(peer.name, rate) for peer, rate in zip(peers, rates, strict=True)]


def last_of(columns: Columns, rows: int) -> Columns:
    return np.ascontiguousarray(columns[:, columns.shape[1] - rows :])


class Cores:
    """A runner whose number of threads can be changed between two pushes."""

    def __init__(self) -> None:
        self.threads = 1
        self._pool = TaskPool(2)

    def __call__(self, tasks: Sequence[Task]) -> None:
        self._pool(tasks) if self.threads > 1 else serial(tasks)

    def close(self) -> None:
        """End the threads."""
        self._pool.close()


class Maintainer:
    """Maintenance computed on a thread of its own, one task at a time, and installed between two pushes."""

    def __init__(self, local: LocalPSoup) -> None:
        self._local = local
        self._thread = ThreadPoolExecutor(1)
        self._task: Future[Installable] | None = None

    def turn(self) -> bool:
        """Install a ready result, and hand over a due task. Returns whether a task is under way."""
        if self._task is not None and self._task.done():
            self._local.engine.install(self._task.result())
            self._task = None
        if self._task is None and (task := self._local.engine.maintenance()) is not None:
            self._task = self._thread.submit(task.compute)
        return self._task is not None

    def close(self) -> None:
        """Finish the task under way and the tasks that are due after it; end the thread."""
        while self._task is not None:
            wait([self._task])
            self.turn()
        self._thread.shutdown()


class Loaded:
    """An embedded engine with the queries registered and indexed; it keeps the last four chunks."""

    def __init__(self, queries: Sequence[Query], chunk: list[pa.Table], run: Runner = serial) -> None:
        self.run = run
        self.local = LocalPSoup(run=run)
        self.local.execute(f"{CREATE} RETENTION {KEPT} ROWS")
        self.ids = list(self.local.register_many([query.statement(BATCH) for query in queries]))
        self.local.maintain()
        self._chunk = chunk

    def arrive(self, threads: int = 1, chunks: int = 0) -> None:
        """Push a chunk's worth of batches; or as many as `chunks`, with all maintenance that becomes due.

        On one core maintenance is done in between. On two it has a thread, as in the service.
        """
        if isinstance(self.run, Cores):
            self.run.threads = threads
        with closing(Maintainer(self.local)) as maintainer:
            for _ in range(max(chunks, 1)):
                for table in self._chunk:
                    self.local.push(STREAM, table)
                    if chunks and threads > 1:
                        maintainer.turn()
                if chunks and threads == 1:
                    self.local.maintain()


def check(engine: Loaded, queries: Sequence[Query], peers: Sequence[Peer], columns: Columns) -> None:
    """Check that every query's answer over the last batch is NumPy's, tuple by tuple, and so is every peer's mask."""
    last = last_of(columns, BATCH)
    masks = np.stack([query.mask(last) for query in queries])
    for query_id, mask in zip(engine.ids, masks, strict=True):
        answer = engine.local.invoke(query_id).to_table()
        ours = np.stack([column.to_numpy() for column in answer.columns])
        if not np.array_equal(ours, last[:, mask]):
            raise AssertionError(f"query {query_id}: {answer.num_rows} rows, NumPy has {mask.sum()}")
    for peer in peers:
        theirs = peer.masks(last_of(columns, peer.rows))
        if not np.array_equal(theirs, masks[: peer.queries, BATCH - peer.rows :]):
            raise AssertionError(f"{peer.name}: {theirs.sum()} matches, not those of NumPy")
