"""Rows `aggregate.buckets`: sums of an hour by a thousand series, read four times a minute while tuples come.

    PSoup      push a quarter of a minute ─> read the standing query: its window slides to the tuple
    by hand    insert it into a tail ─> each minute sum the tail into buckets, delete it, and what is an hour old
               read: buckets of the hour and the tail, summed by series

A figure is the time of a step: what comes is taken in and kept up, and the sums are read, as an Arrow table. By hand
the hour begins with a whole minute: only then are the answers equal, and compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer
from benchmarks.tool.measure import Row, Sample, Target
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock

SERIES, MINUTES, QUARTERS, TURN = 1_000, 60, 4, 5
MICROS = 1_000_000
BUSY = 14 * MICROS
"""Tuples come in the first 14 of 15 seconds. So a window of 3,599 seconds begins at a moment without tuples."""
CREATE = "CREATE STREAM p (k BIGINT, v BIGINT, t TIMESTAMP NOT NULL) TIMESTAMP BY t RETENTION 2 HOURS"
QUERY = "SELECT k, count(*) AS c, sum(v) AS s FROM p GROUP BY k BEGIN (NOW - 3599 SECONDS)"
FIRST = 1_767_225_600 * MICROS
"""2026-01-01."""


class Side(Protocol):
    """A system that takes tuples, and gives the sums of the last hour."""

    def step(self, batch: pa.Table, minute: int, *, last: bool) -> pa.Table:
        """Take in a quarter of a minute, the `last` of it or not, and read."""
        ...


class _PSoup:
    def __init__(self) -> None:
        self._local = LocalPSoup(clock=VirtualClock(FIRST + 86_400 * MICROS))
        self._local.execute(CREATE)
        self._query = self._local.register(QUERY)

    def step(self, batch: pa.Table, minute: int, *, last: bool) -> pa.Table:
        self._local.push("p", batch)
        self._local.maintain()
        return self._local.invoke(self._query, accept_truncation=True).to_table()


class _ByHand:
    """Tables `tail` and `buckets` of an engine. `run`: a statement; `read`: one with an answer; `put`: rows of tail."""

    def __init__(
        self, run: Callable[[str], Any], read: Callable[[str], pa.Table], put: Callable[[pa.Table], Any]
    ) -> None:
        self._run, self._read, self._put = run, read, put
        run("CREATE TABLE tail (k BIGINT, v BIGINT, t TIMESTAMP)")
        run("CREATE TABLE buckets (minute BIGINT, k BIGINT, c BIGINT, s BIGINT)")

    def step(self, batch: pa.Table, minute: int, *, last: bool) -> pa.Table:
        self._put(batch)
        if last:
            self._run(f"INSERT INTO buckets SELECT {minute}, k, count(*), sum(v) FROM tail GROUP BY k")
            self._run("DELETE FROM tail")
            self._run(f"DELETE FROM buckets WHERE minute <= {minute - MINUTES}")
        return self._read(
            "SELECT k, CAST(sum(c) AS BIGINT) AS c, CAST(sum(s) AS BIGINT) AS s FROM (SELECT k, c, s FROM buckets WHERE"
            f" minute > {minute - MINUTES} UNION ALL SELECT k, count(*), sum(v) FROM tail GROUP BY k) AS x GROUP BY k"
            " ORDER BY k"
        )


def rows(run: Run) -> Iterator[Row]:
    """The row of each engine."""
    size, turns = run.of((1 << 14, 6), (1 << 14, 2), (64, 1))
    yield from run.part(lambda: _rows(size, turns), "aggregate.buckets")


def _rows(size: int, turns: int) -> Iterator[Row]:
    connection = duckdb.connect(config={"threads": 1})

    def put(batch: pa.Table) -> None:
        connection.register("arrived", batch)
        connection.execute("INSERT INTO tail SELECT * FROM arrived")
        connection.unregister("arrived")

    duck = _ByHand(connection.execute, lambda text: connection.sql(text).to_arrow_table(), put)
    sides: dict[str, Side] = {"PSoup": _PSoup(), "DuckDB by hand": duck}
    note, server = "", None
    try:
        server = PostgresServer()
        sides["PostgreSQL by hand"] = _postgres(server)
    except Missing as missing:
        note = f"{missing.name}: {missing.why}"
    try:
        times = _measured(sides, size, turns)
    finally:
        connection.close()
        if server is not None:
            server.close()
    samples = {name: Sample.of(spent) for name, spent in times.items()}
    for name in list(sides)[1:]:
        yield Row("aggregate.buckets", samples["PSoup"], "us", name, samples[name], Target(at_least=5), note)


def _postgres(server: PostgresServer) -> Side:
    def put(batch: pa.Table) -> None:
        with server.connection.cursor() as cursor:
            cursor.adbc_ingest("tail", batch, mode="append")
        server.connection.commit()

    return _ByHand(server.run, server.table, put)


def _measured(sides: dict[str, Side], size: int, turns: int) -> dict[str, list[float]]:
    """Microseconds of a step, a minute's mean each, in turns of some minutes, after an hour that is not measured."""
    rng, times = np.random.default_rng(15), {name: list[float]() for name in sides}
    for turn in range(MINUTES // TURN + turns):
        minutes = range(turn * TURN, (turn + 1) * TURN)
        batches = {m: [_batch(rng, size // QUARTERS, m, quarter) for quarter in range(QUARTERS)] for m in minutes}
        answers = list[list[Any]]()
        for name, side in sides.items():
            answer = pa.table({})
            for minute, quarters in batches.items():
                start = time.perf_counter()
                for quarter, batch in enumerate(quarters, 1):
                    answer = side.step(batch, minute, last=quarter == QUARTERS)
                times[name].append(1e6 * (time.perf_counter() - start) / QUARTERS)
            answers.append([[int(value) for value in column.to_pylist()] for column in answer.columns])
        if any(answer != answers[0] for answer in answers):
            raise AssertionError(f"sums by hand differ after minute {minutes[-1]}")
    return {name: spent[MINUTES:] for name, spent in times.items()}


def _batch(rng: np.random.Generator, rows: int, minute: int, quarter: int) -> pa.Table:
    start = FIRST + (60 * minute + 15 * quarter) * MICROS
    times = start + np.arange(rows) * (BUSY // max(rows, 1))
    columns = {"k": rng.integers(0, SERIES, rows), "v": rng.integers(0, 1_000_000, rows)}
    return pa.table({**columns, "t": pa.array(times, pa.timestamp("us"))})
