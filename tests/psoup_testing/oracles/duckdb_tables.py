"""Databases of DuckDB for oracles: each has tables of its own, but one instance has them all.

To make an instance takes 15 ms of a processor, and another database of one a tenth of that.
"""

from __future__ import annotations

import itertools
from functools import cache

import duckdb

_NUMBERS = itertools.count()


@cache
def _instance() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"threads": 1})


def empty_database(*, optimized: bool = False) -> duckdb.DuckDBPyConnection:
    """A connection to an empty database, for one thread; `drop_database` ends both. `optimized`: queries of this
    connection are."""
    connection, name = _instance().cursor(), f"database_{next(_NUMBERS)}"
    connection.execute(f"ATTACH ':memory:' AS {name}; USE {name}")
    if not optimized:
        connection.execute("PRAGMA disable_optimizer")
    return connection


def drop_database(connection: duckdb.DuckDBPyConnection) -> None:
    """Drop what `empty_database` made; a second call is an error."""
    row = connection.execute("SELECT current_database()").fetchone()
    assert row is not None
    connection.execute(f"USE memory; DETACH {row[0]}")
    connection.close()
