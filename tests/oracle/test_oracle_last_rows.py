"""Windows of the last rows of each key: random ones, equal QUALIFY row_number() of DuckDB.

    FROM s [PARTITION BY k, t ROWS 3] WHERE v > 0      ours
    FROM (SELECT * FROM s QUALIFY row_number() OVER (PARTITION BY k, t ORDER BY _id DESC) <= 3) WHERE v > 0

    FROM s [ROWS 3 WHERE v > 0]                        ours
    FROM (SELECT * FROM s WHERE v > 0 QUALIFY row_number() OVER (ORDER BY _id DESC) <= 3)

A plain SELECT at the same time gives DuckDB its tuples, in stream order. So late tuples and retention are in them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import DEFAULT_TENANT, SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled

pytestmark = [
    pytest.mark.seeded("a NULL partition is merged with 0"),
    pytest.mark.seeded("the last n tuples of a key are counted after WHERE"),
    pytest.mark.seeded("the last n tuples are taken for the last n matching tuples"),
    pytest.mark.seeded("a window of keys ends at the newest tuple instead of as_of"),
]

CONFIG = EngineConfig(chunk_rows=64, piece_rows=64)
KEYS = ("k", "t", "v", "k, t", "t, k, b", "moment", "d")
WHERE = ("", " WHERE v > 0", " WHERE t = 'a'", " WHERE k IS NULL OR v < 2", " WHERE v > 90")
OPTIONS = ("", " RETENTION 150 ROWS", " RETENTION 40 SECONDS", " RETENTION 64 ROWS ARCHIVE 5000 ROWS")


class _Twins:
    """A random history of a stream, and its tuples in DuckDB."""

    def __init__(self, seed: int, path: Path) -> None:
        self.random = Random(seed)
        self.clock = VirtualClock(1_700_000_000 * SECOND)
        option = OPTIONS[seed % len(OPTIONS)]
        self.soup = LocalPSoup(CONFIG, self.clock)
        if "ARCHIVE" in option:
            self.soup = RestartingPSoup(CONFIG, self.clock, path, every=3)
        timed = "moment TIMESTAMP NOT NULL) TIMESTAMP BY moment LATENESS 5 SECONDS"
        self.soup.execute(f"CREATE STREAM s (k BIGINT, t TEXT, v BIGINT, d DOUBLE, b BOOLEAN, {timed}{option}")
        self.plain = self.soup.register("SELECT _id, _time, k, t, v, d, b, moment FROM s")
        self.times = [self.clock.now()]
        for _ in range(self.random.randint(4, 9)):
            self.push()
        self.duck = duckdb.connect(config={"threads": 1})

    def push(self) -> None:
        """Push some tuples, some of them late, and do upkeep at times."""
        draw, rows = self.random, self.random.randint(1, 60)
        self.clock.advance(seconds=draw.randint(0, 6))
        now = self.clock.now()
        columns: dict[str, Any] = {
            "k": [draw.choice([None, 0, 0, *range(6)]) for _ in range(rows)],
            "t": [draw.choice([None, "", "a", "bb", "é"]) for _ in range(rows)],
            "v": [draw.choice([None, *range(-3, 6)]) for _ in range(rows)],
            "d": [draw.choice([None, 0.0, -0.0, 1.5]) for _ in range(rows)],
            "b": [draw.choice([None, True, False]) for _ in range(rows)],
            "moment": pa.array([now - draw.randint(0, 8 * SECOND) for _ in range(rows)], pa.timestamp("us", "UTC")),
        }
        self.soup.push("s", pa.table(columns), refused="count")
        self.times.append(now - draw.randint(5 * SECOND, 12 * SECOND))
        if draw.random() < 0.5:
            self.soup.maintain()

    def load(self, as_of: int | None) -> None:
        """Take the tuples up to a time into DuckDB."""
        rows = again(self.soup.invoke, self.plain, as_of=as_of, accept_truncation=True).to_table()
        self.duck.register("arrived", rows)
        self.duck.execute("CREATE OR REPLACE TABLE s AS SELECT * FROM arrived")

    def window(self) -> tuple[str, str]:
        """A window in brackets, and DuckDB's rows of it."""
        keys, rows = self.random.choice(KEYS), self.random.choice((1, 1, 2, 3, 10))
        inner = self.random.choice((*("",) * 6, *WHERE[1:]))
        per_key = "" if inner and self.random.random() < 0.4 else f"PARTITION BY {keys} "
        numbered = f"row_number() OVER ({per_key}ORDER BY _id DESC) <= {rows}"
        return f"s [{per_key}ROWS {rows}{inner}]", f"(SELECT * FROM s{inner} QUALIFY {numbered})"

    def check(self, ours: str, theirs: str, as_of: int | None) -> None:
        """Compare the rows of two statements, in their order."""
        answer = again(self.soup.invoke, self.soup.register(ours), as_of=as_of, accept_truncation=True).to_table()
        expected = self.duck.execute(theirs).fetchall()
        got = list(zip(*[column.to_pylist() for column in answer.columns], strict=True))
        assert got == expected, f"{ours}\n{theirs}"


