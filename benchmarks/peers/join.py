"""Peers where queries are very many: the join of a batch with a table of the queries.

    bounds   int64[Q, 5]  symbol, a from, a below, b from, b below    or int64[Q, 2]  a from, a below
    tuples   int64[3, n]  symbol, a, b
    result   (query, tuple) pairs, which are not kept

Every peer has the queries as it likes them best: sorted by symbol, hashed, indexed, or as a table. `rows` is how many
tuples it gets at a time; a slow one gets fewer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.peers import Missing
from benchmarks.peers.postgres import EAGER, PostgresServer

Integers = npt.NDArray[np.int64]
BY_SYMBOL = ("sym", "a_from", "a_below", "b_from", "b_below")
BY_RANGE = ("a_from", "a_below")
ANY = 1 << 20
"""As many tuples at a time as there are."""


class Pairs(NamedTuple):
    """Positions, int64[k] each, in any order."""

    queries: Integers
    tuples: Integers


class Peer(Protocol):
    """Something that joins."""

    name: str
    rows: int

    def join(self, tuples: Integers) -> Pairs:
        """All matches of a batch."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class Joins:
    """The common part of all joins."""

    def __init__(self, name: str, bounds: Integers, rows: int) -> None:
        self.name, self.rows = name, rows
        self.columns = BY_SYMBOL if bounds.shape[1] == 5 else BY_RANGE

    def close(self) -> None:
        """Nothing to give back."""

    def table(self, bounds: Integers) -> pa.Table:
        """The queries, with their positions in the first column."""
        columns = zip(self.columns, np.ascontiguousarray(bounds.T), strict=True)
        return pa.table({"query": np.arange(len(bounds)), **dict(columns)})

    def condition(self) -> str:
        """The condition on a tuple t and a query q, in SQL."""
        ranges = "t.a >= q.a_from AND t.a < q.a_below"
        if self.columns == BY_RANGE:
            return ranges
        return f"q.sym = t.sym AND {ranges} AND t.b >= q.b_from AND t.b < q.b_below"


class NumPyPerTuple(Joins):
    """A mask over all queries for each tuple."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        super().__init__("NumPy per tuple", bounds, rows)
        self._bounds = np.ascontiguousarray(bounds.T)

    def join(self, tuples: Integers) -> Pairs:
        positions = [np.flatnonzero(self._mask(*values)) for values in tuples.T]
        sizes = [len(queries) for queries in positions]
        return Pairs(np.concatenate(positions), np.repeat(np.arange(len(positions)), sizes))

    def _mask(self, symbol: int, a: int, b: int) -> npt.NDArray[np.bool_]:
        *wanted, low, high = self._bounds[: 3 if self.columns == BY_SYMBOL else 2]
        mask = (low <= a) & (a < high)
        if wanted:
            mask &= (wanted[0] == symbol) & (self._bounds[3] <= b) & (b < self._bounds[4])
        return mask


class NumPyBySymbol(Joins):
    """Queries sorted by symbol; the candidates of a batch are spread out and tested at once, some millions a time."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        super().__init__("NumPy by symbol", bounds, rows)
        self._order = np.argsort(bounds[:, 0], kind="stable")
        ordered = bounds[self._order]
        self._symbols = np.ascontiguousarray(ordered[:, 0])
        self._bounds = [np.ascontiguousarray(column) for column in ordered.T[1:]]

    def join(self, tuples: Integers) -> Pairs:
        starts = np.searchsorted(self._symbols, tuples[0], "left")
        sizes = np.searchsorted(self._symbols, tuples[0], "right") - starts
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // 2_000_000, prepend=-1)).tolist()
        pairs = [self._some(tuples, starts, sizes, a, b) for a, b in zip(cuts, [*cuts[1:], len(sizes)], strict=True)]
        return Pairs(np.concatenate([q for q, _ in pairs]), np.concatenate([t for _, t in pairs]))

    def _some(self, tuples: Integers, starts: Integers, sizes: Integers, first: int, last: int) -> Pairs:
        sizes = sizes[first:last]
        numbers = np.repeat(np.arange(first, last), sizes)
        candidates = np.arange(len(numbers)) + np.repeat(starts[first:last] - (np.cumsum(sizes) - sizes), sizes)
        a, b = tuples[1][numbers], tuples[2][numbers]
        low, high, low_2, high_2 = (column[candidates] for column in self._bounds)
        rows = np.flatnonzero((low <= a) & (a < high) & (low_2 <= b) & (b < high_2))
        return Pairs(self._order[candidates[rows]], numbers[rows])


