"""Rows `invoke.*`: how fast a client that comes back has its answer, SELECT * over the window, as an Arrow table.

PSoup keeps which tuples match; an invocation finds the window and gathers them. Engines evaluate the query from scratch
over a table that holds the window and nothing else. Rows `ask.*` are of the same statements, asked once: it evaluates
from scratch, too, and stands beside engines and beside itself with the queries registered. A figure is the median of
the queries' medians. The spread is over the queries, whose answers differ in size. The window ends in an open chunk and
reaches into sealed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from benchmarks.peers import made
from benchmarks.peers.scan import Peer, in_order, other_scans, quick_scans
from benchmarks.tool.measure import Row, Sample, Target, beside, seconds
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, Columns, Query, batches, make_columns, make_queries
from psoup.local import LocalPSoup

CHUNK = 65_536
BATCH = 4_096
OPEN = 16_384
"""Tuples in the open chunk when the queries are invoked."""

MILLION = 1_048_576
HEADLINE = (32_768, 4)
SHAPES = ((128, 4), (4_096, 4), (32_768, 1), HEADLINE, (32_768, 8), (65_536, 4), (MILLION, 4))
"""Tuples in the window, factors of each query."""

TARGETS = {HEADLINE: Target(value_at_most=50), (MILLION, 4): Target(at_least=10)}
QUERIES = 128


def rows(run: Run) -> Iterator[Row]:
    """Rows for each shape; those with a target stand beside every peer."""
    for window, factors in run.of(SHAPES, (HEADLINE,), SHAPES):
        label = "1m" if window == MILLION else str(window)
        name = f"invoke.w{label}.f{factors}"
        everything = (window, factors) in TARGETS
        target = TARGETS.get((window, factors))
        repeats = run.of(5 if window == MILLION else 11, 5, 1)
        reach, queries = run.of(window, window, min(window, CHUNK)), run.of(QUERIES, QUERIES, 3)
        measured = partial(shape, name, reach, factors, repeats, target, queries, everything=everything)
        yield from run.part(measured, name)


def ask_rows(run: Run) -> Iterator[Row]:
    """Rows of questions, for two windows."""
    for window in run.of((32_768, MILLION), (32_768,), (32_768, MILLION)):
        name = f"ask.w{'1m' if window == MILLION else window}.f4"
        repeats, queries = run.of(11, 5, 1), run.of(QUERIES, QUERIES, 3)
        yield from run.part(partial(asked, name, run.of(window, window, 4_096), repeats, queries), name)


def shape(
    name: str,
    window: int,
    factors: int,
    repeats: int,
    target: Target | None = None,
    queries: int = QUERIES,
    *,
    everything: bool = False,
) -> Iterator[Row]:
    """A row for each peer: the two fastest engines, or all."""
    standing = make_queries(queries, factors)
    columns = make_columns(-(-window // CHUNK) * CHUNK + OPEN)
    local, ids = _load(standing, columns, window)
    window_columns = columns[:, -window:]
    makers = quick_scans(window_columns, standing)
    if everything:
        makers += other_scans(window_columns, standing, 8 if window >= MILLION else 32)
    peers, missing = made(makers)
    _check(local, ids, standing, window_columns, peers)
    turns: list[list[Callable[[], object]]] = [[partial(_invoke, local, i) for i in ids]]
    turns += [[partial(peer.invoke, n) for n in range(peer.queries)] for peer in peers]
    ours, *theirs = [Sample.of(medians) for medians in in_turns(turns, repeats)]
    details = {"answer_rows_median": float(np.median([query.mask(window_columns).sum() for query in standing]))}
    named = [(peer.name, sample) for peer, sample in zip(peers, theirs, strict=True)]
    yield from beside(name, ours, "us", named, missing, target, details=details)
    for peer in peers:
        peer.close()


def asked(name: str, window: int, repeats: int, queries: int) -> Iterator[Row]:
    """Rows of questions: beside the same queries registered, and the two fastest engines, whose texts are prepared."""
    standing = make_queries(queries, 4)
    columns = make_columns(-(-window // CHUNK) * CHUNK + OPEN)
    local, ids = _load(standing, columns, window)
    window_columns, texts = columns[:, -window:], [query.statement(window) for query in standing]
    peers, missing = made(quick_scans(window_columns, standing))
    _check(local, ids, standing, window_columns, peers)
    for query_id, text in zip(ids, texts, strict=True):
        if not local.ask(text).to_table().equals(local.invoke(query_id).to_table()):
            raise AssertionError(f"asked and registered, {text!r} differ")
    turns: list[list[Callable[[], object]]] = [[partial(_ask, local, text) for text in texts]]
    turns += [[partial(_invoke, local, query_id) for query_id in ids]]
    turns += [[partial(peer.invoke, n) for n in range(peer.queries)] for peer in peers]
    ours, *theirs = [Sample.of(medians) for medians in in_turns(turns, repeats)]
    named = list(zip(["PSoup, registered", *(peer.name for peer in peers)], theirs, strict=True))
    yield from beside(name, ours, "us", named, missing)
    for peer in peers:
        peer.close()


def in_turns(turns: Sequence[Sequence[Callable[[], object]]], repeats: int) -> list[list[float]]:
    """Microseconds of each engine's every query, the median of `repeats`; engines take turns, query by query.

    The first call of a turn is a warm-up: the engine before has filled the caches with its spent data.
    """
    times: list[list[float]] = [[] for _ in turns]
    for number in range(max(map(len, turns))):
        for spent, calls in zip(times, turns, strict=True):
            if number < len(calls):
                measured = [seconds(calls[number]) for _ in range(repeats + 1)][1:]
                spent.append(1e6 * float(np.median(measured)))
    return times


def _invoke(local: LocalPSoup, query_id: int) -> object:
    return local.invoke(query_id).to_table()


def _ask(local: LocalPSoup, sql: str) -> object:
    return local.ask(sql).to_table()


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
    local: LocalPSoup, ids: Sequence[int], queries: Sequence[Query], window: Columns, peers: Sequence[Peer]
) -> None:
    for number, (query_id, query) in enumerate(zip(ids, queries, strict=True)):
        expected = window[:, query.mask(window)]
        answer = local.invoke(query_id).to_table()
        ours = np.stack([column.to_numpy() for column in answer.columns])
        if not np.array_equal(ours, expected):
            raise AssertionError(f"query {query_id}: {answer.num_rows} rows, NumPy has {expected.shape[1]}")
        for peer in peers:
            if number >= peer.queries:
                continue
            if not np.array_equal(in_order(peer.answer(number)), in_order(expected)):
                raise AssertionError(f"{peer.name} disagrees with NumPy on {query.predicate()}")
