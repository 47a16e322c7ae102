"""Peers of `arrival.*`: a batch of tuples against some thousand queries, by engines.

    DuckDBJoin, PostgresJoin, ClickHouseJoin   the batch joined with a table of the queries, 16 bounds each
    PolarsMasks, ArrowMasks                    an expression for each query, evaluated on the batch
    SQLiteScan                                 a prepared statement for each query

They get the batch from memory and find all matches. A slow one gets fewer tuples at a time, or a part of the queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peers import Missing
from benchmarks.peers.by_hand import Common, Masks, Peer
from benchmarks.peers.postgres import EAGER, PostgresServer
from benchmarks.tool.workload import ATTRIBUTES, DOMAIN, Columns, Query, to_table


class DuckDBJoin(Common):
    """Both sides as tables of the narrowest types, a join on all 16 inequalities.

    A column of a SELECT for each query, and a prepared statement for each, are 10 times slower.
    """

    def __init__(self, queries: Sequence[Query], rows: int = 512, total: int | None = None) -> None:
        import duckdb

        super().__init__("DuckDB", queries, rows, total)
        self._connection = duckdb.connect()
        self._connection.register("given", _bounds(queries))
        bounds = ", ".join(f"l{k}::UTINYINT AS l{k}, h{k}::UTINYINT AS h{k}" for k in range(ATTRIBUTES))
        self._connection.execute(f"CREATE TABLE q AS SELECT query::USMALLINT AS query, {bounds} FROM given")
        values = ", ".join(f"a{k}::UTINYINT AS a{k}" for k in range(ATTRIBUTES))
        self._load = f"CREATE OR REPLACE TABLE t AS SELECT tuple::USMALLINT AS tuple, {values} FROM batch"

    def arrive(self, columns: Columns) -> dict[str, Any]:
        """Two arrays, query and tuple."""
        self._connection.register("batch", _numbered(columns))
        self._connection.execute(self._load)
        matches: dict[str, Any] = self._connection.execute(_JOIN).fetchnumpy()
        return matches

    def masks(self, columns: Columns) -> Masks:
        pairs = self.arrive(columns)
        return _from_pairs(self.queries, columns.shape[1], pairs["query"], pairs["tuple"])

    def close(self) -> None:
        self._connection.close()


class PostgresJoin(Common):
    """The same join, both tables in memory."""

    def __init__(self, queries: Sequence[Query], rows: int = 256, total: int | None = None) -> None:
        super().__init__("PostgreSQL", queries, rows, total)
        self._server = PostgresServer(EAGER)
        self._server.load("q", _bounds(queries, pa.int16()))

    def arrive(self, columns: Columns) -> pa.Table:
        """A table of query and tuple."""
        self._server.load("t", _numbered(columns, pa.int16()))
        return self._server.table(_JOIN)

    def masks(self, columns: Columns) -> Masks:
        pairs = self.arrive(columns)
        return _from_pairs(self.queries, columns.shape[1], pairs["query"].to_numpy(), pairs["tuple"].to_numpy())

    def close(self) -> None:
        self._server.close()


class ClickHouseJoin(Common):
    """chDB: a cross join with a filter, both tables in memory, pairs as Arrow."""

    def __init__(self, queries: Sequence[Query], rows: int = 512, total: int | None = None) -> None:
        try:
            from chdb import session
        except ImportError as error:
            raise Missing("chDB", "make bench-setup") from error
        super().__init__("chDB", queries, rows, total)
        self._session = session.Session()
        self._session.query("CREATE DATABASE IF NOT EXISTS bench")
        bounds = _bounds(queries, pa.uint8())  # noqa: F841 the statement names it
        self._session.query("CREATE OR REPLACE TABLE bench.q ENGINE = Memory AS SELECT * FROM Python(bounds)")

    def arrive(self, columns: Columns) -> pa.Table:
        """A table of query and tuple."""
        batch = _numbered(columns, pa.uint8())  # noqa: F841
        self._session.query("CREATE OR REPLACE TABLE bench.t ENGINE = Memory AS SELECT * FROM Python(batch)")
        text = _JOIN.replace("q JOIN t ON", "bench.q AS q CROSS JOIN bench.t AS t WHERE")
        return pa.ipc.open_file(self._session.query(text, "Arrow").bytes()).read_all()

    def masks(self, columns: Columns) -> Masks:
        pairs = self.arrive(columns)
        return _from_pairs(self.queries, columns.shape[1], pairs["query"].to_numpy(), pairs["tuple"].to_numpy())

    def close(self) -> None:
        self._session.close()


class PolarsMasks(Common):
    """A SELECT with a column for each query, on the narrowest type."""

    def __init__(self, queries: Sequence[Query], rows: int = 4_096) -> None:
        super().__init__("Polars", queries, rows)
        self._columns = [self._expression(query).alias(str(number)) for number, query in enumerate(queries)]

    @staticmethod
    def _expression(query: Query) -> pl.Expr:
        return pl.all_horizontal(pl.col(f"a{i.attribute}").is_between(i.low, i.high) for i in query.intervals)

    def arrive(self, columns: Columns) -> pl.DataFrame:
        """A column for each query."""
        frame = pl.DataFrame({f"a{k}": columns[k] for k in range(ATTRIBUTES)}).cast(pl.UInt8)
        return frame.select(self._columns)

    def masks(self, columns: Columns) -> Masks:
        return self.arrive(columns).to_numpy().T


class ArrowMasks(Common):
    """PyArrow's compute functions on uint8, a bitmap for each query."""

    def __init__(self, queries: Sequence[Query], rows: int = 4_096) -> None:
        super().__init__("PyArrow", queries, rows)
        self._plans = [
            [(i.attribute, pa.scalar(i.low, pa.uint8()), pa.scalar(i.high, pa.uint8())) for i in query.intervals]
            for query in queries
        ]

    def arrive(self, columns: Columns) -> list[Any]:
        """A boolean array for each query."""
        narrow = [pa.array(column.astype(np.uint8)) for column in columns]
        results = []
        for plan in self._plans:
            mask = None
            for attribute, low, high in plan:
                values = narrow[attribute]
                part = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
                mask = part if mask is None else pc.and_(mask, part)
            results.append(mask)
        return results

    def masks(self, columns: Columns) -> Masks:
        return np.stack([mask.to_numpy(zero_copy_only=False) for mask in self.arrive(columns)])