class NumPySorted(Joins):
    """The tuples of a batch sorted; each range is a slice of them."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        super().__init__("NumPy sorted", bounds, rows)
        self._low, self._high = (np.ascontiguousarray(column) for column in bounds.T)

    def join(self, tuples: Integers) -> Pairs:
        order = np.argsort(tuples[1])
        values = tuples[1][order]
        starts = np.searchsorted(values, self._low)
        sizes = np.searchsorted(values, self._high) - starts
        queries = np.repeat(np.arange(len(sizes)), sizes)
        places = np.arange(len(queries)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        return Pairs(queries, order[places])


class DuckDBJoin(Joins):
    """A hash join for symbols, a join on inequalities for ranges; pairs as NumPy arrays."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        super().__init__("DuckDB", bounds, rows)
        self._connection = duckdb.connect()
        self._connection.register("given", self.table(bounds))
        self._connection.execute("CREATE TABLE q AS SELECT * FROM given")
        self._text = f"SELECT q.query, t.tuple FROM batch t JOIN q ON {self.condition()}"

    def join(self, tuples: Integers) -> Pairs:
        self._connection.register("batch", _batch(tuples))
        pairs = self._connection.execute(self._text).fetchnumpy()
        return Pairs(np.asarray(pairs["query"]), np.asarray(pairs["tuple"]))

    def close(self) -> None:
        self._connection.close()


class PolarsJoin(Joins):
    """An equi-join on the symbol, then a filter, lazily so that they are fused where Polars can; or `join_where`."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        super().__init__("Polars", bounds, rows)
        queries = pl.from_arrow(self.table(bounds))
        assert isinstance(queries, pl.DataFrame)
        self._queries = queries.lazy()

    def join(self, tuples: Integers) -> Pairs:
        batch = pl.DataFrame({"sym": tuples[0], "a": tuples[1], "b": tuples[2], "tuple": np.arange(tuples.shape[1])})
        inside = [pl.col("a") >= pl.col("a_from"), pl.col("a") < pl.col("a_below")]
        if self.columns == BY_SYMBOL:
            inside += [pl.col("b") >= pl.col("b_from"), pl.col("b") < pl.col("b_below")]
            joined = batch.lazy().join(self._queries, on="sym").filter(*inside)
        else:
            joined = batch.lazy().join_where(self._queries, *inside)
        pairs = joined.select("query", "tuple").collect()
        return Pairs(pairs["query"].to_numpy(), pairs["tuple"].to_numpy())


class ArrowJoin(Joins):
    """PyArrow's hash join on the symbol, then a filter."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        super().__init__("PyArrow", bounds, rows)
        self._queries = self.table(bounds)

    def join(self, tuples: Integers) -> Pairs:
        pairs = self._queries.join(_batch(tuples), "sym", join_type="inner")
        parts = [
            (pc.field(value) >= pc.field(f"{value}_from")) & (pc.field(value) < pc.field(f"{value}_below"))
            for value in ("a", "b")
        ]
        pairs = pairs.filter(parts[0] & parts[1])
        return Pairs(pairs["query"].to_numpy(), pairs["tuple"].to_numpy())


