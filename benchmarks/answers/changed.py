"""Rows `changed.*`: a query over a table of a million keys. One key in a hundred has changed since the last answer.

    changed.select    SELECT k, price FROM t WHERE price < …, one row in a hundred

PSoup has the query standing, and keeps its matches. DuckDB has a table with the same primary key, and takes the same
changes by INSERT OR REPLACE. Only the questions are measured. Engines take turns, one thread each.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock

NAME = "changed.select"
BATCH = 65_536
CHANGED = 100
"""The part of the keys that changes before each question."""
QUERY = "SELECT k, price FROM t WHERE price < 10000"
PRICES = 1_000_000


def rows(run: Run) -> Iterator[Row]:
    """The row."""
    yield from run.part(partial(_measured, run.of(1_000_000, 1_000_000, 2_000), run.of(15, 7, 1)), NAME)


def _measured(keys: int, repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(45)
    local = LocalPSoup(clock=VirtualClock(0))
    local.execute("CREATE TABLE t (k BIGINT, price BIGINT, PRIMARY KEY (k))")
    query = local.register(QUERY)
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("CREATE TABLE t (k BIGINT PRIMARY KEY, price BIGINT)")
    ours, theirs = partial(_invoked, local, query), partial(_selected, connection)
    taken = list[tuple[float, float]]()
    for _ in range(repeats + 1):
        changed = np.arange(keys) if not taken else rng.choice(keys, keys // CHANGED, replace=False)
        given = pa.table({"k": changed, "price": rng.integers(0, PRICES, len(changed))})
        for start in range(0, len(given), BATCH):
            local.push("t", given.slice(start, BATCH))
        local.maintain()
        connection.register("given", given)
        connection.execute("INSERT OR REPLACE INTO t SELECT * FROM given")
        taken.append((1e6 * seconds(ours), 1e6 * seconds(theirs)))
        _check(ours(), theirs())
    mine, other = (Sample.of(times) for times in zip(*taken[1:], strict=True))
    yield Row(NAME, mine, "us", "DuckDB", other, Target(at_least=3), "", {"answer_rows": ours().num_rows})
    connection.close()


def _invoked(local: LocalPSoup, query: int) -> pa.Table:
    return local.invoke(query).to_table()


def _selected(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return connection.sql(QUERY).to_arrow_table()


def _check(ours: pa.Table, theirs: pa.Table) -> None:
    if not ours.sort_by("k").equals(theirs.cast(ours.schema).sort_by("k")):
        raise AssertionError(f"DuckDB disagrees on {NAME}")
