"""Registration in bulk: many queries of one template, into an empty system and over a full open chunk.

    register_many(template, rows)      parsed once, values put in, clauses joined with old data set at a time
    register(text) for each            what that is compared with, on a part of the queries

Each measurement has its own process. The memory of a query is the growth of the process: the engine's objects and
indexes, without the text. Freed memory is given back by the C library before. `python -m
benchmarks.arrival.registration QUERIES TUPLES` is that process.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import sqlglot

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.config import EngineConfig
from psoup.local import LocalPSoup

TEMPLATE = "SELECT * FROM trades WHERE symbol = ? AND price BETWEEN ? AND ?"
SYMBOLS = 10_000
BLOCK = 8_192
"""Queries that the SDK sends in one call."""

ONE_BY_ONE = 500
_SAMPLE = 16
BYTES_TARGET = 250
_CREATE = "CREATE STREAM trades (symbol TEXT, price BIGINT)"


def rows(run: Run) -> Iterator[Row]:
    """The rows of the table; the million only if there is time for it."""
    runs, some = run.of(3, 1, 1), run.of(100_000, 100_000, 200)
    for name, tuples in (("register.100k", 0), ("register.100k.chunk", run.of(65_000, 65_000, 300))):
        yield from run.part(lambda: [_row(name, some, tuples, runs)], name)  # noqa: B023 called at once
    if not run.quick:
        yield from run.part(lambda: _million(run.of(1_000_000, 0, 200)), "register.q1m")


def _million(queries: int) -> Iterator[Row]:
    million = _row("register.q1m", queries, 0, 1)
    yield million
    for peer, sample in (("DuckDB, PREPARE of each", _prepared()), ("sqlglot, parse alone", _parsed())):
        yield replace(million, peer=f"{peer}, {ONE_BY_ONE}", peer_sample=sample, target=None)


def _row(name: str, queries: int, tuples: int, runs: int) -> Row:
    measures = [_measured(queries, tuples) for _ in range(runs)]
    per_query = float(np.median([measure["bytes"] for measure in measures]))
    seconds = float(np.median([measure["seconds"] for measure in measures]))
    return Row(
        name,
        Sample.of([queries / measure["seconds"] for measure in measures]),
        "queries/s",
        f"parse of each, {ONE_BY_ONE} of them",
        Sample.of([ONE_BY_ONE / measure["each"] for measure in measures]),
        Target(value_at_least=100_000) if not tuples else None,
        note=f"{name}: {seconds:.1f} s; {per_query:,.0f} bytes a query beyond its text, {BYTES_TARGET} wanted",
        details={
            "bytes_per_query": per_query,
            "cpu_seconds": measures[0]["cpu"],
            "bill": measures[0]["bill"],
            "queries": queries,
            "tuples": tuples,
        },
    )


def _prepared() -> Sample:
    """Statements a second that DuckDB prepares: what stands nearest to a standing query there."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE trades (symbol VARCHAR, price BIGINT)")
    texts = enumerate(_texts(_values(ONE_BY_ONE)))
    spent = [seconds(lambda: connection.execute(f"PREPARE q{n} AS {text}")) for n, text in texts]  # noqa: B023
    return Sample.of([1 / took for took in spent])


def _parsed() -> Sample:
    """Statements a second that the parser alone takes."""
    return Sample.of([1 / seconds(lambda: sqlglot.parse_one(text)) for text in _texts(_values(ONE_BY_ONE))])  # noqa: B023


def _texts(values: list[tuple[str, int, int]]) -> list[str]:
    return [
        f"SELECT * FROM trades WHERE symbol = '{symbol}' AND price BETWEEN {low} AND {high + 500}"
        for symbol, low, high in values
    ]


def _measured(queries: int, tuples: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.arrival.registration", str(queries), str(tuples)]
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _soup(tuples: int) -> LocalPSoup:
    soup = LocalPSoup(EngineConfig())
    soup.execute(_CREATE)
    random = np.random.default_rng(1)
    for start in range(0, tuples, 4_096):
        count = min(4_096, tuples - start)
        symbols = [f"S{k}" for k in random.integers(0, SYMBOLS, count)]
        soup.push("trades", pa.table({"symbol": symbols, "price": random.integers(0, 1_000, count)}))
    return soup


def _values(queries: int) -> list[tuple[str, int, int]]:
    return [(f"S{i % SYMBOLS}", i // SYMBOLS, 500 + i % 499) for i in range(queries)]


def measure(queries: int, tuples: int) -> dict[str, object]:
    """Seconds of `queries` by template and of ONE_BY_ONE by text, and bytes that the process grew by for each query."""
    soup = _soup(tuples)
    warm = [(f"W{i}", i, i) for i in range(BLOCK)]
    for query_id in soup.register_many(TEMPLATE, warm):  # kernels are loaded, pools of memory are there
        soup.unregister(query_id)
    soup.maintain()
    values = _values(queries)
    gc.collect()
    before, start, cpu = _resident(), time.perf_counter(), time.process_time()
    for at in range(0, queries, BLOCK):
        soup.register_many(TEMPLATE, values[at : at + BLOCK])
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    grown = _resident() - before
    texts = _text_bytes(soup)
    start = time.perf_counter()
    for text in _texts(values[:ONE_BY_ONE]):
        soup.register(text)
    each = time.perf_counter() - start
    bill = soup.engine.bill()
    return {"seconds": seconds, "cpu": cpu, "each": each, "bytes": (grown - texts) / queries, "bill": bill}


def _text_bytes(soup: LocalPSoup) -> int:
    """Characters of the texts of all queries, from a part of them: they are made when they are asked for."""
    texts = [record.query.text for _, record in islice(soup.engine.snapshot().queries.items(), 0, None, _SAMPLE)]
    return sum(map(len, texts)) * _SAMPLE


def _resident() -> int:
    """Bytes of memory that this process has now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(measure(int(sys.argv[1]), int(sys.argv[2]))))
