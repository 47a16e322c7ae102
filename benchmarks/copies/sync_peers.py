"""Peers of `sync`: a table in a database, whose rows have numbers, asked for those above the last one that came.

    SELECT * FROM flights WHERE id >= 16010 ORDER BY id      the new rows
    SELECT max(id) - 10000 + 1 FROM flights                  rows below this number leave

This is what many build by hand. It works as long as rows come in the order of their numbers, and leave only by the
window. The new rows are taken as Arrow, and are not written for a client.
"""

from __future__ import annotations

from collections.abc import Callable

import duckdb
import pyarrow as pa

from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer

Poll = Callable[[int], pa.Table]


class Databases:
    """DuckDB in this process, and a PostgreSQL server, if there is one. `note`: how to get it, if there is none."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._duck = duckdb.connect(config={"threads": 1})
        self.note, self._server = "", None
        try:
            self._server = PostgresServer()
        except Missing as missing:
            self.note = f"{missing.name}: {missing.why}"

    def close(self) -> None:
        """End the server, and forget all rows."""
        self._duck.close()
        if self._server is not None:
            self._server.close()

    def load(self, flights: pa.Table) -> dict[str, Poll]:
        """Have these flights in the tables, numbered from 0; returns how each is asked for rows from a number on."""
        numbered = flights.add_column(0, "id", pa.array(range(flights.num_rows), pa.int64()))
        self._duck.register("given", numbered)
        self._duck.execute("CREATE OR REPLACE TABLE flights AS SELECT * FROM given")
        self._duck.unregister("given")
        polls: dict[str, Poll] = {
            "rows above a number, DuckDB": lambda number: self._asked(
                lambda text: self._duck.sql(text).to_arrow_table(), number
            )
        }
        server = self._server
        if server is not None:
            server.load("flights", numbered)
            server.run("CREATE UNIQUE INDEX ON flights (id)")
            polls["rows above a number, PostgreSQL"] = lambda number: self._asked(server.table, number)
        return polls

    def _asked(self, ask: Callable[[str], pa.Table], number: int) -> pa.Table:
        new = ask(f"SELECT * FROM flights WHERE id >= {number} ORDER BY id")
        left = ask(f"SELECT max(id) - {self._window} + 1 AS id FROM flights")
        assert left.num_rows == 1
        return new
