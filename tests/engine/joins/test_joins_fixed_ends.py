"""Joins whose windows end at a fixed time after NOW: every answer ends at NOW, whichever way it is made.

    r  0        20        40            NOW is 5, the watermark of s: of r an answer has the tuple of 0 alone
    s      5                     60     after a push of 60 NOW is 40, the watermark of r
       [ BEGIN 0 ............ END 60 ]

Random windows of this kind are in `tests/oracle/test_oracle_joins.py`.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.copies.join_since import HeldBox, JoinedSince
from psoup.config import EngineConfig
from psoup.errors import OutOfRange
from psoup.execution.select.window import all_in_memory
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.copies.join_copies import EVERYTHING, Client
from psoup_testing.engines.restarts import making
from psoup_testing.suite.sweeps import swept

SECOND = 1_000_000
CONFIG = EngineConfig(chunk_rows=64, ahead=10**12)
ENDS = {
    "a fixed begin": "BEGIN (0) END (60)",
    "from START": "BEGIN (START) END (60)",
    "an end far off": "BEGIN (0) END TIMESTAMP '9999-12-31'",
}
ROWS = "SELECT r.n AS a, s.n AS b FROM r, s WHERE r.k = s.k"


def fresh() -> LocalPSoup:
    return LocalPSoup(CONFIG, VirtualClock(1_000 * SECOND), verify="all")


def streams(soup: LocalPSoup, options: str = "", **times: list[int]) -> LocalPSoup:
    """Create streams in event time with tuples of these seconds, each of which is also its number n."""
    for name, some in times.items():
        soup.execute(f"CREATE STREAM {name} (at TIMESTAMP NOT NULL, k BIGINT, n BIGINT) TIMESTAMP BY at {options}")
        push(soup, name, some)
    return soup


def push(soup: LocalPSoup, name: str, times: list[int], key: int = 1) -> None:
    at = pa.array([time * SECOND for time in times], pa.timestamp("us"))
    soup.push(name, pa.table({"at": at, "k": pa.array([key] * len(times), pa.int64()), "n": times}))


def rows(answer: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in answer.to_table().to_pylist()]


@pytest.fixture
def soup() -> LocalPSoup:
    return streams(fresh(), r=[0, 20, 40], s=[5])


@pytest.mark.parametrize("window", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("keep_pairs", swept([False, True], fast=(1,)), ids=["found", "kept"])
def test_rows_enter_as_the_other_stream_goes_on(soup: LocalPSoup, window: str, keep_pairs: bool) -> None:
    query = soup.register(f"{ROWS} {window}", keep_pairs=keep_pairs)

    def found() -> list[tuple[Any, ...]]:
        """The rows, which are the same whether they are asked for at NOW or `as_of` the time that NOW is."""
        answer = soup.invoke(query)
        then = soup.invoke(query, as_of=answer.completeness.now)
        assert rows(answer) == rows(then) == rows(soup.ask(f"{ROWS} {window}")) == rows(soup.invoke(query))
        return rows(answer)

    assert found() == [(0, 5)]
    soup.heartbeat("s", 20 * SECOND - 1)
    assert found() == [(0, 5)]
    soup.heartbeat("s", 20 * SECOND)
    assert found() == [(0, 5), (20, 5)], "a tuple of NOW is in the answer"
    push(soup, "s", [60], key=7)
    assert found() == [(0, 5), (20, 5), (40, 5)], "a push without a match moves NOW as well"


@pytest.mark.parametrize("keep_pairs", [False, True], ids=["found", "kept"])
def test_pairs_of_sealed_chunks_are_cut_at_now(keep_pairs: bool) -> None:
    soup = streams(fresh(), r=[*range(300)], s=[*range(100)])
    sql = "SELECT r.n AS a, s.n AS b FROM r, s WHERE r.n = s.n {} BEGIN (0) END (250)"
    query = soup.register(sql.format(""), keep_pairs=keep_pairs)
    three = soup.register("SELECT x.n FROM r AS x, s, r AS y WHERE x.n = s.n AND y.n = s.n BEGIN (0) END (250)")
    swapped = soup.register("SELECT r.n FROM s, r WHERE r.n >= s.n AND s.n > 97 BEGIN (0) END (250)")
    soup.maintain()
    for last in (99, 150, 250, 299):
        push(soup, "s", [last] * (last > 99))
        answers = [soup.invoke(query) for _ in range(3)]
        met = [n for n in (*range(100), 150, 250) if n <= last]
        assert all(rows(answer) == [(n, n) for n in met] for answer in answers), last
        assert rows(soup.invoke(three)) == [(n,) for n in met], last
        now = answers[0].completeness.now
        assert rows(soup.invoke(swapped)) == rows(soup.invoke(swapped, as_of=now)) != [], last


@pytest.mark.parametrize("other", ["[RANGE 2 SECONDS]", "[ROWS 2]", "", "[BEGIN (START) END (6)]"])
def test_the_other_window_may_be_of_any_kind(soup: LocalPSoup, other: str) -> None:
    push(soup, "s", [6, 7])
    expected = soup.ask(f"SELECT n FROM s {other}")
    for order in (f"r [BEGIN (0) END (60)], s {other}", f"s {other}, r [BEGIN (0) END (60)]"):
        query = soup.register(f"SELECT r.n AS a, s.n AS b FROM {order} WHERE r.k = s.k")
        for answer in (soup.invoke(query), soup.invoke(query, as_of=7 * SECOND)):
            assert rows(answer) == [(0, n) for (n,) in rows(expected)]
    told = soup.ask(f"SELECT r.n FROM r, s {other} WHERE r.k = s.k", window={"r": "BEGIN (0) END (60)"})
    assert {n for (n,) in rows(told)} == {0}, "a window that is asked for"


def test_groups_tables_and_plans_are_of_the_same_tuples(soup: LocalPSoup) -> None:
    groups = "SELECT r.k, count(*) AS c, sum(r.n) AS total, max(r.n) AS most FROM r, s WHERE r.k = s.k GROUP BY r.k"
    standing = soup.register(f"{groups} BEGIN (0) END (60)")
    assert rows(soup.invoke(standing)) == [(1, 1, 0, 0)]
    parameters = pa.table({"least": [0] * 40})
    for sql in (f"{ROWS} AND r.n >= ?", groups.replace("GROUP", "AND r.n >= ? GROUP")):
        many = soup.register_many(f"{sql} BEGIN (0) END (60)", parameters)
        table = soup.invoke_table(many).to_table()
        assert table.num_rows == 40 and table.equals(soup.invoke_table(many, as_of=5 * SECOND).to_table())
        assert [tuple(row.values())[1:] for row in table.to_pylist()] == rows(soup.invoke(many[0])) * 40
    explained = soup.explain(standing)
    tuples = [node.figures["tuples_in_window"] for node in explained.nodes if node.operator == "source"]
    assert tuples == [1, 1]


def test_such_an_answer_is_not_final_until_now_has_passed_the_end(soup: LocalPSoup) -> None:
    """The watermark of r is behind the end of its window, but NOW is not: more tuples of it get into the answer."""
    query = soup.register("SELECT r.n FROM r [BEGIN (0) END (30)], s [BEGIN (0) END (4)] WHERE r.k <= s.k")
    told = soup.invoke(query).completeness
    assert [(part.end, part.final) for part in told.sources] == [(30 * SECOND, False), (4 * SECOND, True)]
    assert not told.final and soup.invoke(query, as_of=told.now - 1).completeness.final  # type: ignore[operator]
    soup.heartbeat("s", 30 * SECOND)
    assert soup.invoke(query).completeness.final


def test_a_window_that_begins_after_now_is_empty_and_has_lost_nothing() -> None:
    """Of r the tuple of 20 is gone. It is later than NOW: the answer of now has not lost it."""
    soup = streams(fresh(), " RETENTION 1 ROWS", r=[0, 20, 40], s=[5])
    query = soup.register(f"{ROWS} BEGIN (10) END (60)")
    assert rows(soup.invoke(query)) == rows(soup.invoke(query, as_of=5 * SECOND)) == []
    soup.heartbeat("s", 15 * SECOND)
    for as_of in (None, 15 * SECOND):
        with pytest.raises(OutOfRange, match="accept truncation"):
            soup.invoke(query, as_of=as_of)


def test_a_stream_that_goes_on_after_it_was_idle_takes_rows_away() -> None:
    soup = streams(fresh(), "IDLE AFTER 30 SECONDS", r=[0], s=[5])
    query = soup.register(f"{ROWS} BEGIN (0) END (60)")
    soup.clock.set(1_031 * SECOND)  # type: ignore[attr-defined]
    push(soup, "r", [20, 40])
    assert rows(soup.invoke(query)) == [(0, 5), (20, 5), (40, 5)], "s is idle"
    soup.heartbeat("s", 6 * SECOND)
    assert rows(soup.invoke(query)) == [(0, 5)], "NOW is 6"


def follow_a_copy(soup: LocalPSoup) -> None:
    """Bring a copy up to date while NOW goes on, and compare it with the answer each time, also after a part of it."""
    query, met = soup.register(f"{ROWS} BEGIN (0) END (60)"), Counter[str]()
    copy, moves = Client(soup, query), [("s", 20), ("s", 39), ("s", 60), ("r", 60)]
    for name, second in (("s", 5), *moves):
        soup.heartbeat(name, second * SECOND)
        for most in (1, EVERYTHING):
            copy.compare(copy.ask(most, 1, met))
    assert len(copy.rows) == 3 and met["tuples later than NOW"] == 6


def test_a_copy_is_sent_rows_when_now_lets_them_in(soup: LocalPSoup) -> None:
    follow_a_copy(soup)


def test_a_copy_that_was_said_to_hold_later_tuples_would_lose_them(
    soup: LocalPSoup, monkeypatch: pytest.MonkeyPatch
) -> None:
    all_held = JoinedSince.all_held.fget  # type: ignore[attr-defined]

    def up_to_the_written_end(found: JoinedSince) -> HeldBox:
        """A token's box that is not cut at NOW."""
        sides = zip(found._sides, all_held(found).target, strict=True)
        return HeldBox(tuple([(low, view.next_id) for (view, _), (low, _) in sides]))

    monkeypatch.setattr(JoinedSince, "all_held", property(up_to_the_written_end))
    with pytest.raises(AssertionError, match="the answer has other rows"):
        follow_a_copy(soup)


