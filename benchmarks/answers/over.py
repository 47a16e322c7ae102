"""Rows `over.*`: window functions over 2^20 tuples, as an Arrow table.

    over.row_number    row_number() OVER (PARTITION BY k ORDER BY t), the tuples in the order of t
    over.sum           sum(v) OVER (PARTITION BY k ORDER BY v), which sorts by a number at random
    over.first         DISTINCT ON (k): the row of the greatest v of each key

PSoup has the query standing. DuckDB has a table with the tuples, and one thread. Engines take turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup

BATCH = 16_384
KEYS = 1_000
CREATE = "CREATE STREAM s (k BIGINT, t BIGINT, v BIGINT)"
CASES = {
    "over.row_number": ("SELECT k, t, row_number() OVER (PARTITION BY k ORDER BY t) AS n FROM s", Target(at_least=0.5)),
    "over.sum": ("SELECT k, t, sum(v) OVER (PARTITION BY k ORDER BY v) AS n FROM s", None),
    "over.first": ("SELECT DISTINCT ON (k) k, t, v AS n FROM s ORDER BY v DESC, t", None),
}
"""The statement of each row, and its target."""


def rows(run: Run) -> Iterator[Row]:
    """All rows."""
    tuples, repeats = run.of(1 << 20, 1 << 20, 2 * BATCH), run.of(15, 7, 1)
    names = list(CASES)[: 1 if run.quick else None]
    yield from run.part(partial(_measured, names, tuples, repeats), *names)


def _measured(names: list[str], tuples: int, repeats: int) -> Iterator[Row]:
    rng = np.random.default_rng(44)
    table = pa.table(
        {
            "k": rng.integers(0, KEYS, tuples),
            "t": np.sort(rng.integers(0, 50 * tuples, tuples)),
            "v": rng.integers(0, 1_000_000, tuples),
        }
    )
    local = LocalPSoup()
    local.execute(CREATE)
    queries = [local.register(CASES[name][0]) for name in names]
    for start in range(0, tuples, BATCH):
        local.push("s", table.slice(start, BATCH))
    local.maintain()
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrived", table)
    connection.execute("CREATE TABLE s AS SELECT * FROM arrived")
    for name, query in zip(names, queries, strict=True):
        statement, target = CASES[name]
        ours, theirs = partial(_invoked, local, query), partial(_selected, connection, statement)
        _check(name, ours(), theirs())
        taken = [(1e3 * seconds(ours), 1e3 * seconds(theirs)) for _ in range(repeats)]
        mine, other = (Sample.of(times) for times in zip(*taken, strict=True))
        yield Row(name, mine, "ms", "DuckDB", other, target)
    connection.close()


def _invoked(local: LocalPSoup, query: int) -> pa.Table:
    return local.invoke(query).to_table()


def _selected(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    return connection.sql(sql).to_arrow_table()


def _check(name: str, ours: pa.Table, theirs: pa.Table) -> None:
    """Compare the number of rows, and the sum of the last column. Ties may come in any order in DuckDB."""
    if _sums(ours) != _sums(theirs):
        raise AssertionError(f"DuckDB disagrees on {name}")


def _sums(table: pa.Table) -> tuple[int, Any]:
    return table.num_rows, int(pc.sum(table["n"].cast(pa.decimal128(38, 0))).as_py())
