"""Peers of `join.*`: the join from scratch, over tables that hold the windows' tuples and no others.

    DuckDB   a prepared statement, its answer as Arrow
    Polars   filters and a join of frames; a frame

Peers get the windows for free, while PSoup has to find them. In turn PSoup knows the matching tuples of each side.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import duckdb
import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Frames = Mapping[str, pl.DataFrame]


class Peer(Protocol):
    """Something that joins."""

    name: str

    def join(self) -> Any:
        """The answer in the peer's own form."""
        ...

    def answer(self) -> Integers:
        """The same as int64[columns, rows], in any order."""
        ...

    def close(self) -> None:
        """Give back what it holds."""
        ...


class DuckDBSides:
    """A statement over the tables."""

    name = "DuckDB"

    def __init__(self, tables: Mapping[str, pa.Table], sql: str) -> None:
        warnings.filterwarnings("ignore", message="Arrow output on a DB-API result")  # the other way is slower
        self._connection = duckdb.connect()
        for name, table in tables.items():
            self._connection.register("arrow_window", table)
            self._connection.execute(f"CREATE TABLE {name} AS SELECT * FROM arrow_window")
            self._connection.unregister("arrow_window")
        self._connection.execute(f"PREPARE q AS {sql}")

    def join(self) -> pa.Table:
        """An Arrow table."""
        return self._connection.execute("EXECUTE q").to_arrow_table()

    def answer(self) -> Integers:
        """See `Peer`."""
        return np.stack([column.to_numpy() for column in self.join().columns])

    def close(self) -> None:
        """End it."""
        self._connection.close()


class PolarsSides:
    """An operation on frames."""

    name = "Polars"

    def __init__(self, tables: Mapping[str, pa.Table], work: Callable[[Frames], pl.DataFrame]) -> None:
        self._frames = {name: pl.DataFrame(table) for name, table in tables.items()}
        self._work = work

    def join(self) -> pl.DataFrame:
        """A frame."""
        return self._work(self._frames)

    def answer(self) -> Integers:
        """See `Peer`."""
        return np.stack([series.to_numpy() for series in self.join().get_columns()])

    def close(self) -> None:
        """Nothing to give back."""
