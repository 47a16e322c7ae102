"""Peers of `invoke.*`: the query from scratch, over a table that holds the window's tuples and no others.

    DuckDB, Polars, PyArrow, SQLite, PostgreSQL, chDB   the query prepared where that is possible, the answer in the
                                                        engine's own fastest form: Arrow, or what it has instead
    NumPyScan                                           masks and a gather, by hand
    NumPyKept                                           the gather alone: which rows match is known beforehand

They are given the window for free: PSoup has to find it. Engines use all cores.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer
from benchmarks.tool.workload import ATTRIBUTES, Columns, Query, to_table


def in_order(rows: Columns) -> Columns:
    """The rows sorted, so that answers can be compared whatever their order."""
    return rows[:, np.lexsort(rows)]


class Peer(Protocol):
    """Something that answers; `queries` is how many of those it was given, the first ones."""

    name: str
    queries: int

    def invoke(self, number: int) -> Any:
        """The answer of the query at position `number`, in the peer's own form."""
        ...

    def answer(self, number: int) -> Columns:
        """The same as int64[8, n], for comparison; some engines have no order."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Scan:
    """The common part of all scans. Answers are Arrow tables unless noted."""

    def __init__(self, name: str, queries: Sequence[Query], total: int | None = None) -> None:
        self.queries = len(queries)
        self.name = name if total is None or total == len(queries) else f"{name}, {len(queries)} of {total} queries"

    def invoke(self, number: int) -> Any:
        """See `Peer`."""
        raise NotImplementedError

    def answer(self, number: int) -> Columns:
        """See `Peer`."""
        return np.stack([column.to_numpy() for column in self.invoke(number).columns])

    def close(self) -> None:
        """Nothing to give back."""


class DuckDBScan(Scan):
    """A prepared statement for each query, its answer as an Arrow table like PSoup's.

    Of what was tried this is the fastest way to Arrow: 0.9 ms where unprepared text takes 1.1 and relations 1.2.
    (As a dict of NumPy arrays, another form, it would be 0.66.)
    """

    def __init__(self, window: Columns, queries: Sequence[Query]) -> None:
        # It says that this way copies the rows once more; the way that it recommends is the slower one.
        warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
        super().__init__("DuckDB", queries)
        self._connection = duckdb.connect()
        self._connection.register("arrow_window", to_table(window))
        self._connection.execute("CREATE TABLE s AS SELECT * FROM arrow_window")
        self._connection.unregister("arrow_window")
        for number, query in enumerate(queries):
            self._connection.execute(f"PREPARE q{number} AS SELECT * FROM s WHERE {query.predicate()}")

    def invoke(self, number: int) -> pa.Table:
        return self._connection.execute(f"EXECUTE q{number}").to_arrow_table()

    def close(self) -> None:
        self._connection.close()


class PolarsScan(Scan):
    """An expression for each query, made beforehand; the answer is a frame."""

    def __init__(self, window: Columns, queries: Sequence[Query]) -> None:
        super().__init__("Polars", queries)
        frame = pl.from_arrow(to_table(window))
        assert isinstance(frame, pl.DataFrame)
        self._frame = frame.rechunk()
        self._expressions = [self._expression(query) for query in queries]

    @staticmethod
    def _expression(query: Query) -> pl.Expr:
        return pl.all_horizontal(pl.col(f"a{i.attribute}").is_between(i.low, i.high) for i in query.intervals)

    def invoke(self, number: int) -> pl.DataFrame:
        return self._frame.filter(self._expressions[number])

    def answer(self, number: int) -> Columns:
        return np.stack([series.to_numpy() for series in self.invoke(number).get_columns()])


class ArrowScan(Scan):
    """PyArrow: a mask by its compute functions, then a filter, which is faster than a filter by an expression."""

    def __init__(self, window: Columns, queries: Sequence[Query]) -> None:
        super().__init__("PyArrow", queries)
        self._table = to_table(window)
        self._plans = [[(i.attribute, pa.scalar(i.low), pa.scalar(i.high)) for i in q.intervals] for q in queries]

    def invoke(self, number: int) -> pa.Table:
        mask = None
        for attribute, low, high in self._plans[number]:
            values = self._table.column(attribute)
            part = pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))
            mask = part if mask is None else pc.and_(mask, part)
        return self._table.filter(mask)


class NumPyScan(Scan):
    """Masks of the query's intervals, then the columns of the rows that are left, in an array."""

    def __init__(self, window: Columns, queries: Sequence[Query]) -> None:
        super().__init__("NumPy", queries)
        self._window, self._queries = np.ascontiguousarray(window), queries

    def invoke(self, number: int) -> Columns:
        rows = np.flatnonzero(self._queries[number].mask(self._window))
        return self._window.take(rows, axis=1)

    def answer(self, number: int) -> Columns:
        return self.invoke(number)


