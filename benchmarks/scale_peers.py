"""What PSoup is measured against where queries are very many: the join of a batch with a table of the queries.

    bounds   int64[Q, 5]  symbol, a from, a below, b from, b below    or int64[Q, 2]  a from, a below
    tuples   int64[3, n]  symbol, a, b
    result   (query, tuple) pairs, kept by nobody

Every peer has the queries as it likes them best: sorted by symbol, hashed, or as a table.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl

Integers = npt.NDArray[np.int64]


class Pairs(NamedTuple):
    """Positions, int64[k] each, in any order."""

    queries: Integers
    tuples: Integers


class Peer(Protocol):
    """Something that joins."""

    name: str

    def join(self, tuples: Integers) -> Pairs:
        """All matches of a batch."""
        ...


class NumPyBySymbol:
    """Queries sorted by symbol; the candidates of a batch are spread out and tested at once, some millions a time."""

    name = "NumPy by symbol"

    def __init__(self, bounds: Integers) -> None:
        self._order = np.argsort(bounds[:, 0], kind="stable")
        ordered = bounds[self._order]
        self._symbols = np.ascontiguousarray(ordered[:, 0])
        self._bounds = [np.ascontiguousarray(column) for column in ordered.T[1:]]

    def join(self, tuples: Integers) -> Pairs:
        """See `Peer`."""
        starts = np.searchsorted(self._symbols, tuples[0], "left")
        sizes = np.searchsorted(self._symbols, tuples[0], "right") - starts
        cuts = np.flatnonzero(np.diff(np.cumsum(sizes) // 2_000_000, prepend=-1)).tolist()
        found = [self._some(tuples, starts, sizes, a, b) for a, b in zip(cuts, [*cuts[1:], len(sizes)], strict=True)]
        return Pairs(np.concatenate([q for q, _ in found]), np.concatenate([t for _, t in found]))

    def _some(self, tuples: Integers, starts: Integers, sizes: Integers, first: int, last: int) -> Pairs:
        sizes = sizes[first:last]
        numbers = np.repeat(np.arange(first, last), sizes)
        candidates = np.arange(len(numbers)) + np.repeat(starts[first:last] - (np.cumsum(sizes) - sizes), sizes)
        a, b = tuples[1][numbers], tuples[2][numbers]
        low, high, low_2, high_2 = (column[candidates] for column in self._bounds)
        kept = np.flatnonzero((low <= a) & (a < high) & (low_2 <= b) & (b < high_2))
        return Pairs(self._order[candidates[kept]], numbers[kept])


class NumPySorted:
    """The tuples of a batch sorted; each range is a slice of them."""

    name = "NumPy sorted"

    def __init__(self, bounds: Integers) -> None:
        self._low, self._high = (np.ascontiguousarray(column) for column in bounds.T)

    def join(self, tuples: Integers) -> Pairs:
        """See `Peer`."""
        order = np.argsort(tuples[1])
        values = tuples[1][order]
        starts = np.searchsorted(values, self._low)
        sizes = np.searchsorted(values, self._high) - starts
        queries = np.repeat(np.arange(len(sizes)), sizes)
        places = np.arange(len(queries)) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
        return Pairs(queries, order[places])


class DuckDBJoin:
    """A hash join for symbols, a join on inequalities for ranges; pairs as NumPy arrays."""

    name = "DuckDB"

    def __init__(self, bounds: Integers) -> None:
        self._connection = duckdb.connect()
        names = ("sym", "a_from", "a_below", "b_from", "b_below") if bounds.shape[1] == 5 else ("a_from", "a_below")
        queries = pl.DataFrame(dict(zip(names, bounds.T, strict=True))).with_row_index("query").to_arrow()
        self._connection.register("given", queries)
        self._connection.execute("CREATE TABLE q AS SELECT * FROM given")
        on = "t.a >= q.a_from AND t.a < q.a_below"
        if bounds.shape[1] == 5:
            on = f"q.sym = t.sym AND {on} AND t.b >= q.b_from AND t.b < q.b_below"
        self._text = f"SELECT q.query::BIGINT AS query, t.tuple::BIGINT AS tuple FROM batch t JOIN q ON {on}"

    def join(self, tuples: Integers) -> Pairs:
        """See `Peer`."""
        batch = {"sym": tuples[0], "a": tuples[1], "b": tuples[2], "tuple": np.arange(tuples.shape[1])}
        self._connection.register("batch", pl.DataFrame(batch).to_arrow())
        found = self._connection.execute(self._text).fetchnumpy()
        return Pairs(np.asarray(found["query"]), np.asarray(found["tuple"]))


class PolarsJoin:
    """An equi-join on the symbol, then a filter, lazily so that they are fused where Polars can."""

    name = "Polars"

    def __init__(self, bounds: Integers) -> None:
        names = ("sym", "a_from", "a_below", "b_from", "b_below")
        self._queries = pl.DataFrame(dict(zip(names, bounds.T, strict=True))).with_row_index("query").lazy()

    def join(self, tuples: Integers) -> Pairs:
        """See `Peer`."""
        batch = {"sym": tuples[0], "a": tuples[1], "b": tuples[2], "tuple": np.arange(tuples.shape[1])}
        found = (
            pl.DataFrame(batch)
            .lazy()
            .join(self._queries, on="sym")
            .filter(
                pl.col("a") >= pl.col("a_from"),
                pl.col("a") < pl.col("a_below"),
                pl.col("b") >= pl.col("b_from"),
                pl.col("b") < pl.col("b_below"),
            )
            .select(pl.col("query").cast(pl.Int64), "tuple")
            .collect()
        )
        return Pairs(found["query"].to_numpy(), found["tuple"].to_numpy())
