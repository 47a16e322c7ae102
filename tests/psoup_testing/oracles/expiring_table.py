"""A table with EXPIRES BY beside a list of entries, and DuckDB over the rows that hold.

    entries    (12:00, "a", row until 12:05)  (12:05, "a", deleted)      a look at 12:05 or later adds the second one

A look deletes each key whose newest row has a time that is not after the clock's time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import duckdb
import pyarrow as pa

from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again, plain_rows

START = 1_600_000_000 * SECOND
_KEYS = 40
_QUERIES = (
    "SELECT k, n, until FROM t ORDER BY k",
    "SELECT k FROM t WHERE n > 2",
    "SELECT n % 3 AS g, count(*) AS c FROM t GROUP BY n % 3",
    "SELECT k FROM t WHERE until IS NULL",
)


class ExpiringTable:
    """The table on all sides. `make`: makes the engine of a configuration and a clock."""

    def __init__(self, draw: random.Random, connection: duckdb.DuckDBPyConnection, make: Callable[..., Any]) -> None:
        self.draw, self.clock = draw, VirtualClock(START)
        self._connection = connection
        self.soup = make(EngineConfig(chunk_rows=64, piece_rows=16, shape=EAGER), self.clock)
        self.soup.execute("CREATE TABLE t (k TEXT PRIMARY KEY, n BIGINT, until TIMESTAMP) EXPIRES BY until")
        self.queries = [(self.soup.register(sql), sql) for sql in _QUERIES]
        self.entries: list[tuple[int, str, tuple[int, int | None] | None]] = []
        self.expires = True
        self.deleted = 0
        """Rows that looks have deleted."""

    def push(self) -> None:
        """Upsert and delete some rows. Some have expired already."""
        draw, now = self.draw, self.clock.now()
        rows = draw.choice((1, 3, 30))
        keys = [f"k{draw.randrange(_KEYS)}" for _ in range(rows)]
        untils = [draw.choice((None, now + draw.randint(-3, 12) * SECOND)) for _ in range(rows)]
        gone, numbers = [draw.random() < 0.15 for _ in range(rows)], [draw.randrange(6) for _ in range(rows)]
        until = pa.array(untils, pa.timestamp("us"))
        self.soup.push("t", pa.table({"k": keys, "n": numbers, "until": until, "_deleted": gone}))
        for key, number, time, deleted in zip(keys, numbers, untils, gone, strict=True):
            self.entries.append((self._stamp(), key, None if deleted else (number, time)))

    def advance(self) -> None:
        """Let time pass, or set the clock back."""
        self.clock.advance(seconds=self.draw.choice((0, 1, 1, 3, 5, -1)))

    def maintain(self) -> None:
        """Do all maintenance, with a look for expired rows."""
        self.soup.maintain()
        now = self.clock.now()
        for key, row in self._newest().items() if self.expires else ():
            if row is not None and row[1] is not None and row[1] <= now:
                self.entries.append((self._stamp(), key, None))
                self.deleted += 1

    def alter(self) -> None:
        """End or begin the expiry of rows."""
        self.expires = not self.expires
        self.soup.execute(f"ALTER TABLE t EXPIRES {'BY until' if self.expires else 'NEVER'}")

    def compare(self) -> None:
        """Compare the queries at present and at an earlier time."""
        for at in (None, self.clock.now() - self.draw.randint(0, 12) * SECOND):
            self._connection.register("t", self._arrow(at))
            for query, sql in self.queries:
                rows = plain_rows(again(self.soup.invoke, query, at).to_table())
                wanted = plain_rows(self._connection.sql(sql).to_arrow_table())
                assert sorted(map(repr, rows)) == sorted(map(repr, wanted)), f"{sql} at {at}"

    def _stamp(self) -> int:
        return max(self.clock.now(), self.entries[-1][0] if self.entries else 0)

    def _newest(self) -> dict[str, tuple[int, int | None] | None]:
        return {key: row for _, key, row in self.entries}

    def _arrow(self, at: int | None) -> pa.Table:
        """The rows that hold at a time. A first version holds from the beginning."""
        by_key: dict[str, tuple[int, int | None] | None] = {}
        for time, key, row in self.entries:
            if at is None or time <= at or key not in by_key:
                by_key[key] = row
        rows = [(key, *row) for key, row in by_key.items() if row is not None]
        columns = [[row[place] for row in rows] for place in range(3)]
        types = (pa.string(), pa.int64(), pa.timestamp("us"))
        return pa.table({name: pa.array(c, t) for name, c, t in zip(("k", "n", "until"), columns, types, strict=True)})
