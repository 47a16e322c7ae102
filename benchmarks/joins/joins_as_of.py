"""Row `join.as_of`: 2^20 tuples, each with the version of a table that held at its time, beside DuckDB's ASOF JOIN.

The table has 100,000 keys with ten versions each. DuckDB has both as tables in memory. Both engines use every core, and
they take turns. Each answer is an Arrow table.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_service.host.runner import TaskPool

NAME = "join.as_of"
BATCH = 16_384
VERSIONS = 10
DAY = 86_400 * SECOND
OURS = "SELECT s.v, t.p FROM s JOIN t AS OF s ON t.k = s.k"
THEIRS = "SELECT s.v, t.p FROM s ASOF JOIN t ON t.k = s.k AND s.at >= t.at"


def rows(run: Run) -> Iterator[Row]:
    """The row."""
    yield from run.part(partial(_measured, run.of(1 << 20, 1 << 20, BATCH), run.of(100_000, 100_000, 1_000)), NAME)


def _measured(tuples: int, keys: int) -> Iterator[Row]:
    with closing(TaskPool(len(os.sched_getaffinity(0)))) as pool:
        local = LocalPSoup(clock=VirtualClock(DAY), run=pool)
        stream, table = _tables(tuples, keys)
        local.execute("CREATE STREAM s (k BIGINT, v BIGINT, at TIMESTAMP) TIMESTAMP BY at")
        local.execute(
            "CREATE TABLE t (k BIGINT, p BIGINT, at TIMESTAMP, PRIMARY KEY (k)) TIMESTAMP BY at WATERMARK BY CLOCK"
            " FIRST VERSION FROM ARRIVAL"
        )
        query = local.register(OURS)
        for name, given in (("t", table), ("s", stream)):
            for start in range(0, len(given), BATCH):
                local.push(name, given.slice(start, BATCH))
        local.heartbeat("t", DAY)
        local.maintain()
        connection = duckdb.connect()
        for name, given in (("given_s", stream), ("given_t", table)):
            connection.register(name, given)
            connection.execute(f"CREATE TABLE {name.removeprefix('given_')} AS SELECT * FROM {name}")
        ours, theirs = partial(_invoked, local, query), partial(_selected, connection)
        _check(ours(), theirs())
        taken = [(1e3 * seconds(ours), 1e3 * seconds(theirs)) for _ in range(7)]
        mine, other = (Sample.of(times) for times in zip(*taken, strict=True))
        yield Row(NAME, mine, "ms", "DuckDB", other, Target(at_least=2), "", {"answer_rows": ours().num_rows})
        connection.close()


def _invoked(local: LocalPSoup, query: int) -> pa.Table:
    return local.invoke(query).to_table()


def _selected(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return connection.sql(THEIRS).to_arrow_table()


def _tables(tuples: int, keys: int) -> tuple[pa.Table, pa.Table]:
    """The tuples and the versions, each in the order of their times."""
    rng = np.random.default_rng(45)
    versions = rng.permutation(np.repeat(np.arange(keys), VERSIONS))

    def times(count: int) -> pa.Array:
        return pa.array(np.sort(rng.integers(0, DAY // 2, count)), pa.timestamp("us"))

    stream = {"k": rng.integers(0, keys, tuples), "v": np.arange(tuples), "at": times(tuples)}
    table = {"k": versions, "p": np.arange(len(versions)), "at": times(len(versions))}
    return pa.table(stream), pa.table(table)


def _check(ours: pa.Table, theirs: pa.Table) -> None:
    if not ours.sort_by("v").equals(theirs.cast(ours.schema).sort_by("v")):
        raise AssertionError(f"DuckDB disagrees on {NAME}")
