"""What PSoup is measured against, each in the best formulation that we know.

    arrival   NumPyPerQuery: for each query, a mask over the batch, kept as bits
    invoke    DuckDBScan, PolarsScan: the query from scratch over a table that holds the window's tuples and no others

The peers are given the window for free: PSoup has to find it. DuckDB and Polars use all cores.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from benchmarks.workload import Columns, Query, to_table


class NumPyPerQuery:
    """One mask for each query and batch, packed to bits: what one writes by hand in an afternoon.

    `dtype` is the type the comparisons run on. int64 is the stream's type; uint8 is the narrowest that holds the
    values, which a general system cannot know beforehand.
    """

    def __init__(self, queries: Sequence[Query], dtype: npt.DTypeLike = np.int64) -> None:
        self._plans = [[(i.attribute, i.low, i.high) for i in query.intervals] for query in queries]
        self._dtype = np.dtype(dtype)

    def arrive(self, columns: Columns) -> npt.NDArray[np.uint8]:
        """uint8[queries, n/8]: the results of this batch, little-endian bits."""
        rows = columns.shape[1]
        narrow = columns.astype(self._dtype, copy=False)
        results = np.empty((len(self._plans), (rows + 7) // 8), np.uint8)
        mask, part = np.empty(rows, np.bool_), np.empty(rows, np.bool_)
        for query, plan in enumerate(self._plans):
            mask.fill(True)
            for attribute, low, high in plan:
                values = narrow[attribute]
                np.greater_equal(values, low, out=part)
                np.logical_and(mask, part, out=mask)
                np.less_equal(values, high, out=part)
                np.logical_and(mask, part, out=mask)
            results[query] = np.packbits(mask, bitorder="little")
        return results


class DuckDBScan:
    """A DuckDB table of the window; a prepared statement for each query, its answer as an Arrow table like PSoup's.

    Of what was tried this is the fastest way to Arrow: 0.9 ms where unprepared text takes 1.1 and relations 1.2.
    (As a dict of NumPy arrays, another form, it would be 0.66.)
    """

    name = "DuckDB"

    def __init__(self, window: Columns, queries: Sequence[Query]) -> None:
        # It says that this way copies the rows once more; the way that it recommends is the slower one.
        warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")
        self._connection = duckdb.connect()
        table = to_table(window)
        self._connection.register("arrow_window", table)
        self._connection.execute("CREATE TABLE s AS SELECT * FROM arrow_window")
        self._connection.unregister("arrow_window")
        for number, query in enumerate(queries):
            self._connection.execute(f"PREPARE q{number} AS SELECT * FROM s WHERE {query.predicate()}")

    def invoke(self, number: int) -> pa.Table:
        """The answer of the query at position `number`."""
        return self._connection.execute(f"EXECUTE q{number}").to_arrow_table()

    def answer(self, number: int) -> Columns:
        """The same as int64[8, n], for comparison."""
        return np.stack([column.to_numpy() for column in self.invoke(number).columns])

    def close(self) -> None:
        """Give the memory back."""
        self._connection.close()


class PolarsScan:
    """A Polars frame of the window; an expression for each query, made beforehand."""

    name = "Polars"

    def __init__(self, window: Columns, queries: Sequence[Query]) -> None:
        frame = pl.from_arrow(to_table(window))
        assert isinstance(frame, pl.DataFrame)
        self._frame = frame.rechunk()
        self._expressions = [self._expression(query) for query in queries]

    @staticmethod
    def _expression(query: Query) -> pl.Expr:
        return pl.all_horizontal(pl.col(f"a{i.attribute}").is_between(i.low, i.high) for i in query.intervals)

    def invoke(self, number: int) -> pl.DataFrame:
        """The answer of the query at position `number`."""
        return self._frame.filter(self._expressions[number])

    def answer(self, number: int) -> Columns:
        """The same as int64[8, n], for comparison."""
        return np.stack([series.to_numpy() for series in self.invoke(number).get_columns()])

    def close(self) -> None:
        """Nothing to give back."""
