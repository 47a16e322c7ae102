"""Tables that are made of streams (CREATE TABLE … FROM STREAM), beside DuckDB over the tuples of the stream."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.restarts import RestartingPSoup, making
from psoup_testing.oracles.questions import again, plain_rows
from psoup_testing.suite.budget import Budget, replayable

BUDGET = Budget("tables that are made of streams", cases=18)
LONG = Budget("tables that are made of streams, long", cases=300)
START = 1_600_000_000 * SECOND
KEYS = ("k", "k, j", "j")
HELD = (
    "SELECT k, j, v, w FROM s WHERE time <= {at}"
    " QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY time DESC, n DESC) = 1"
)


class Origin:
    """A stream, and its tuples with their times for DuckDB."""

    def __init__(self, draw: random.Random, soup: RestartingPSoup, timed: bool) -> None:
        self.draw, self.soup, self.timed, self.watermark = draw, soup, timed, START
        options = f" TIMESTAMP BY w LATENESS {draw.randint(0, 4)} SECONDS AHEAD 1 DAY" if timed else ""
        soup.execute(f"CREATE STREAM s (k TEXT NOT NULL, j BIGINT NOT NULL, v DOUBLE, w TIMESTAMP NOT NULL){options}")
        self.rows = list[tuple[Any, ...]]()

    def push(self) -> None:
        """Push rows; some of them come late and wait."""
        draw, count = self.draw, self.draw.choice((1, 5, 40, 90))
        times = [self.watermark + draw.randint(0, 5) * SECOND for _ in range(count)]
        rows = [(f"k{draw.randrange(9)}", draw.randrange(5), draw.choice((None, 1.5, 2.5)), at) for at in times]
        self.soup.push("s", arrow(rows))
        self.rows += rows
        self.watermark = self.watermark if not self.timed else max(times)

    def release(self) -> None:
        """Let no tuple wait."""
        if self.timed and self.rows:
            self.soup.heartbeat("s", max(row[3] for row in self.rows))

    def tuples(self) -> pa.Table:
        """The tuples in stream order, with their times. In system time the times are 0."""
        rows = sorted(self.rows, key=lambda row: row[3]) if self.timed else self.rows
        times = [row[3] if self.timed else 0 for row in rows]
        return (
            arrow(rows)
            .append_column("time", pa.array(times, pa.int64()))
            .append_column("n", pa.array(range(len(rows))))
        )


def arrow(rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows of the stream."""
    types = {"k": pa.string(), "j": pa.int64(), "v": pa.float64(), "w": pa.timestamp("us")}
    columns = [[row[place] for row in rows] for place in range(len(types))]
    return pa.table({name: pa.array(c, types[name]) for name, c in zip(types, columns, strict=True)})


def play(path: Path, number: int, connection: duckdb.DuckDBPyConnection) -> int:
    """Fill a stream, make a table of it, and compare its rows at several times. Returns the number of its entries."""
    draw = random.Random(number)
    with making(path / str(number)) as made:
        soup = made(EngineConfig(chunk_rows=64, ahead=10**15), VirtualClock(START))
        origin, key = Origin(draw, soup, timed=number % 2 == 0), draw.choice(KEYS)
        for _ in range(draw.randrange(9)):
            origin.push()
            draw.choice((soup.maintain, soup.restart, lambda: soup.clock.advance(seconds=1)))()
        origin.release()
        options = draw.choice(("", " HISTORY 400 DAYS", " FIRST VERSION FROM ARRIVAL"))
        soup.execute(f"CREATE TABLE t FROM STREAM s PRIMARY KEY ({key}){options}")
        view = soup.engine.snapshot().stream("t", "default")
        connection.register("s", origin.tuples())
        for moment in ("created", "restarted", "maintained"):
            last = max((row[3] for row in origin.rows), default=START)
            ends = [last, min(last, START + 3 * SECOND)]
            for at in ends if origin.timed and origin.rows else [None]:
                wanted = connection.sql(HELD.format(at=10**18 if at is None else at, key=key)).to_arrow_table()
                answer = again(soup.ask, "SELECT k, j, v, w FROM t", at, None, True)
                rows = plain_rows(answer.to_table())
                assert sorted(map(repr, rows)) == sorted(map(repr, plain_rows(wanted))), f"{moment} at {at}"
            if moment == "created":
                soup.restart()
            else:
                soup.maintain()
        assert soup.engine.snapshot().stream("t", "default").watermark == view.watermark
        soup.push("t", arrow([("k1", 1, 9.5, START + 100 * SECOND)]))
        soup.check()
        return view.next_id


def test_a_table_has_the_rows_of_the_newest_tuples(tmp_path: Path) -> None:
    entries = 0
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        for number in BUDGET.rounds():
            with replayable(number):
                entries += play(tmp_path, number, connection)
                BUDGET.count()
    assert entries > 50, "the tables are too small to say anything"


@pytest.mark.long
def test_tables_of_many_streams_have_the_newest_tuples(tmp_path: Path) -> None:
    with closing(duckdb.connect(config={"threads": 1})) as connection:
        for number in LONG.rounds():
            with replayable(number):
                play(tmp_path, 1_000 + number, connection)
                LONG.count()
