"""Versions of a table's rows at their edges: when they begin and end, and what a deletion leaves."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.events.commands import CreateStream
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_testing.engines.recorded import RecordingPSoup, replayed
from psoup_testing.oracles.questions import again, rows_of

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)


def pushed(soup: LocalPSoup, key: str, price: int | None = None, *, deleted: bool = False) -> None:
    """Push a row of the table `t`, or the deletion of a key."""
    soup.push("t", pa.table({"k": [key], "price": pa.array([price], pa.int64()), "_deleted": [deleted]}))


@pytest.fixture
def soup() -> RecordingPSoup:
    """A table whose row UA changes at 10 s, is deleted at 20 s and comes back at 30 s. Row DL stays."""
    soup = RecordingPSoup(CONFIG, VirtualClock(0))
    soup.execute("CREATE TABLE t (k TEXT, price BIGINT, PRIMARY KEY (k))")
    pushed(soup, "UA", 1)
    pushed(soup, "DL", 5)
    for price, deleted in ((2, False), (None, True), (3, False)):
        soup.clock.advance(seconds=10)
        pushed(soup, "UA", price, deleted=deleted)
    soup.clock.advance(seconds=10)
    return soup


def prices(soup: LocalPSoup, at: int | None = None) -> list[object]:
    """The prices of UA at a time, in seconds, or at present."""
    answer = again(soup.ask, "SELECT price FROM t WHERE k = 'UA'", None if at is None else at * SECOND)
    return [row[0] for row in rows_of(answer)]


@pytest.mark.seeded("a version edge closed on both sides")
def test_a_version_ends_when_the_next_one_begins(soup: RecordingPSoup) -> None:
    assert [prices(soup, at) for at in (0, 9, 10, 19, 20, 29, 30, 40)] == [[1], [1], [2], [2], [], [], [3], [3]]
    assert prices(soup, -5) == [1], "the first version holds from the beginning"


@pytest.mark.seeded("a deletion that matches IS NULL or is counted")
def test_a_deletion_matches_nothing_and_is_not_counted() -> None:
    soup = LocalPSoup(CONFIG)
    soup.execute("CREATE TABLE t (k TEXT, price BIGINT, PRIMARY KEY (k))")
    before = soup.register("SELECT k FROM t WHERE price IS NULL")
    pushed(soup, "UA", 1)
    pushed(soup, "UA", deleted=True)
    pushed(soup, "never there", deleted=True)
    counts = [soup.register(f"SELECT count(*) AS n FROM t{where}") for where in ("", " WHERE price IS NULL")]
    nulls = [before, *(soup.register(sql) for sql in ("SELECT k FROM t WHERE price IS NULL", "SELECT k FROM t"))]
    for _ in range(2):
        assert [rows_of(again(soup.invoke, query)) for query in nulls] == [[], [], []]
        assert [rows_of(again(soup.invoke, query)) for query in counts] == [[(0,)], [(0,)]]
        assert soup.invoke_table(nulls[:2]).batches(), "no rows"
        assert sum(batch.num_rows for batch in soup.invoke_table(nulls[:2]).batches()) == 0
        soup.maintain()


@pytest.mark.seeded("a delete forgotten at a restart")
def test_a_restart_keeps_deletions(soup: RecordingPSoup) -> None:
    pushed(soup, "DL", deleted=True)
    for run_length in (1, 100):
        soup.engine, soup.admission = replayed(soup.events, CONFIG, run_length)
        assert rows_of(again(soup.ask, "SELECT k, price FROM t")) == [("UA", 3)]
        assert rows_of(again(soup.ask, "SELECT k FROM t ORDER BY k", 39 * SECOND)) == [("DL",), ("UA",)]
        assert prices(soup, 20) == []


@pytest.mark.seeded("a key found in another tenant's table")
def test_a_table_has_no_keys_of_another_tenant() -> None:
    soup = LocalPSoup(CONFIG)
    for soup.tenant, prices_of in (("default", {"UA": 1, "DL": 5}), ("other", {"DL": 6, "UA": 2})):
        soup.submit(CreateStream("CREATE TABLE t (k TEXT, price BIGINT, PRIMARY KEY (k))", soup.tenant))
        for key, price in prices_of.items():
            pushed(soup, key, price)
    soup.tenant = "default"
    pushed(soup, "UA", deleted=True)
    soup.tenant = "other"
    for at in (None, -5 * SECOND):
        assert rows_of(again(soup.ask, "SELECT k, price FROM t ORDER BY k", at)) == [("DL", 6), ("UA", 2)]
