"""Rows `arrival.*`: how fast tuples are joined with all standing queries, results kept.

A batch of 4,096 tuples is pushed into the embedded engine: validated, stamped, released at once (the stream is in
the system time domain), joined with every query, and the matches kept in the open form. The clock runs over 16
batches, one chunk; sealing the chunk comes between two samples, and in `.sustained` inside them, with expiry. One
core. The peer keeps bits for each query, and nothing else: no order, no window, no expiry, no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.measure import Row, Sample, Target, seconds
from benchmarks.peers import NumPyPerQuery
from benchmarks.workload import CREATE, STREAM, Columns, Query, batches, make_columns, make_queries
from psoup.local import LocalPSoup
from psoup.stems.piece import Runner, serial

BATCH = 4_096
CHUNK = 65_536
KEPT = 4 * CHUNK
HEADLINE = (4_096, 4)
SHAPES = ((128, 4), (1_024, 4), (4_096, 1), (4_096, 2), HEADLINE, (4_096, 8))
"""Number of queries, factors of each."""


def rows(quick: bool) -> Iterator[Row]:
    """One row for each shape; the headline has two peers and a sustained form."""
    for queries, factors in (HEADLINE,) if quick else SHAPES:
        yield from _shape(queries, factors, samples=3 if quick else 5)


def _shape(count: int, factors: int, samples: int) -> Iterator[Row]:
    queries = make_queries(count, factors)
    columns = make_columns(CHUNK)
    last = np.ascontiguousarray(columns[:, -BATCH:])
    engine = Loaded(queries, batches(columns, BATCH))
    wide, narrow = NumPyPerQuery(queries), NumPyPerQuery(queries, np.uint8)
    headline = (count, factors) == HEADLINE
    turns: list[Callable[[], object]] = [engine.arrive, partial(wide.arrive, last)]
    if headline:
        turns.append(partial(narrow.arrive, last))
    amounts = [CHUNK, BATCH, BATCH]
    rates = [Sample.of(rate) for rate in _in_turns(turns, amounts, samples, engine.local.maintain)]
    check(engine, wide, last)
    name = f"arrival.q{count}.f{factors}"
    target = Target(at_least=25, value_at_least=1_000_000) if headline else None
    yield Row(name, rates[0], "tuples/s", "NumPy int64", rates[1], target)
    if not headline:
        return
    yield Row(name, rates[0], "tuples/s", "NumPy uint8", rates[2])
    rates = [Sample.of(rate) for rate in _in_turns([engine.sustain, turns[1]], amounts, samples, _nothing)]
    note = "sealing, expiry and index upkeep inside the measurement"
    yield Row(f"{name}.sustained", rates[0], "tuples/s", "NumPy int64", rates[1], None, note)


def _in_turns(
    turns: Sequence[Callable[[], object]], amounts: Sequence[int], samples: int, between: Callable[[], object]
) -> list[list[float]]:
    """Tuples a second of each, taking turns, so that a busy moment hits all; the first round is warm-up."""
    rates: list[list[float]] = [[] for _ in turns]
    for _ in range(samples + 1):
        for rate, turn, amount in zip(rates, turns, amounts, strict=False):
            rate.append(amount / seconds(turn))
        between()
    return [rate[1:] for rate in rates]


def _nothing() -> None:
    """Between two samples of what includes everything."""


class Loaded:
    """An embedded engine with the queries registered and indexed; it keeps the last four chunks."""

    def __init__(self, queries: list[Query], chunk: list[pa.Table], run: Runner = serial) -> None:
        self.local = LocalPSoup(run=run)
        self.local.execute(f"{CREATE} RETENTION {KEPT} ROWS")
        self.ids = [self.local.register(query.statement(BATCH)) for query in queries]
        self.local.maintain()
        self._chunk = chunk

    def arrive(self) -> None:
        """Push a chunk's worth of batches."""
        for table in self._chunk:
            self.local.push(STREAM, table)

    def sustain(self) -> None:
        """The same, and whatever maintenance became due."""
        self.arrive()
        self.local.maintain()


def check(engine: Loaded, peer: NumPyPerQuery, last: Columns) -> None:
    """Every query's answer over the last batch is what the peer found in it, tuple by tuple."""
    bits = np.unpackbits(peer.arrive(last), axis=1, bitorder="little", count=last.shape[1]).astype(np.bool_)
    for query_id, mask in zip(engine.ids, bits, strict=True):
        answer = engine.local.invoke(query_id).to_table()
        ours = np.stack([column.to_numpy() for column in answer.columns])
        if not np.array_equal(ours, last[:, mask]):
            raise AssertionError(f"query {query_id}: {answer.num_rows} rows, the peer has {mask.sum()}")
