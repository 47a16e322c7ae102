"""Row `partition.rows`: the window of the last ten tuples of each of 48,000 keys, of 2^20 tuples, as an Arrow table.

PSoup has the query standing, and keeps nothing for the window. DuckDB has a table with the tuples, and one thread; it
takes QUALIFY row_number(). Engines take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup

NAME = "partition.rows"
BATCH = 16_384
KEYS = 48_000
ROWS = 10
OURS = f"SELECT i, k, v FROM s [PARTITION BY k ROWS {ROWS}]"
THEIRS = f"SELECT i, k, v FROM s QUALIFY row_number() OVER (PARTITION BY k ORDER BY i DESC) <= {ROWS}"


def rows(run: Run) -> Iterator[Row]:
    """The only row."""
    tuples, repeats = run.of(1 << 20, 1 << 20, 2 * BATCH), run.of(15, 7, 1)
    yield from run.part(partial(_measured, tuples, repeats), NAME)


def _measured(tuples: int, repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(47)
    keys, values = rng.integers(0, KEYS, tuples), rng.integers(0, 1_000_000, tuples)
    table = pa.table({"i": np.arange(tuples), "k": keys, "v": values})
    local = LocalPSoup()
    local.execute("CREATE STREAM s (i BIGINT, k BIGINT, v BIGINT)")
    query = local.register(OURS)
    for start in range(0, tuples, BATCH):
        local.push("s", table.slice(start, BATCH))
    local.maintain()
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrived", table)
    connection.execute("CREATE TABLE s AS SELECT * FROM arrived")
    ours, theirs = partial(_invoked, local, query), partial(_selected, connection)
    if _sums(ours()) != _sums(theirs()):
        raise AssertionError(f"DuckDB disagrees on {NAME}")
    taken = [(1e3 * seconds(ours), 1e3 * seconds(theirs)) for _ in range(repeats)]
    mine, other = (Sample.of(times) for times in zip(*taken, strict=True))
    yield Row(NAME, mine, "ms", "DuckDB", other, Target(at_least=2.0))
    connection.close()


def _invoked(local: LocalPSoup, query: int) -> pa.Table:
    return local.invoke(query).to_table()


def _selected(connection: duckdb.DuckDBPyConnection) -> pa.Table:
    return connection.sql(THEIRS).to_arrow_table()


def _sums(table: pa.Table) -> list[int]:
    """The number of rows, and the sum of each column: the rows themselves, in any order."""
    return [table.num_rows, *(int(pc.sum(column).as_py()) for column in table.columns)]