def test_one_stream_shows_all_that_has_come() -> None:
    """NOW of one stream is never before a tuple that is released, in either kind of time."""
    soup = streams(fresh(), "LATENESS 10 SECONDS", r=[0, 20, 40])
    query = soup.register("SELECT n FROM r BEGIN (0) END (60)")
    told = soup.invoke(query)
    assert (rows(told), told.completeness.now) == ([(0,), (20,)], 30 * SECOND)
    (part,) = told.completeness.sources
    assert (part.end, part.pending_inside, part.final) == (60 * SECOND, 1, False), "a tuple that waits is in the window"
    soup.heartbeat("r", 40 * SECOND)
    assert rows(soup.invoke(query)) == [(0,), (20,), (40,)]
    soup.execute("CREATE STREAM t (n BIGINT)")
    soup.push("t", pa.table({"n": [1]}))
    assert rows(soup.ask("SELECT n FROM t BEGIN (0) END (2000)")) == [(1,)]
    soup.clock.set(900 * SECOND)  # type: ignore[attr-defined]
    pair = "SELECT x.n FROM t AS x, t AS y WHERE x.n = y.n BEGIN (0) END (2000)"
    assert rows(soup.ask("SELECT n FROM t BEGIN (0) END (2000)")) == rows(soup.ask(pair)) == [(1,)]


@pytest.mark.parametrize("window", ["[RANGE 5 SECONDS]", "[ROWS 5]", "[BEGIN (195) END (250)]"])
def test_a_join_whose_now_lies_in_the_archive_may_read_from_disk(tmp_path: Path, window: str) -> None:
    """NOW of the join is 50, far behind the tuples of r that are in memory: of r alone the window would be there."""
    with making(tmp_path, hot_bytes=1) as make:
        soup = make(CONFIG, VirtualClock(1_000 * SECOND))
        streams(soup, "RETENTION 40 ROWS ARCHIVE 1000 ROWS", r=[*range(200)], s=[50])
        soup.maintain()
        query = soup.register(f"SELECT r.n FROM r {window}, s [ROWS 1] WHERE r.k = s.k")
        snapshot = soup.engine.snapshot()
        record, view = snapshot.query(query, soup.tenant), snapshot.stream("r", soup.tenant)
        assert view.archived and view.hot_id > 60
        assert not all_in_memory(snapshot, record, soup.clock.now())
        push(soup, "s", [199], key=2)
        snapshot = soup.engine.snapshot()
        assert all_in_memory(snapshot, record, soup.clock.now())
