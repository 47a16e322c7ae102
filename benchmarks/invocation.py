"""Rows `invoke.*`: how fast a client that comes back has its answer, SELECT * over the window, as an Arrow table.

PSoup keeps which tuples match; an invocation finds the window and gathers them. DuckDB and Polars evaluate the query
from scratch over a table that holds the window and nothing else. A figure is the median over the queries of each
query's median; the spread is over the queries, whose answers differ in size. The window ends in an open chunk and
reaches into sealed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.measure import Row, Sample, Target, seconds
from benchmarks.peers import DuckDBScan, PolarsScan
from benchmarks.workload import CREATE, STREAM, Columns, Query, batches, make_columns, make_queries
from psoup.local import LocalPSoup

CHUNK = 65_536
BATCH = 4_096
OPEN = 16_384
"""Tuples in the open chunk when the queries are invoked."""

HEADLINE = (32_768, 4)
SHAPES = ((128, 4), (4_096, 4), (32_768, 1), HEADLINE, (32_768, 8), (65_536, 4), (1_048_576, 4))
"""Tuples in the window, factors of each query."""

QUERIES = 128
Peers = tuple[DuckDBScan | PolarsScan, ...]


def rows(quick: bool) -> Iterator[Row]:
    """Two rows for each shape, one for each peer."""
    for window, factors in (HEADLINE,) if quick else SHAPES:
        yield from _shape(window, factors, repeats=5 if quick else 11)


def _shape(window: int, factors: int, repeats: int) -> Iterator[Row]:
    queries = make_queries(QUERIES, factors)
    chunks = -(-window // CHUNK)
    columns = make_columns(chunks * CHUNK + OPEN)
    local, ids = _load(queries, columns, window)
    kept = columns[:, -window:]
    peers: Peers = (DuckDBScan(kept, queries), PolarsScan(kept, queries))
    _check(local, ids, queries, kept, peers)
    turns: list[list[Callable[[], object]]] = [[partial(_invoke, local, i) for i in ids]]
    for peer in peers:
        turns.append([partial(peer.invoke, n) for n in range(QUERIES)])
    ours, *theirs = [Sample.of(medians) for medians in _in_turns(turns, repeats)]
    answer_rows = float(np.median([query.mask(kept).sum() for query in queries]))
    targets = {"DuckDB": Target(at_least=10), "Polars": Target(at_least=2)} if (window, factors) == HEADLINE else {}
    label = "1m" if window == 1_048_576 else str(window)
    for peer, sample in zip(peers, theirs, strict=True):
        details = {"answer_rows_median": answer_rows}
        yield Row(f"invoke.w{label}.f{factors}", ours, "us", peer.name, sample, targets.get(peer.name), "", details)
        peer.close()


def _in_turns(turns: Sequence[Sequence[Callable[[], object]]], repeats: int) -> list[list[float]]:
    """Microseconds of each engine's every query, the median of `repeats`; engines take turns, query by query.

    The first call of a turn is a warm-up: the engine before has filled the caches with its own data.
    """
    times: list[list[float]] = []
    for calls in zip(*turns, strict=True):
        times.append([1e6 * float(np.median([seconds(call) for _ in range(repeats + 1)][1:])) for call in calls])
    return [list(column) for column in zip(*times, strict=True)]


def _invoke(local: LocalPSoup, query_id: int) -> object:
    return local.invoke(query_id).to_table()


def _load(queries: Sequence[Query], columns: Columns, window: int) -> tuple[LocalPSoup, list[int]]:
    local = LocalPSoup()
    local.execute(CREATE)
    ids = [local.register(query.statement(window)) for query in queries]
    local.maintain()
    for table in batches(columns, BATCH):
        local.push(STREAM, table)
    local.maintain()
    return local, ids


def _check(
    local: LocalPSoup,
    ids: Sequence[int],
    queries: Sequence[Query],
    kept: Columns,
    peers: Peers,
) -> None:
    for number, (query_id, query) in enumerate(zip(ids, queries, strict=True)):
        expected = kept[:, query.mask(kept)]
        answer = local.invoke(query_id).to_table()
        ours = np.stack([column.to_numpy() for column in answer.columns])
        if not np.array_equal(ours, expected):
            raise AssertionError(f"query {query_id}: {answer.num_rows} rows, NumPy has {expected.shape[1]}")
        for peer in peers:
            if not np.array_equal(peer.answer(number), expected):
                raise AssertionError(f"{peer.name} disagrees with NumPy on {query.predicate()}")