class NumPyKept(Scan):
    """Which rows match is known beforehand, as positions; what is left is to gather the columns."""

    def __init__(self, window: Columns, queries: Sequence[Query]) -> None:
        super().__init__("NumPy from kept IDs", queries)
        self._window = np.ascontiguousarray(window)
        self._kept = [np.flatnonzero(query.mask(self._window)) for query in queries]

    def invoke(self, number: int) -> Columns:
        return self._window.take(self._kept[number], axis=1)

    def answer(self, number: int) -> Columns:
        return self.invoke(number)


class SQLiteScan(Scan):
    """A table in memory; the answer is a list of rows. Half of the rows pass an interval: indexes make it slower."""

    def __init__(self, window: Columns, queries: Sequence[Query], total: int) -> None:
        import apsw

        super().__init__("SQLite", queries, total)
        self._connection = apsw.Connection(":memory:")
        names = ", ".join(f"a{k} INTEGER" for k in range(ATTRIBUTES))
        with self._connection:
            self._connection.execute(f"CREATE TABLE s ({names})")
            places = ", ".join("?" * ATTRIBUTES)
            self._connection.executemany(f"INSERT INTO s VALUES ({places})", zip(*window.tolist(), strict=True))
        self._texts = [f"SELECT * FROM s WHERE {query.predicate()}" for query in queries]

    def invoke(self, number: int) -> list[Any]:
        return self._connection.execute(self._texts[number]).fetchall()

    def answer(self, number: int) -> Columns:
        return np.array(self.invoke(number), np.int64).reshape(-1, ATTRIBUTES).T

    def close(self) -> None:
        self._connection.close()


class PostgresScan(Scan):
    """A table in the server's memory, a plan that may use both cores, the answer as Arrow over binary COPY."""

    def __init__(self, window: Columns, queries: Sequence[Query], total: int) -> None:
        super().__init__("PostgreSQL", queries, total)
        self._server = PostgresServer()
        self._server.load("s", to_table(window))
        self._texts = [f"SELECT * FROM s WHERE {query.predicate()}" for query in queries]

    def invoke(self, number: int) -> pa.Table:
        return self._server.table(self._texts[number])

    def close(self) -> None:
        self._server.close()


class ClickHouseScan(Scan):
    """chDB: a table in memory, the answer as Arrow."""

    def __init__(self, window: Columns, queries: Sequence[Query], total: int) -> None:
        try:
            from chdb import session
        except ImportError as error:
            raise Missing("chDB", "make bench-setup") from error
        super().__init__("chDB", queries, total)
        self._session = session.Session()
        self._session.query("CREATE DATABASE IF NOT EXISTS bench")
        given = to_table(window)  # noqa: F841 the statement names it
        self._session.query("CREATE OR REPLACE TABLE bench.s ENGINE = Memory AS SELECT * FROM Python(given)")
        self._texts = [f"SELECT * FROM bench.s WHERE {query.predicate()}" for query in queries]

    def invoke(self, number: int) -> pa.Table:
        return pa.ipc.open_file(self._session.query(self._texts[number], "Arrow").bytes()).read_all()

    def close(self) -> None:
        self._session.close()


def quick_scans(window: Columns, queries: Sequence[Query]) -> list[Callable[[], Peer]]:
    """The functions that make the two fastest engines."""
    return [lambda: DuckDBScan(window, queries), lambda: PolarsScan(window, queries)]


def other_scans(window: Columns, queries: Sequence[Query], some: int) -> list[Callable[[], Peer]]:
    """The functions that make the remaining engines; slow ones get the first `some` queries."""
    few, total = queries[:some], len(queries)
    return [
        lambda: ArrowScan(window, queries),
        lambda: NumPyScan(window, queries),
        lambda: NumPyKept(window, queries),
        lambda: SQLiteScan(window, few, total),
        lambda: PostgresScan(window, few, total),
        lambda: ClickHouseScan(window, few, total),
    ]
