"""Rows `aggregate.*`: how fast an aggregate of a window is there, as an Arrow table.

    aggregate.one.count.w2^12 … w2^24     one number of a window: COUNT, SUM, MAX of the quarter WHERE leaves
    aggregate.group.10, .1k, .100k        COUNT and SUM of 2^20 tuples by a key of so many values: a TEXT, and numbers
    aggregate.group.10.w2^24, …           the same of 2^24 tuples

PSoup has the query standing, and has folded its window. Engines scan a table with exactly the window, in one thread;
NumPy scans a column. A window ends in an open chunk and reaches into sealed ones, at no round place. Each asks again
and again for two milliseconds when it is its turn, and the median counts, without the first: the engine before has
filled the caches with its data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup

BATCH, OPEN = 16_384, 18_000
WINDOWS = (12, 15, 17, 20, 22, 24)
"""Exponents of the tuples in a window."""
LONG_FROM = 22
"""Exponent of the window from which on there are few samples, because engines take tens of milliseconds."""

FEW = 7
"""Number of these few samples."""
KEYS = {"10": ("s", 10), "1k": ("k", 1_000), "100k": ("g", 100_000)}
TARGETS = {"10": 20, "1k": 20, "100k": 4}
LONG = {"10.w2^24": 100, "1k.w2^24": 50, "100k.w2^24": 20}
MEASURES = {"count": "count(*)", "sum": "sum(v)", "max": "max(v)"}
QUARTER = 250_000
CREATE = "CREATE STREAM t (s TEXT, k BIGINT, g BIGINT, v BIGINT)"

TURN = 0.002
"""Seconds of a peer's turn, about."""

ASKED = 32
"""Most questions of a peer's turn."""

Call = Callable[[], Any]


def rows(run: Run) -> Iterator[Row]:
    """All rows; quick ones are of 2^20 tuples."""
    repeats, limit = run.of(31, 11, 1), run.of(1 << 20, 1 << 20, 4_096)
    names = [f"aggregate.one.{name}.w2^{size}" for name in MEASURES for size in _sizes(run)]
    yield from run.part(partial(_one, run, run.of(1 << 24, 1 << 20, 4_096), repeats), *names)
    yield from run.part(partial(_groups, limit, repeats, TARGETS), *[f"aggregate.group.{label}" for label in TARGETS])
    if not run.quick:
        limit, repeats = run.of((1 << 24, 7), (1 << 24, 7), (8_192, 1))
        yield from run.part(partial(_groups, limit, repeats, LONG), *[f"aggregate.group.{label}" for label in LONG])


def _sizes(run: Run) -> Sequence[int]:
    return run.of(WINDOWS, (20,), (12,))


def _columns(rows: int) -> pa.Table:
    rng = np.random.default_rng(15)
    return pa.table(
        {
            "s": pa.array([f"s{n}" for n in range(10)]).take(pa.array(rng.integers(0, 10, rows))),
            "k": rng.integers(0, 1_000, rows),
            "g": rng.integers(0, 100_000, rows),
            "v": rng.integers(0, 1_000_000, rows),
        }
    )


def _loaded(table: pa.Table, statements: Sequence[str]) -> tuple[LocalPSoup, list[int]]:
    local = LocalPSoup()
    local.execute(CREATE)
    queries = [local.register(statement) for statement in statements]
    for start in range(0, table.num_rows, BATCH):
        local.push("t", table.slice(start, BATCH))
    local.maintain()
    return local, queries


def _duckdb(table: pa.Table) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrived", table)
    connection.execute("CREATE TABLE t AS SELECT * FROM arrived")
    connection.unregister("arrived")
    return connection


