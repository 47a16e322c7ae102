"""Rows `search.point.*` and `join.few.*`: few rows of many, which the key indexes of chunks give.

    search.point.uncovered    k = ?, a key of one tuple on average     .text    t = ?, a text of one tuple on average
    join.few.w16m             fifty rows of a stream joined with all 16 M of another; .half: with half of them

All queries come late, and chunks are not covered for them. Other values of the columns were asked for before: indexes
are there. `PSoup, searched` is the same without them. Peers have the columns in memory; answers are tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.answers.invocation import in_turns
from benchmarks.joins.joins import Case, beside_peers
from benchmarks.peers.sides import Frames
from benchmarks.tool.measure import Row, Sample, Target, beside
from benchmarks.tool.run import Run
from psoup.config import CHUNK_ROWS, EngineConfig, Shape
from psoup.local import LocalPSoup

TUPLES, BATCH, OPEN = 1 << 20, 16_384, 4_096
VALUES = 32
TARGET = Target(value_at_most=60)
LARGE, FEW = 1 << 24, 50


def rows(run: Run) -> Iterator[Row]:
    """Both rows."""
    names = ("search.point.uncovered", "search.point.text")
    yield from run.part(partial(measured, names, run.of(TUPLES, TUPLES, 2 * BATCH), run.of(15, 7, 1)), *names)


def measured(names: tuple[str, str], tuples: int, repeats: int) -> Iterator[Row]:
    """The rows for so many tuples: of a number and of a text."""
    rng = np.random.default_rng(11)
    keys = rng.integers(0, tuples, tuples + OPEN)
    table = pa.table({"k": keys, "a": rng.integers(0, 1_000, len(keys)), "t": [f"user-{key}" for key in keys.tolist()]})
    table, wanted = table.combine_chunks(), keys[rng.integers(0, tuples, VALUES)].tolist()
    soups = [_loaded(table, Shape()), _loaded(table, Shape(key_probes=1 << 60))]
    for name, column, values in (
        (names[0], "k", wanted),
        (names[1], "t", [f"user-{key}" for key in wanted]),
    ):
        ours = [_queries(soup, column, values) for soup in soups]
        theirs = _peers(table, column, values)
        for number, value in enumerate(values):
            expected = sorted(table.filter(pc.equal(table[column], value))["a"].to_pylist())
            for engine in (*ours, *theirs.values()):
                if _column(engine[number]()) != expected:
                    raise AssertionError(f"an engine disagrees on {column} = {value!r}")
        first, *others = [Sample.of(medians) for medians in in_turns([*ours, *theirs.values()], repeats)]
        named = list(zip(["PSoup, searched", *theirs], others, strict=True))
        yield from beside(name, first, "us", named, [], TARGET if column == "k" else None)


def _column(table: Any) -> list[int]:
    values = table["a"]
    return sorted(values.to_list() if isinstance(table, pl.DataFrame) else values.to_pylist())


def _loaded(table: pa.Table, shape: Shape) -> LocalPSoup:
    """An engine with the tuples, which some values were looked for in before."""
    local = LocalPSoup(EngineConfig(shape=shape))
    local.execute("CREATE STREAM s (k BIGINT, a BIGINT, t TEXT)")
    for start in range(0, len(table), BATCH):
        local.push("s", table.slice(start, BATCH))
    local.maintain()
    for value in range(4 * shape.key_probes if shape.key_probes < 100 else 1):
        local.ask(f"SELECT * FROM s WHERE k = {-1 - value}")
        local.ask(f"SELECT * FROM s WHERE t = 'none-{value}'")
    return local


def _queries(local: LocalPSoup, column: str, values: list[Any]) -> list[Callable[[], object]]:
    """Invocations of queries that come after the tuples, and are not covered."""
    ids = [local.register(f"SELECT * FROM s WHERE {column} = {value!r}") for value in values]
    return [lambda query=query: local.invoke(query).to_table() for query in ids]  # type: ignore[misc]


def _peers(table: pa.Table, column: str, values: list[Any]) -> dict[str, list[Callable[[], object]]]:
    connection = duckdb.connect(config={"threads": 1})
    connection.register("arrow_s", table)
    connection.execute("CREATE TABLE s AS SELECT * FROM arrow_s")
    for number, value in enumerate(values):
        connection.execute(f"PREPARE q{number} AS SELECT * FROM s WHERE {column} = {value!r}")
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return {
        "DuckDB": [partial(_executed, connection, number) for number in range(len(values))],
        "Polars": [lambda v=v: frame.filter(pl.col(column) == v) for v in values],  # type: ignore[misc]
        "PyArrow": [lambda v=v: table.filter(pc.equal(table[column], v)) for v in values],  # type: ignore[misc]
    }


def _executed(connection: duckdb.DuckDBPyConnection, number: int) -> pa.Table:
    return connection.execute(f"EXECUTE q{number}").to_arrow_table()


class Few(Case):
    """Few rows of r, and s; the query is registered when all of them are there."""

    def load(self) -> int:
        """See `Case`."""
        for name, columns in self.streams.items():
            self.local.execute(f"CREATE STREAM {name} ({', '.join(f'{column} BIGINT' for column in columns)})")
            table = pa.table(columns)
            for start in range(0, len(table), CHUNK_ROWS):
                self.local.push(name, table.slice(start, CHUNK_ROWS))
        self.local.maintain()
        return self.local.register(f"SELECT {self.select} FROM r, s WHERE {self.where}")


def join_rows(run: Run) -> Iterator[Row]:
    """The rows of joins; left out of a quick run."""
    tuples, repeats = run.of(LARGE, 0, 2 * BATCH), run.of(11, 0, 1)
    for name, passing in (("join.few.w16m", 1_000), ("join.few.w16m.half", 500)) if tuples else ():
        yield from run.part(partial(beside_peers, name, partial(_few, tuples, passing), repeats), name)


def _few(tuples: int, passing: int) -> Case:
    rng = np.random.default_rng(12)
    few = {"k": rng.integers(0, tuples, FEW), "a": np.arange(FEW)}
    large = {"k": rng.integers(0, tuples, tuples), "b": rng.integers(0, 1_000, tuples)}

    def joined(frames: Frames) -> pl.DataFrame:
        return frames["r"].join(frames["s"] if passing == 1_000 else frames["s"].filter(pl.col("b") < passing), on="k")

    where = "r.k = s.k" if passing == 1_000 else f"r.k = s.k AND s.b < {passing}"
    return Few(tuples, {"r": few, "s": large}, "r.k, r.a, s.b", where, joined)
