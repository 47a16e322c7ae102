"""Rows `amount.complete.*`: invocations of COMPLETE queries beside the same queries under PARTIAL, in one process.

    amount.complete.w1m            four factors, the last million tuples; nothing has come since the last invocation
    amount.complete.w1m.new        one tuple in a hundred of the window is new at each invocation
    amount.complete.join           two windows of 65,536 joined by a key, 10 % of each selected; nothing has come
    amount.complete.join.new       one tuple in a hundred of each window is new
    amount.complete.union          UNION ALL of selections of two windows of a million; nothing has come
    amount.complete.union.new      one tuple in a hundred of each window is new

COMPLETE sends kept messages again, or cuts them and adds new rows; a join with new tuples is evaluated anew. PARTIAL
gathers all rows of the answer each time. The figure is the median of the queries' medians.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from benchmarks.joins.joins import SELECTED, WINDOW, keyed
from benchmarks.tool.measure import Row, Sample, Target, beside, seconds
from benchmarks.tool.run import Run
from benchmarks.tool.workload import CREATE, STREAM, Columns, batches, make_columns, make_queries
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.plan.amounts import Amount, Keeping

BATCH, OPEN, MILLION = 4_096, 16_384, 1_048_576
SHARE = 100
"""The number of tuples of a window for each new tuple, at an invocation of the rows `.new`."""
QUERIES = 32
COMPLETE = Keeping(Amount.COMPLETE)
ANSWER_BYTES = 2 * 1024**3
"""Room for the kept answers of all queries: some have a third of the window."""
UNCHANGED, CHANGED = Target(at_least=5), Target(at_least=2)

Pair = tuple[int, int]
"""A query under PARTIAL, and the same query as COMPLETE."""


def rows(run: Run) -> Iterator[Row]:
    """All rows."""
    names = ("amount.complete.w1m", "amount.complete.w1m.new")
    window, queries = run.of(MILLION, MILLION, 65_536), run.of(QUERIES, QUERIES, 2)
    yield from run.part(partial(selections, window, queries, run.of(7, 3, 1)), *names)
    names = ("amount.complete.join", "amount.complete.join.new")
    yield from run.part(partial(joins, run.of(WINDOW, WINDOW, BATCH), run.of(51, 15, 1)), *names)
    names = ("amount.complete.union", "amount.complete.union.new")
    yield from run.part(partial(unions, run.of(MILLION, MILLION, BATCH), run.of(11, 5, 1)), *names)


def selections(window: int, queries: int, repeats: int) -> Iterator[Row]:
    """The rows of queries over one stream."""
    new = window // SHARE
    columns = make_columns(-(-window // 65_536) * 65_536 + OPEN + 2 * repeats * new)
    local = LocalPSoup(EngineConfig(answer_bytes=ANSWER_BYTES))
    local.execute(CREATE)
    statements = [query.statement(window) for query in make_queries(queries, 4)]
    pairs = [(local.register(sql), local.register(sql, keeping=COMPLETE)) for sql in statements]
    before = columns.shape[1] - 2 * repeats * new
    local.maintain()
    for table in batches(columns[:, :before], BATCH):
        local.push(STREAM, table)
    local.maintain()
    coming = _slices(columns[:, before:], new)
    yield from _beside("amount.complete.w1m", local, pairs, repeats, lambda: local.push(STREAM, next(coming)))


def _slices(columns: Columns, count: int) -> Iterator[pa.Table]:
    yield from batches(columns, count)


def joins(window: int, repeats: int) -> Iterator[Row]:
    """The rows of a join of two streams."""
    case = keyed(window, SELECTED["p10"])
    query, local = case.load(), case.local
    pair = query, local.register(case.statement(f" [ROWS {window}]"), keeping=COMPLETE)
    local.maintain()
    yield from _beside("amount.complete.join", local, [pair], repeats, _pushing(local, window))


def unions(window: int, repeats: int) -> Iterator[Row]:
    """The rows of UNION ALL of selections of two streams."""
    case = keyed(window, SELECTED["p10"])
    case.load()
    local, pairs = case.local, list[Pair]()
    for passing in (50, 100, 200, 300):
        first, second = (f"{name} [ROWS {window}] WHERE {value}" for name, value in (("r", "a"), ("s", "b")))
        sql = f"SELECT k, a FROM {first} < {passing} UNION ALL SELECT k, b FROM {second} < {passing}"
        pairs.append((local.register(sql), local.register(sql, keeping=COMPLETE)))
    local.maintain()
    yield from _beside("amount.complete.union", local, pairs, repeats, _pushing(local, window))


def _pushing(local: LocalPSoup, window: int) -> Callable[[], None]:
    """A function that pushes one tuple in a hundred of a window to both streams of a `keyed` case."""
    rng, new = np.random.default_rng(9), max(window // SHARE, 1)

    def push() -> None:
        for name, value in (("r", "a"), ("s", "b")):
            table = {"k": rng.integers(0, window // 8, new), value: rng.integers(0, 1_000, new)}
            local.push(name, pa.table(table))

    return push


def _beside(
    name: str, local: LocalPSoup, pairs: Sequence[Pair], repeats: int, push: Callable[[], object]
) -> Iterator[Row]:
    """Two rows: invocations without new tuples, and invocations after a push."""
    for pair in pairs:
        _check(local, pair)
    yield from _row(name, [_times(local, pair, repeats) for pair in pairs], local, pairs, UNCHANGED)
    times: list[list[list[float]]] = [[[], []] for _ in pairs]
    for _ in range(2 * repeats):
        push()
        for query, _ in pairs:
            _invoke(local, query)  # so that both ways find the new tuples in the caches of the machine
        for pair, spent in zip(pairs, times, strict=True):
            for query, measured in zip(pair, spent, strict=True):
                measured.append(1e6 * seconds(partial(_invoke, local, query)))
    for pair in pairs:
        _check(local, pair)
    yield from _row(f"{name}.new", times, local, pairs, CHANGED)


def _times(local: LocalPSoup, pair: Pair, repeats: int) -> list[list[float]]:
    """Microseconds of invocations of both queries, which take turns."""
    times: list[list[float]] = [[], []]
    for _ in range(repeats):
        for query, spent in zip(pair, times, strict=True):
            _invoke(local, query)
            spent.append(1e6 * seconds(partial(_invoke, local, query)))
    return times


def _row(
    name: str, times: Sequence[Sequence[Sequence[float]]], local: LocalPSoup, pairs: Sequence[Pair], target: Target
) -> Iterator[Row]:
    partial_us, complete_us = (Sample.of([float(np.median(spent[way])) for spent in times]) for way in (0, 1))
    sizes = [local.invoke(query).to_table().num_rows for query, _ in pairs]
    room = local.engine.snapshot().answers
    details = {"answer_rows_median": float(np.median(sizes)), "kept_bytes": room.held, "given_up": room.given_up}
    yield from beside(name, complete_us, "us", [("PSoup, PARTIAL", partial_us)], (), target, details=details)


def _check(local: LocalPSoup, pair: Pair) -> None:
    first, other = (local.invoke(query).to_table() for query in pair)
    if not first.equals(other):
        raise AssertionError(f"COMPLETE has {other.num_rows} rows, and PARTIAL has {first.num_rows}")


def _invoke(local: LocalPSoup, query: int) -> object:
    return local.invoke(query).to_table()
