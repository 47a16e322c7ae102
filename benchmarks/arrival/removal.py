"""Many of a million queries unregistered at once, beside what one would do instead, and the memory that comes back.

tags.unregister    a tenth of the queries, drawn at random, by their IDs; again of those that are left, and again
one by one         the same queries in a loop over `unregister`, some of them and scaled
SQLite             the searches as a table in memory with an index of users: DELETE … WHERE id IN a table of the IDs
"""

from __future__ import annotations

import ctypes
import gc
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from benchmarks.arrival.registration import BLOCK, TEMPLATE
from benchmarks.arrival.tags import CREATE, table_of
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup.local import LocalPSoup
from psoup.values.columns import Array

ROUNDS = 3
LOOPED = 2_000
"""Queries of a round that are unregistered one by one."""
PART = 10
"""Fraction of the queries that leave in a round: one in this many."""


def rows(run: Run) -> Iterator[Row]:
    """The rows of the table."""
    yield from run.part(lambda: _rows(run.of(1_000_000, 200_000, 400)), "tags.unregister")


def _rows(queries: int) -> Iterator[Row]:
    table = table_of(queries)
    database, random, count = _database(table), np.random.default_rng(7), queries // PART
    _registered(table.slice(0, BLOCK)).unregister_many(range(1, 1 + min(BLOCK, queries)))  # kernels are loaded
    before = _resident()
    soup, looped = (_registered(table) for _ in range(2))
    full = _resident() - before
    ours, loop, theirs = [], [], []
    for _ in range(ROUNDS):
        leaving = np.sort(random.choice(np.array(soup.queries()), count, replace=False))
        ours.append(seconds(lambda: soup.unregister_many(leaving.tolist())))  # noqa: B023 called at once
        some = leaving[:: max(1, count // LOOPED)].tolist()
        loop.append(seconds(lambda: _loop(looped, some)) * count / len(some))  # noqa: B023
        theirs.append(seconds(lambda: _delete(database, leaving)))  # noqa: B023
        if soup.queries() != [number for (number,) in database.execute("SELECT id FROM searches ORDER BY id")]:
            raise AssertionError("other queries stand than SQLite has")
    for engine in (soup, looped):
        engine.unregister_many(engine.queries())
        engine.maintain()
    empty = _resident() - before
    note = (
        f"tags.unregister: two times {queries:,} queries took {full / 1e6:,.0f} MB, and {empty / 1e6:,.0f} MB of that"
        " when all had left"
    )
    target = Target(value_at_most=1) if queries == 1_000_000 else None
    name, mine, details = "tags.unregister", Sample.of(ours), {"full": full, "empty": empty}
    yield Row(name, mine, "s", f"one by one ({LOOPED:,} of {count:,})", Sample.of(loop), target, note, details)
    yield Row(name, mine, "s", "SQLite, DELETE", Sample.of(theirs), None)


def _database(table: pa.Table) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE searches (id INTEGER PRIMARY KEY, symbol, low, high, search_id, user_id)")
    database.executemany("INSERT INTO searches VALUES (?, ?, ?, ?, ?, ?)", _numbered(table))
    database.execute("CREATE INDEX by_user ON searches (user_id)")
    database.execute("CREATE TEMP TABLE leaving (id INTEGER PRIMARY KEY)")
    return database


def _numbered(table: pa.Table) -> Iterator[tuple[object, ...]]:
    """The rows of a table with IDs from 1 on."""
    columns = [column.to_pylist() for column in table.columns]
    return ((number, *row) for number, row in enumerate(zip(*columns, strict=True), 1))


def _registered(table: pa.Table) -> LocalPSoup:
    soup = LocalPSoup()
    soup.execute(CREATE)
    for start in range(0, len(table), BLOCK):
        part = table.slice(start, BLOCK)
        soup.register_many(TEMPLATE, part, key="search_id", labels=["user_id"])
    soup.maintain()
    return soup


def _loop(soup: LocalPSoup, query_ids: list[int]) -> None:
    for query_id in query_ids:
        soup.unregister(query_id)


def _delete(database: sqlite3.Connection, leaving: Array) -> None:
    with database:
        database.execute("DELETE FROM leaving")
        database.executemany("INSERT INTO leaving VALUES (?)", ((number,) for number in leaving.tolist()))
        database.execute("DELETE FROM searches WHERE id IN (SELECT id FROM leaving)")


def _resident() -> int:
    """Bytes of memory that this process has now, without what only waits to be given back."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