@pytest.fixture(params=range(scaled(8)))
def twins(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[_Twins]:
    made = _Twins(request.param, tmp_path / "store")
    yield made
    made.duck.close()


def _asked(twins: _Twins) -> Iterator[int | None]:
    """NOW, and an earlier time that NOW has reached."""
    now = twins.soup.engine.snapshot().streams[DEFAULT_TENANT, "s"].watermark
    reached = [time for time in twins.times if now is not None and time <= now]
    for as_of in [None, *twins.random.sample(reached, min(1, len(reached)))]:
        twins.load(as_of)
        yield as_of


def test_selections_are_those_of_duckdb(twins: _Twins) -> None:
    draw = twins.random
    for as_of in _asked(twins):
        for _ in range(3):
            (ours, theirs), where = twins.window(), draw.choice(WHERE)
            shown = "SELECT _id, k, t, v FROM "
            twins.check(f"{shown}{ours}{where}", f"{shown}{theirs}{where} ORDER BY _id", as_of)
            cut = draw.choice((" LIMIT 7", " LIMIT 5 OFFSET 3", ""))
            order = " ORDER BY v DESC NULLS LAST, _id"
            twins.check(f"{shown}{ours}{where}{order}{cut}", f"{shown}{theirs}{where}{order}{cut}", as_of)
            once = f"SELECT DISTINCT k, t FROM {{}}{where} ORDER BY k, t"
            twins.check(once.format(ours), once.format(theirs), as_of)


def test_groups_are_those_of_duckdb(twins: _Twins) -> None:
    for as_of in _asked(twins):
        for _ in range(2):
            (ours, theirs), where = twins.window(), twins.random.choice(WHERE)
            by_text = f"SELECT t, count(*), sum(v), min(v), max(_id) FROM {{}}{where} GROUP BY t ORDER BY t"
            twins.check(by_text.format(ours), by_text.format(theirs), as_of)
            whole = f"SELECT count(*), sum(v), max(v) FROM {{}}{where}"
            twins.check(whole.format(ours), whole.format(theirs), as_of)
            ranks = f"SELECT _id, rank() OVER (PARTITION BY t ORDER BY v) FROM {{}}{where} ORDER BY _id"
            twins.check(ranks.format(ours), ranks.format(theirs), as_of)


JOINS = (
    ("SELECT x._id, y._id FROM {} x JOIN {} y ON x.k = y.k AND x.v < y.v", "WHERE", "1, 2"),
    ("SELECT x._id, y._id FROM {} x LEFT JOIN {} y ON x.k = y.v", "WHERE", "1, 2"),
    ("SELECT x._id FROM {} x WHERE EXISTS (SELECT 1 FROM {} y WHERE y.v = x.k AND y.t = x.t)", "AND", "1"),
    ("SELECT x._id FROM {} x WHERE NOT EXISTS (SELECT 1 FROM {} y WHERE y.k = x.k AND y.v > 3)", "AND", "1"),
    ("SELECT x._id FROM {} x WHERE x.k IN (SELECT y.v FROM {} y)", "AND", "1"),
    ("SELECT x._id, n FROM {} x JOIN (SELECT k, count(*) AS n FROM {} z GROUP BY k) y ON x.v = y.k", "WHERE", "1, 2"),
)


def test_joins_are_those_of_duckdb(twins: _Twins) -> None:
    for as_of in _asked(twins):
        for statement, word, order in twins.random.sample(JOINS, 3):
            (ours, theirs), (other, their_other) = twins.window(), twins.window()
            if twins.random.random() < 0.3:
                other, their_other = "s [UNBOUNDED]", "s"
            last = f"{twins.random.choice(('', f' {word} x.v > 0'))} ORDER BY {order}"
            twins.check(statement.format(ours, other) + last, statement.format(theirs, their_other) + last, as_of)


def test_subselects_and_unions_are_those_of_duckdb(twins: _Twins) -> None:
    for as_of in _asked(twins):
        (ours, theirs), (other, their_other) = twins.window(), twins.window()
        inner = "SELECT n, k FROM (SELECT k, v AS n FROM {} WHERE v > -1) x WHERE n < 4 ORDER BY n, k NULLS LAST"
        twins.check(inner.format(ours), inner.format(theirs), as_of)
        both = "SELECT v FROM {} UNION ALL SELECT k FROM {} ORDER BY v"
        twins.check(both.format(ours, other), both.format(theirs, their_other), as_of)