def _one(run: Run, limit: int, repeats: int) -> Iterator[Row]:
    """A single number of each window, beside DuckDB, Polars and NumPy."""
    sizes = _sizes(run)
    cases = [(name, size) for name in MEASURES for size in sizes]
    table = _columns(limit + OPEN)
    statements = [
        f"{_text(name)} WHERE v < {QUARTER} BEGIN (NOW - {min(1 << size, limit)} ROWS) END (NOW)"
        for name, size in cases
    ]
    local, queries = _loaded(table, statements)
    for (name, size), query in zip(cases, queries, strict=True):
        window = table[-min(1 << size, limit) :].combine_chunks()
        connection, frame, values = _duckdb(window), pl.from_arrow(window), window.column("v").to_numpy()
        assert isinstance(frame, pl.DataFrame)
        calls: dict[str, Call] = {
            "PSoup": partial(_number, partial(_invoked, local, query)),
            "DuckDB": partial(_number, partial(_selected, connection, f"{_text(name)} WHERE v < {QUARTER}")),
            "Polars": partial(_of_frame, frame, name),
            "NumPy": partial(_of_values, values, name),
        }
        samples = min(repeats, FEW) if size >= LONG_FROM else repeats
        yield from _beside(f"aggregate.one.{name}.w2^{size}", calls, samples, Target(value_at_most=50))
        connection.close()


def _text(name: str) -> str:
    return f"SELECT {MEASURES[name]} AS a FROM t"


def _invoked(local: LocalPSoup, query: int) -> pa.Table:
    return local.invoke(query).to_table()


def _selected(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def _of_frame(frame: pl.DataFrame, name: str) -> Any:
    column = pl.col("v")
    return (
        frame.filter(column < QUARTER)
        .select({"count": pl.len(), "sum": column.sum(), "max": column.max()}[name])
        .item()
    )


def _of_values(values: Any, name: str) -> Any:
    mask = values < QUARTER
    return np.count_nonzero(mask) if name == "count" else values[mask].sum() if name == "sum" else values[mask].max()


def _grouped(frame: pl.DataFrame, key: str) -> pa.Table:
    return frame.group_by(key).agg(pl.len(), pl.col("v").sum()).sort(key).to_arrow()


def _number(made: Call) -> int:
    return int(made().column(0)[0].as_py())


def _groups(limit: int, repeats: int, targets: dict[str, int]) -> Iterator[Row]:
    """COUNT and SUM by keys of a few, many and very many values, in the order of the keys."""
    table = _columns(limit + OPEN)
    keys = {label: KEYS[label.split(".")[0]][0] for label in targets}
    texts = {label: f"SELECT {key}, count(*) AS c, sum(v) AS a FROM t GROUP BY {key}" for label, key in keys.items()}
    local, queries = _loaded(table, [f"{text} BEGIN (NOW - {limit} ROWS) END (NOW)" for text in texts.values()])
    window = table[-limit:].combine_chunks()
    connection, frame = _duckdb(window), pl.from_arrow(window)
    assert isinstance(frame, pl.DataFrame)
    for (label, text), query in zip(texts.items(), queries, strict=True):
        key = keys[label]
        calls: dict[str, Call] = {
            "PSoup": partial(_invoked, local, query),
            "DuckDB": partial(_selected, connection, f"{text} ORDER BY {key}"),
            "Polars": partial(_grouped, frame, key),
        }
        yield from _beside(f"aggregate.group.{label}", calls, repeats, Target(at_least=targets[label]), _plain)
    connection.close()


def _asked_again(call: Call) -> float:
    """Seconds of a call, when the like was asked just before."""
    call()
    times = [seconds(call)]
    while len(times) < ASKED and sum(times) < TURN:
        times.append(seconds(call))
    return median(times)


def _plain(table: Any) -> list[list[Any]]:
    """A table of groups as lists."""
    return [[int(v) if str(v).isdigit() else v for v in column.to_pylist()] for column in table.columns]


def _beside(
    name: str, calls: dict[str, Call], repeats: int, target: Target, plain: Callable[[Any], Any] = int
) -> Iterator[Row]:
    """A row for each peer. Peers take turns, each asked several times in its turn. All answers must equal PSoup's."""
    ours = plain(calls["PSoup"]())
    for peer, call in calls.items():
        if plain(call()) != ours:
            raise AssertionError(f"{peer} disagrees on {name}")
    times: dict[str, list[float]] = {peer: [] for peer in calls}
    for _ in range(repeats):
        for peer, call in calls.items():
            times[peer].append(1e6 * _asked_again(call))
    samples = {peer: Sample.of(spent) for peer, spent in times.items()}
    for peer in list(calls)[1:]:
        yield Row(name, samples["PSoup"], "us", peer, samples[peer], target if peer == "DuckDB" else None)
