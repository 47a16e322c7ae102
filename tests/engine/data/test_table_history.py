"""HISTORY of a table: how far back an answer is exact, and what it lacks before that time."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import OutOfRange
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_proto.v1 import queries_pb2
from psoup_service.wire.answers import whole
from psoup_testing.engines.restarts import making
from psoup_testing.oracles.questions import again, rows_of

CONFIG = EngineConfig(chunk_rows=64, piece_rows=16)
QUERY = "SELECT k, price FROM t ORDER BY k"


def pushed(soup: LocalPSoup, **prices: int | None) -> None:
    """Push rows of the table `t`. A price of None deletes the row."""
    columns = {"k": list(prices), "price": pa.array(prices.values(), pa.int64())}
    soup.push("t", pa.table({**columns, "_deleted": [price is None for price in prices.values()]}))


@pytest.fixture
def soup() -> LocalPSoup:
    """A table with 15 seconds of history, at 30 s. Its row UA changed at 10 s and at 20 s, and DL never did."""
    soup = LocalPSoup(CONFIG, VirtualClock(0))
    soup.execute("CREATE TABLE t (k TEXT, price BIGINT, PRIMARY KEY (k)) HISTORY 15 SECONDS DELETED FOR 1 SECOND")
    pushed(soup, UA=1, DL=5)
    for price in (2, 3):
        soup.clock.advance(seconds=10)
        pushed(soup, UA=price)
    soup.clock.advance(seconds=10)
    return soup


@pytest.mark.seeded("a compacted version that answers")
def test_a_version_that_ended_before_history_is_in_no_answer(soup: LocalPSoup) -> None:
    """UA    1 ──── 10  2 ──── 20  3 ────        edge: 15. The version with price 1 is lost, the one with 2 is not."""
    query = soup.register(QUERY)
    at = {second: rows_of(again(soup.invoke, query, second * SECOND, None, True)) for second in (-5, 5, 12, 15, 20)}
    assert at == {
        -5: [("DL", 5)],
        5: [("DL", 5)],
        12: [("DL", 5), ("UA", 2)],
        15: [("DL", 5), ("UA", 2)],
        20: [("DL", 5), ("UA", 3)],
    }
    assert rows_of(again(soup.invoke, query)) == [("DL", 5), ("UA", 3)]


def test_a_question_about_a_time_before_history_is_refused_or_says_so(soup: LocalPSoup) -> None:
    with pytest.raises(
        OutOfRange, match="before the HISTORY of table 't', which keeps the versions of 15 SECONDS"
    ) as e:
        soup.ask(QUERY, 15 * SECOND - 1)
    assert e.value.reason == "AS_OF_BEFORE_HISTORY"
    assert "now from 1970-01-01 00:00:15" in str(e.value)
    assert soup.ask(QUERY, 15 * SECOND - 1, None, True).completeness.sources[0].truncated
    assert not soup.ask(QUERY, 15 * SECOND).completeness.sources[0].truncated
    soup.clock.advance(seconds=1)
    with pytest.raises(OutOfRange):
        soup.ask(QUERY, 15 * SECOND)


def test_a_join_is_refused_as_well(soup: LocalPSoup) -> None:
    soup.execute("CREATE STREAM s (k TEXT)")
    soup.push("s", pa.table({"k": ["UA"]}))
    sql = "SELECT t.price FROM s LEFT JOIN t ON s.k = t.k"
    with pytest.raises(OutOfRange, match="HISTORY"):
        soup.ask(sql, 14 * SECOND)
    assert rows_of(again(soup.ask, sql)) == [(3,)]


def test_a_key_that_comes_back_has_one_version_at_a_time(soup: LocalPSoup) -> None:
    """UA is deleted at 30 s. It comes back within HISTORY at 40 s, and after HISTORY at 60 s."""
    pushed(soup, UA=None)
    soup.clock.advance(seconds=10)
    pushed(soup, UA=4)
    assert rows_of(again(soup.ask, "SELECT price FROM t WHERE k = 'UA'", 35 * SECOND)) == []
    pushed(soup, UA=None)
    soup.clock.advance(seconds=20)
    pushed(soup, UA=6)
    assert rows_of(again(soup.ask, "SELECT price FROM t WHERE k = 'UA'", 50 * SECOND)) == [(6,)], "as a new key"
    assert rows_of(again(soup.ask, "SELECT price FROM t WHERE k = 'UA'", 39 * SECOND, None, True)) == [(6,)]


AS_OF = "SELECT o.k, t.price FROM o {}JOIN t AS OF o ON o.k = t.k"


@pytest.mark.parametrize(("kind", "rows"), [("LEFT ", 3), ("", 1)])
def test_rows_of_a_join_as_of_that_are_older_than_history_are_counted(kind: str, rows: int) -> None:
    """UA    1 ──── 10  2 ──── 20  3 ────        orders of UA at 0, 10 and 20 s: at 40 s the edge is 25"""
    soup = LocalPSoup(CONFIG, VirtualClock(0))
    soup.execute("CREATE TABLE t (k TEXT, price BIGINT, PRIMARY KEY (k)) HISTORY 15 SECONDS")
    soup.execute("CREATE STREAM o (k TEXT)")
    query = soup.register(AS_OF.format(kind))
    unknown = list[int]()
    for price in (1, 2, 3):
        pushed(soup, UA=price)
        soup.push("o", pa.table({"k": ["UA"]}))
        soup.clock.advance(seconds=10)
    for _ in range(2):
        answer = again(soup.invoke, query)
        unknown.append(answer.unknown)
        soup.clock.advance(seconds=10)
    assert unknown == [1, 2]
    answer_rows = rows_of(answer)
    assert answer_rows[-1] == ("UA", 3)
    assert len(answer_rows) == rows
    wire = whole(soup.invoke(query), 1 << 20, queries_pb2.InvokeResponse)
    assert wire.completeness.unknown == 2
    table = soup.invoke_table([query])
    list(table.batches())
    assert table.groups[0].unknown == 2


def test_rows_are_counted_if_the_table_has_no_version() -> None:
    soup = LocalPSoup(CONFIG, VirtualClock(0))
    soup.execute("CREATE TABLE t (k TEXT, price BIGINT, PRIMARY KEY (k)) HISTORY 15 SECONDS")
    soup.execute("CREATE STREAM o (k TEXT)")
    soup.push("o", pa.table({"k": ["UA", None]}))
    soup.clock.advance(seconds=20)
    pushed(soup, UA=1)
    pushed(soup, UA=None)
    soup.clock.advance(seconds=20)
    answer = again(soup.ask, AS_OF.format("LEFT "))
    assert rows_of(answer) == [("UA", None), (None, None)]
    assert answer.unknown == 1


@pytest.mark.seeded("a longer HISTORY takes back what a shorter one has lost")
def test_a_longer_history_begins_with_what_the_shorter_one_has_kept(tmp_path: Path) -> None:
    """UA    1 ──── 10  2 ──── 20  3 ────        at 30 s HISTORY becomes 100 s instead of 15 s: exact from 15 s on

    The same holds whether the version with price 1 has left memory before, and after a restart.
    """
    with making(tmp_path) as made:
        soup = made(CONFIG, VirtualClock(0))
        soup.execute("CREATE TABLE t (k TEXT, price BIGINT, PRIMARY KEY (k)) HISTORY 15 SECONDS DELETED FOR 1 SECOND")
        soup.execute("CREATE STREAM o (k TEXT)")
        query = soup.register(AS_OF.format(""))
        for price in (1, 2, 3):
            pushed(soup, UA=price, DL=5)
            soup.push("o", pa.table({"k": ["UA"]}))
            soup.clock.advance(seconds=10)
        pushed(soup, LH=7)
        for statement, exact in (("HISTORY 100 SECONDS", 15), ("HISTORY 12 SECONDS", 18), ("HISTORY 1 DAY", 18)):
            soup.execute(f"ALTER TABLE t {statement}")
            for _ in range(2):
                assert not soup.ask(QUERY, exact * SECOND).completeness.sources[0].truncated, statement
                with pytest.raises(
                    OutOfRange, match=f"now from 1970-01-01 00:00:{exact}Z on(, as HISTORY was shorter before)?; ask"
                ):
                    soup.ask(QUERY, exact * SECOND - 1)
                early = again(soup.ask, QUERY, 5 * SECOND, None, True)
                assert rows_of(early) == [("LH", 7)] and early.completeness.sources[0].truncated
                answer = again(soup.invoke, query)
                assert (rows_of(answer), answer.unknown) == ([("UA", 2), ("UA", 3)], 1)
                soup.maintain()
                soup.restart()
        soup.clock.advance(seconds=10_000)
        assert rows_of(soup.ask(QUERY, 19 * SECOND))[-1] == ("UA", 2), "the longer HISTORY holds from then on"


def test_a_deletion_that_was_forgotten_stays_so(soup: LocalPSoup) -> None:
    """A longer DELETED FOR finds no deletion that may have left before, so the key that comes back is new."""
    soup.execute("ALTER TABLE t HISTORY 1 SECOND")
    pushed(soup, UA=None)
    soup.clock.advance(seconds=10)
    pushed(soup, DL=6)
    soup.execute("ALTER TABLE t DELETED FOR 1 DAY")
    pushed(soup, UA=9)
    assert rows_of(again(soup.ask, "SELECT price FROM t WHERE k = 'UA'", 39 * SECOND + 1)) == [(9,)], "as a new key"
    pushed(soup, UA=None)
    soup.clock.advance(seconds=10)
    pushed(soup, UA=10)
    assert rows_of(again(soup.ask, "SELECT price FROM t WHERE k = 'UA'", 49 * SECOND + 1)) == []