class PostgresJoin(Joins):
    """The queries indexed by symbol (B-tree) or by their range (SP-GiST), the batch joined with them."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        super().__init__("PostgreSQL", bounds, rows)
        self._server = PostgresServer(EAGER)
        self._server.load("q", self.table(bounds))
        if self.columns == BY_SYMBOL:
            self._server.run("CREATE INDEX ON q (sym)")
            condition = self.condition()
        else:
            self._server.run("CREATE INDEX ON q USING spgist (int8range(a_from, a_below))")
            condition = "int8range(q.a_from, q.a_below) @> t.a"
        self._text = f"SELECT q.query, t.tuple FROM t JOIN q ON {condition}"

    def join(self, tuples: Integers) -> Pairs:
        self._server.load("t", _batch(tuples))
        pairs = self._server.table(self._text)
        return Pairs(pairs["query"].to_numpy(), pairs["tuple"].to_numpy())

    def close(self) -> None:
        self._server.close()


class SQLiteJoin(Joins):
    """The queries in memory, indexed by symbol, or in an R*Tree of their ranges."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        import apsw

        super().__init__("SQLite", bounds, rows)
        self._connection = apsw.Connection(":memory:")
        given = zip(range(len(bounds)), *np.ascontiguousarray(bounds.T).tolist(), strict=True)
        with self._connection:
            if self.columns == BY_SYMBOL:
                self._connection.execute("CREATE TABLE q (query, sym, a_from, a_below, b_from, b_below)")
                self._connection.executemany("INSERT INTO q VALUES (?, ?, ?, ?, ?, ?)", given)
                self._connection.execute("CREATE INDEX q_sym ON q (sym, a_from, a_below, b_from, b_below, query)")
            else:
                self._connection.execute("CREATE VIRTUAL TABLE q USING rtree_i32 (query, a_from, a_below)")
                self._connection.executemany("INSERT INTO q VALUES (?, ?, ?)", given)
            self._connection.execute("CREATE TABLE t (tuple INTEGER PRIMARY KEY, sym, a, b)")
        self._text = f"SELECT q.query, t.tuple FROM t CROSS JOIN q ON {self.condition()}"

    def join(self, tuples: Integers) -> Pairs:
        with self._connection:
            self._connection.execute("DELETE FROM t")
            rows = zip(range(tuples.shape[1]), *tuples.tolist(), strict=True)
            self._connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?)", rows)
        pairs = np.array(self._connection.execute(self._text).fetchall(), np.int64).reshape(-1, 2)
        return Pairs(pairs[:, 0], pairs[:, 1])

    def close(self) -> None:
        self._connection.close()


class ClickHouseJoin(Joins):
    """chDB: the batch as the hashed side of a join for symbols, of a cross join with a filter for ranges."""

    def __init__(self, bounds: Integers, rows: int) -> None:
        try:
            from chdb import session
        except ImportError as error:
            raise Missing("chDB", "make bench-setup") from error
        super().__init__("chDB", bounds, rows)
        self._session = session.Session()
        self._session.query("CREATE DATABASE IF NOT EXISTS bench")
        given = self.table(bounds)  # noqa: F841 the statement names it
        self._session.query("CREATE OR REPLACE TABLE bench.q ENGINE = Memory AS SELECT * FROM Python(given)")
        how = "JOIN bench.t AS t ON q.sym = t.sym" if self.columns == BY_SYMBOL else "CROSS JOIN bench.t AS t"
        self._text = f"SELECT q.query, t.tuple FROM bench.q AS q {how} WHERE {self.condition()}"

    def join(self, tuples: Integers) -> Pairs:
        batch = _batch(tuples)  # noqa: F841
        self._session.query("CREATE OR REPLACE TABLE bench.t ENGINE = Memory AS SELECT * FROM Python(batch)")
        pairs = pa.ipc.open_file(self._session.query(self._text, "Arrow").bytes()).read_all()
        return Pairs(pairs["query"].to_numpy(), pairs["tuple"].to_numpy())

    def close(self) -> None:
        self._session.close()


def symbol_joins(bounds: Integers, rows: int = ANY) -> list[Callable[[], Peer]]:
    """The functions that make each peer of an equality on a symbol; at most `rows` tuples at a time."""
    fast: list[Any] = [NumPyBySymbol, PolarsJoin, DuckDBJoin, ArrowJoin]
    slow: list[Any] = [ClickHouseJoin, PostgresJoin, SQLiteJoin]
    makers = [(peer, rows) for peer in fast] + [(peer, min(rows, 1_024)) for peer in slow]
    return [_maker(peer, bounds, given) for peer, given in [*makers, (NumPyPerTuple, 16)]]


def range_joins(bounds: Integers) -> list[Callable[[], Peer]]:
    """The functions that make each peer of a narrow range."""
    rows: dict[Any, int] = {NumPySorted: ANY, DuckDBJoin: ANY, PolarsJoin: 256, PostgresJoin: 256, SQLiteJoin: 64}
    rows |= {ClickHouseJoin: 16, NumPyPerTuple: 16}
    return [_maker(peer, bounds, given) for peer, given in rows.items()]


def _maker(peer: Any, bounds: Integers, rows: int) -> Callable[[], Peer]:
    return lambda: peer(bounds, rows)


def _batch(tuples: Integers) -> pa.Table:
    return pa.table({"tuple": np.arange(tuples.shape[1]), "sym": tuples[0], "a": tuples[1], "b": tuples[2]})
