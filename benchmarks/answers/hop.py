"""Row `hop.12`: COUNT and SUM of 2^20 tuples by a hop of twelve panes, as an Arrow table.

    hop.12    GROUP BY hop(t, INTERVAL 5 MINUTES, INTERVAL 1 HOUR): a tuple is in twelve buckets of an hour

PSoup has the query standing, and has folded its chunks. DuckDB has a table with the tuples, and one thread. It joins
the tuples with the buckets in two ways: with a table of all beginnings, and with a list of beginnings for each tuple.
The target is for the quicker way.
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

BATCH = 16_384
MICROS = 1_000_000
LONG = 3
"""The number of samples of the join with a table of buckets, which takes seconds."""
SPAN = 7 * 86_400 * MICROS
"""The time between the first and the last tuple, about."""
BEGIN = 1_767_225_600 * MICROS
"""2026-01-01."""
CREATE = "CREATE STREAM s (t TIMESTAMP, v BIGINT)"
QUERY = (
    "SELECT hop(t, INTERVAL 5 MINUTES, INTERVAL 1 HOUR) AS w, count(*) AS c, sum(v) AS a FROM s GROUP BY w ORDER BY w"
)
LISTED = (
    "SELECT w, count(*) AS c, sum(v) AS a FROM (SELECT v, unnest([time_bucket(INTERVAL 5 MINUTES, t) - i * INTERVAL 5"
    " MINUTES for i in range(12)]) AS w FROM s) GROUP BY w ORDER BY w"
)
JOINED = (
    "SELECT w, count(*) AS c, sum(v) AS a FROM s JOIN (SELECT unnest(generate_series(time_bucket(INTERVAL 5 MINUTES,"
    " min(t)) - INTERVAL 55 MINUTES, max(t), INTERVAL 5 MINUTES)) AS w FROM s) ON t >= w AND t < w + INTERVAL 1 HOUR"
    " GROUP BY w ORDER BY w"
)
PEERS = {"DuckDB, lists of buckets": LISTED, "DuckDB, a table of buckets": JOINED}


def rows(run: Run) -> Iterator[Row]:
    """The row, once for each way of DuckDB's. A quick run lacks it, as one of the ways takes seconds."""
    if not run.quick:
        tuples, repeats = run.of(1 << 20, 1 << 20, 2 * BATCH), run.of(11, 11, 1)
        yield from run.part(partial(_measured, tuples, repeats), "hop.12")


def _measured(tuples: int, repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(47)
    times = np.sort(rng.integers(0, SPAN, tuples)) + BEGIN
    values = rng.integers(0, 1_000_000, tuples)
    table = pa.table({"t": pa.array(times).cast(pa.timestamp("us")), "v": values})
    local = LocalPSoup()
    local.execute(CREATE)
    query = local.register(QUERY)
    for start in range(0, tuples, BATCH):
        local.push("s", table.slice(start, BATCH))
    local.maintain()
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrived", table)
    connection.execute("CREATE TABLE s AS SELECT * FROM arrived")
    for place, (peer, statement) in enumerate(PEERS.items()):
        ours, theirs = partial(_invoked, local, query), partial(_selected, connection, statement)
        if _plain(ours()) != _plain(theirs()):
            raise AssertionError(f"{peer} disagrees on hop.12")
        samples = min(repeats, LONG) if place else repeats
        taken = [(1e3 * seconds(ours), 1e3 * seconds(theirs)) for _ in range(samples)]
        mine, other = (Sample.of(spent) for spent in zip(*taken, strict=True))
        yield Row("hop.12", mine, "ms", peer, other, None if place else Target(at_least=3))
    connection.close()


def _invoked(local: LocalPSoup, query: int) -> pa.Table:
    return local.invoke(query).to_table()


def _selected(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def _plain(table: pa.Table) -> list[tuple[int, ...]]:
    """The rows: the beginning of the bucket in microseconds, the count, and the sum."""
    begins = table["w"].cast(pa.timestamp("us")).cast(pa.int64()).to_pylist()
    return list(zip(begins, table["c"].to_pylist(), map(int, table["a"].to_pylist()), strict=True))