class SQLiteScan(Common):
    """The batch as a table in memory, a prepared SELECT for each query (by apsw, which keeps them)."""

    def __init__(self, queries: Sequence[Query], rows: int = 4_096, total: int | None = None) -> None:
        import apsw

        super().__init__("SQLite", queries, rows, total)
        self._connection = apsw.Connection(":memory:", statementcachesize=len(queries) + 8)
        names = ", ".join(f"a{k} INTEGER" for k in range(ATTRIBUTES))
        self._connection.execute(f"CREATE TABLE t (tuple INTEGER PRIMARY KEY, {names})")
        self._texts = [f"SELECT tuple FROM t WHERE {query.predicate()}" for query in queries]

    def arrive(self, columns: Columns) -> list[Any]:
        """A list of rows for each query."""
        places = ", ".join("?" * (ATTRIBUTES + 1))
        with self._connection:
            self._connection.execute("DELETE FROM t")
            rows = zip(range(columns.shape[1]), *columns.tolist(), strict=True)
            self._connection.executemany(f"INSERT INTO t VALUES ({places})", rows)
        return [self._connection.execute(text).fetchall() for text in self._texts]

    def masks(self, columns: Columns) -> Masks:
        masks = np.zeros((self.queries, columns.shape[1]), np.bool_)
        for mask, pairs in zip(masks, self.arrive(columns), strict=True):
            mask[[row for (row,) in pairs]] = True
        return masks

    def close(self) -> None:
        self._connection.close()


_JOIN = "SELECT q.query, t.tuple FROM q JOIN t ON " + " AND ".join(
    f"t.a{k} >= q.l{k} AND t.a{k} <= q.h{k}" for k in range(ATTRIBUTES)
)


def _bounds(queries: Sequence[Query], dtype: Any = None) -> pa.Table:
    """query, l0, h0 … l7, h7: an attribute without an interval has one around everything."""
    low = np.zeros((ATTRIBUTES, len(queries)), np.int64)
    high = np.full((ATTRIBUTES, len(queries)), DOMAIN - 1, np.int64)
    for number, query in enumerate(queries):
        for interval in query.intervals:
            low[interval.attribute, number], high[interval.attribute, number] = interval.low, interval.high
    columns: dict[str, Any] = {"query": pa.array(np.arange(len(queries)), pa.int32())}
    for k in range(ATTRIBUTES):
        columns |= {f"l{k}": pa.array(low[k], dtype), f"h{k}": pa.array(high[k], dtype)}
    return pa.table(columns)


def _numbered(columns: Columns, dtype: Any = None) -> pa.Table:
    table = to_table(columns)
    if dtype is not None:
        table = table.cast(pa.schema([(name, dtype) for name in table.column_names]))
    return table.append_column("tuple", pa.array(np.arange(columns.shape[1]), pa.int32()))


def _from_pairs(queries: int, rows: int, query: Any, row: Any) -> Masks:
    masks = np.zeros((queries, rows), np.bool_)
    masks[np.asarray(query), np.asarray(row)] = True
    return masks


def engines(queries: Sequence[Query]) -> list[Callable[[], Peer]]:
    """The functions that make each of them, or raise `Missing`."""
    total = len(queries)
    return [
        lambda: DuckDBJoin(queries),
        lambda: PolarsMasks(queries),
        lambda: ArrowMasks(queries),
        lambda: PostgresJoin(queries),
        lambda: ClickHouseJoin(queries[:1_024], total=total),
        lambda: SQLiteScan(queries[:128], total=total),
    ]
