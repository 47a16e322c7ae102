"""Answers of joins: NOW of several streams, a window for each source, idle streams, order, bounds, errors, explain.

Random joins are in `tests/oracle/test_oracle_joins.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from psoup.answer.ask import ask, bind_question
from psoup.answer.invoke import invoke
from psoup.config import EngineConfig
from psoup.errors import FailedPrecondition, InvalidInput, OutOfRange, ResourceExhausted
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup.work.read_budget import ReadBudget
from psoup_service.host.shared_bytes import SharedBytes
from psoup_testing.engines.restarts import making

SECOND = 1_000_000
BOTH = "SELECT r.k, a, b FROM r, s WHERE r.k = s.k"


@pytest.fixture
def soup() -> LocalPSoup:
    """Two streams in system time: r has k 0 to 9 twice over, s has k 0, 3, 6, 9 and NULL."""
    made = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100), verify="all")
    made.execute("CREATE STREAM r (k BIGINT, a BIGINT)")
    made.execute("CREATE STREAM s (k BIGINT, b TEXT)")
    made.push("r", pa.table({"k": [*range(10)] * 2, "a": range(20)}))
    made.push("s", pa.table({"k": [0, 3, 6, 9, None], "b": [*"abcde"]}))
    return made


def timed(idle: str = "", **streams: list[int]) -> LocalPSoup:
    """Streams in event time, with tuples of these seconds; the clock is at 1,000 seconds."""
    made = LocalPSoup(EngineConfig(chunk_rows=64, ahead=10**12), VirtualClock(1_000 * SECOND), verify="all")
    for name, times in streams.items():
        made.execute(f"CREATE STREAM {name} (at TIMESTAMP NOT NULL, k BIGINT) TIMESTAMP BY at {idle}")
        push(made, name, times)
    return made


def push(soup: LocalPSoup, name: str, times: list[int]) -> None:
    at = pa.array([time * SECOND for time in times], pa.timestamp("us"))
    soup.push(name, pa.table({"at": at, "k": pa.array([1] * len(times), pa.int64())}))


def rows(answer: Any) -> list[tuple[Any, ...]]:
    table = answer.to_table()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def pairs(soup: LocalPSoup, sql: str, **options: Any) -> list[tuple[int, int]]:
    """The seconds of both tuples of each row."""
    return [(a.second + 60 * a.minute, b.second + 60 * b.minute) for a, b in rows(soup.ask(sql, **options))]


TIMES = "SELECT x.at AS a, y.at AS b FROM x, y WHERE x.k = y.k"


def test_rows_come_in_the_order_of_from(soup: LocalPSoup) -> None:
    expected = [
        (k, a, b) for a, k in enumerate([*range(10)] * 2) for s, b in zip([0, 3, 6, 9], "abcd", strict=True) if s == k
    ]
    query = soup.register(BOTH)
    assert rows(soup.invoke(query)) == rows(soup.invoke(query).lean()) == rows(soup.ask(BOTH)) == expected
    assert rows(soup.ask(f"{BOTH} ORDER BY b DESC, a LIMIT 3 OFFSET 1")) == [(9, 19, "d"), (6, 6, "c"), (6, 16, "c")]
    assert rows(soup.ask("SELECT DISTINCT r.k FROM r, s WHERE r.k = s.k AND a > 4")) == [(6,), (9,), (0,), (3,)]
    assert rows(soup.ask("SELECT r._id, s._id AS j FROM r, s WHERE a > 18 LIMIT 3 OFFSET 1")) == [
        (19, i) for i in (1, 2, 3)
    ]


def test_batches_are_as_small_as_they_are_wanted(soup: LocalPSoup) -> None:
    answer = soup.ask(BOTH)
    sizes = [batch.num_rows for batch in answer.batches(3)]
    assert max(sizes) == 3
    assert sum(sizes) == 8
    assert answer.schema == pa.schema([("k", pa.int64()), ("a", pa.int64()), ("b", pa.string())])
    assert pa.Table.from_batches(list(answer.batches(3))).equals(answer.to_table())


@pytest.mark.seeded("LIMIT comes before ORDER BY")
def test_pages_of_many_rows_follow_one_another() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100))
    soup.execute("CREATE STREAM r (k BIGINT)")
    soup.push("r", pa.table({"k": [1] * 70}))
    sql = "SELECT x._id AS i, y._id AS j FROM r x, r y WHERE x.k = y.k"
    every = [(i, j) for i in range(70) for j in range(70)]
    assert rows(soup.ask(sql)) == every
    for skip in (1_000, 2_100, 4_880):
        assert rows(soup.ask(f"{sql} LIMIT 1100 OFFSET {skip}")) == every[skip : skip + 1_100]
    assert rows(soup.ask(f"{sql} ORDER BY j LIMIT 2 OFFSET 75")) == [(5, 1), (6, 1)]


def test_few_rows_of_a_long_side_are_gathered_from_their_chunks() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100))
    soup.execute("CREATE STREAM long (k BIGINT, t TEXT)")
    soup.execute("CREATE STREAM few (k BIGINT)")
    soup.push("long", pa.table({"k": range(5_000), "t": [f"t{i}" for i in range(5_000)]}))
    soup.push("few", pa.table({"k": [4_900, 70, 4_900, 3]}))
    answer = soup.ask("SELECT few._id, t, long.k, long._time FROM few, long WHERE few.k = long.k")
    assert [row[:3] for row in rows(answer)] == [
        (0, "t4900", 4_900), (1, "t70", 70), (2, "t4900", 4_900), (3, "t3", 3)
    ]  # fmt: skip


def test_a_plain_query_takes_windows_by_the_name_of_its_stream(soup: LocalPSoup) -> None:
    query = soup.register("SELECT a FROM r WHERE k = 9")
    assert rows(soup.invoke(query, window={"R": "BEGIN (NOW - 5 ROWS)"})) == [(19,)]
    with pytest.raises(InvalidInput, match="its sources are called r"):
        soup.invoke(query, window={"s": "BEGIN (START)"})


def test_another_window_is_for_all_sources_or_by_name(soup: LocalPSoup) -> None:
    query = soup.register("SELECT a, b FROM r AS x [ROWS 15], s WHERE x.k = s.k")
    assert [a for a, _ in rows(soup.invoke(query))] == [6, 9, 10, 13, 16, 19]
    assert [a for a, _ in rows(soup.invoke(query, window={"x": "BEGIN (NOW - 4 ROWS)"}))] == [16, 19]
    assert rows(soup.invoke(query, window={"X": "BEGIN (START)", "s": "BEGIN (NOW - 3 ROWS)"})) == [
        (6, "c"), (9, "d"), (16, "c"), (19, "d")
    ]  # fmt: skip
    assert rows(soup.invoke(query, window="BEGIN (NOW - 3 ROWS)")) == [(19, "d")]
    with pytest.raises(InvalidInput, match="no source 'r'; its sources are called x, s") as caught:
        soup.invoke(query, window={"r": "BEGIN (START)"})
    assert caught.value.reason == "UNKNOWN_SOURCE"
    with pytest.raises(InvalidInput, match="named twice, in other letters; its sources are called x, s"):
        soup.invoke(query, window={"x": "BEGIN (NOW - 4 ROWS)", "X": "BEGIN (START)"})


@pytest.mark.seeded("NOW is the greatest watermark")
def test_now_is_the_least_watermark_and_rows_are_counted_up_to_it() -> None:
    """
    x   1 2 3 4 5 | 8 9         NOW of both: 5
    y   1     4 5 |             ROWS 2 of x: 4 5
    """
    soup = timed(x=[1, 2, 3, 4, 5, 8, 9], y=[1, 4, 5])
    answer = soup.ask(TIMES)
    assert answer.completeness.now == 5 * SECOND
    assert {a for a, _ in pairs(soup, TIMES)} == {1, 2, 3, 4, 5}
    assert [part.watermark for part in answer.completeness.sources] == [9 * SECOND, 5 * SECOND]
    assert not answer.completeness.final
    some = "SELECT x.at AS a, y.at AS b FROM x [ROWS 2], y [ROWS 1] WHERE x.k = y.k"
    assert pairs(soup, some) == [(4, 5), (5, 5)]
    assert pairs(soup, some, as_of=4 * SECOND) == [(3, 4), (4, 4)]
    with pytest.raises(OutOfRange, match="lies after NOW"):
        soup.ask(TIMES, as_of=6 * SECOND)
    assert soup.ask(f"{TIMES} BEGIN (START) END (3)").completeness.final
    assert not soup.ask(f"{TIMES} BEGIN (START) END (7)").completeness.final


@pytest.mark.seeded("END is exclusive for one source")
@pytest.mark.seeded("a source has the window of another")
def test_a_window_of_time_ends_at_the_common_now_for_each_source() -> None:
    soup = timed(x=[1, 3, 5, 9], y=[2, 4, 6, 7])
    sql = "SELECT x.at AS a, y.at AS b FROM x [RANGE 4 SECONDS], y [RANGE 1 SECOND] WHERE x.k = y.k"
    assert pairs(soup, sql) == [(3, 6), (3, 7), (5, 6), (5, 7)]


def test_an_idle_stream_is_left_out_of_now_and_named() -> None:
    soup = timed("IDLE AFTER 30 SECONDS", x=[1, 2, 3], y=[1, 2])
    soup.clock.set(1_031 * SECOND)  # type: ignore[attr-defined]
    assert soup.ask(TIMES).completeness.now == 2 * SECOND, "all are idle: the least of all counts"
    assert not any(part.idle for part in soup.ask(TIMES).completeness.sources)
    push(soup, "x", [50])
    told = soup.ask(f"{TIMES} BEGIN (START) END (1)").completeness
    assert told.now == 50 * SECOND
    assert [part.idle for part in told.sources] == [False, True]
    assert [part.final for part in told.sources] == [True, False]
    assert pairs(soup, TIMES)[-1] == (50, 2)
    push(soup, "y", [40])
    assert soup.ask(TIMES).completeness.now == 40 * SECOND, "NOW steps back when the stream wakes"
    assert pairs(soup, TIMES)[-1] == (3, 40)


def test_an_answer_given_once_more_has_no_tuple_that_came_since() -> None:
    soup = timed("IDLE AFTER 30 SECONDS", x=[1, 2, 3], y=[1, 2])
    query = soup.register(TIMES)
    soup.clock.set(1_031 * SECOND)  # type: ignore[attr-defined]
    push(soup, "x", [50])
    first = soup.invoke(query)
    push(soup, "y", [40])  # it was idle, and NOW was 50 without it
    now = first.completeness.now
    again = invoke(
        soup.engine.snapshot(), query, tenant=soup.tenant, now=soup.clock.now(), as_of=now, ranges=first.ranges
    )
    assert rows(again) == rows(first) != []
    assert again.ranges == first.ranges


def test_a_heartbeat_that_moves_no_watermark_is_heard() -> None:
    soup = timed("IDLE AFTER 30 SECONDS", x=[1, 2, 3], y=[1, 2])
    soup.clock.set(1_020 * SECOND)  # type: ignore[attr-defined]
    soup.heartbeat("y", 1 * SECOND)
    push(soup, "x", [4])
    soup.clock.set(1_045 * SECOND)  # type: ignore[attr-defined]
    assert soup.ask(TIMES).completeness.now == 2 * SECOND
    soup.clock.set(1_050 * SECOND + 1)  # type: ignore[attr-defined]
    push(soup, "x", [5])
    assert soup.ask(TIMES).completeness.now == 5 * SECOND


def test_a_stream_that_has_no_time_yet_holds_now() -> None:
    soup = timed(x=[1, 2])
    soup.execute("CREATE STREAM y (at TIMESTAMP NOT NULL, k BIGINT) TIMESTAMP BY at")
    answer = soup.ask(TIMES)
    assert answer.completeness.now is None
    assert rows(answer) == []


def test_truncation_is_refused_and_told_per_source() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100))
    soup.execute("CREATE STREAM r (k BIGINT) RETENTION 100 ROWS")
    soup.execute("CREATE STREAM s (k BIGINT)")
    soup.push("r", pa.table({"k": range(300)}))
    soup.push("s", pa.table({"k": range(300)}))
    sql = "SELECT r.k FROM r, s WHERE r.k = s.k"
    assert len(rows(soup.ask(sql))) == 100
    wide = {"r": "BEGIN (NOW - 200 ROWS)"}
    with pytest.raises(OutOfRange, match="stream 'r'"):
        soup.ask(sql, window=wide)
    answer = soup.ask(sql, window=wide, accept_truncation=True)
    assert [part.truncated for part in answer.completeness.sources] == [True, False]
    assert len(rows(answer)) == 100


def test_errors_of_conditions_over_several_sources_are_counted_when_the_answer_is_read(soup: LocalPSoup) -> None:
    answer = soup.ask("SELECT a FROM r, s WHERE r.k = s.k AND CAST(b AS BIGINT) + a > 3")
    assert answer.errors == 0
    assert rows(answer) == []
    assert (answer.errors, answer.completeness.errors) == (8, 0)
    assert rows(answer) == []
    assert answer.errors == 8, "read again, counted again from the start"


def test_values_that_cannot_be_computed_are_null_and_counted(soup: LocalPSoup) -> None:
    answer = soup.ask("SELECT CAST(b AS BIGINT) + a AS c FROM r, s WHERE r.k = s.k ORDER BY a LIMIT 2")
    assert rows(answer) == [(None,), (None,)]
    assert answer.select_errors == 2


def test_the_read_of_a_join_is_bounded(soup: LocalPSoup) -> None:
    few = LocalPSoup(EngineConfig(chunk_rows=64, join_pairs=1_000), VirtualClock(100))
    few.execute("CREATE STREAM r (k BIGINT)")
    few.push("r", pa.table({"k": [1] * 60}))
    with pytest.raises(ResourceExhausted, match="join_pairs") as caught:
        few.ask("SELECT x.k FROM r x, r y WHERE x.k = y.k").to_table()
    assert caught.value.reason == "JOIN_BUDGET"
    small = LocalPSoup(EngineConfig(chunk_rows=64, join_bytes=10_000), VirtualClock(100))
    small.execute("CREATE STREAM r (t TEXT)")
    small.push("r", pa.table({"t": ["x" * 1_000] * 60}))
    with pytest.raises(ResourceExhausted, match="join_mib"):
        small.ask("SELECT x._id FROM r x, r y WHERE x.t || '' = y.t").to_table()

    class Left(Exception):
        pass

    def gone() -> None:
        raise Left

    snapshot = soup.engine.snapshot()
    question = bind_question(snapshot, BOTH, tenant=soup.tenant).query
    budget = ReadBudget()
    answer = ask(snapshot, question, tenant=soup.tenant, now=100, budget=budget)
    budget.ask = gone
    with pytest.raises(Left):
        answer.to_table()
    assert budget.held == 0


def test_what_joins_hold_is_bounded_for_all_readers_together() -> None:
    soup, shared = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100)), SharedBytes(400_000)
    soup.execute("CREATE STREAM r (k BIGINT)")
    soup.push("r", pa.table({"k": [1] * 2_000}))
    question = bind_question(soup.engine.snapshot(), "SELECT x.k FROM r x, r y WHERE x.k = y.k", tenant=soup.tenant)

    def stalled() -> Any:
        budget = ReadBudget(shared=shared)
        return ask(soup.engine.snapshot(), question.query, tenant=soup.tenant, now=100, budget=budget).batches(10)

    readers = [stalled() for _ in range(3)]
    for reader in readers:
        next(reader)
    assert 3 * 50_000 < shared.used < 400_000
    rest = shared.limit - shared.used
    shared.take(rest)
    with pytest.raises(ResourceExhausted, match="a join needs") as caught:
        next(stalled())
    shared.give_back(rest)
    assert caught.value.reason == "SORTS_BUDGET"
    for reader in readers:
        reader.close()
    assert shared.used == 0


def test_a_sort_is_bounded_and_gives_back_what_it_held() -> None:
    soup = LocalPSoup(EngineConfig(chunk_rows=64, sort_rows=100), VirtualClock(100))
    soup.execute("CREATE STREAM r (k BIGINT)")
    soup.push("r", pa.table({"k": [1] * 20}))
    sql = "SELECT x._id AS i, y._id AS j FROM r x, r y WHERE x.k = y.k ORDER BY i DESC, j"
    answer = soup.ask(f"{sql} LIMIT 2")
    assert rows(answer) == [(19, 0), (19, 1)]
    assert answer.budget.held == 0
    with pytest.raises(ResourceExhausted, match="sort_rows"):
        soup.ask(sql).to_table()


def test_a_question_is_bound_anew_when_any_of_its_streams_has_changed(soup: LocalPSoup) -> None:
    assert len(rows(soup.ask(BOTH))) == 8
    soup.execute("DROP STREAM s")
    soup.execute("CREATE STREAM s (k BIGINT, b BIGINT)")
    soup.push("s", pa.table({"k": [4], "b": [7]}))
    assert rows(soup.ask(BOTH)) == [(4, 4, 7), (4, 14, 7)]

    question = bind_question(soup.engine.snapshot(), BOTH, tenant=soup.tenant).query
    soup.execute("ALTER STREAM s ADD COLUMN c BIGINT")
    with pytest.raises(FailedPrecondition, match="'s' was changed"):
        ask(soup.engine.snapshot(), question, tenant=soup.tenant, now=100)


def test_likeness_changes_with_the_matches_of_any_side(soup: LocalPSoup) -> None:
    query = soup.register("SELECT a FROM r, s WHERE r.k = s.k AND a > 3")
    before = soup.invoke(query)
    assert before.likeness == "(4, 19)/16, (0, 4)/5"
    assert before.matched == 21
    soup.push("s", pa.table({"k": [1], "b": ["f"]}))
    assert soup.invoke(query).likeness == "(4, 19)/16, (0, 5)/6"


def test_an_answer_holds_the_chunks_of_all_its_streams(soup: LocalPSoup) -> None:
    views = soup.engine.snapshot().by_id
    held = soup.ask(BOTH).chunks
    assert [stream_id for stream_id, _ in held] == [view.stream_id for view in views.values()]
    assert all(len(chunks) == 1 for _, chunks in held)


def test_explain_shows_sides_route_and_steps(soup: LocalPSoup) -> None:
    soup.register("SELECT * FROM r WHERE a > 3")
    query = soup.register("SELECT a FROM r AS x, s WHERE x.k = s.k AND a > 3")
    told = soup.explain(query)
    first, second = told.sources
    assert (first.stream, first.alias, first.matches_in_window, first.shared_by) == ("r", "x", 16, 2)
    assert (second.stream, second.matches_in_window) == ("s", 5)
    (join,) = [node for node in told.nodes if node.operator == "join"]
    assert join.figures["rows"] == len(rows(soup.invoke(query))) == 6
    assert join.facts["route"] == "x, s"
    assert join.figures["step_1_out"] == 6
    text = "\n".join(told.lines("q"))
    assert "query q on streams r AS x, s" in text
    assert "| 6 tuples from" in text


def test_what_is_on_disk_is_bounded_for_all_sides_together(tmp_path: Path) -> None:
    with making(tmp_path) as made:
        soup = made(EngineConfig(chunk_rows=64, archive_rows=700), VirtualClock(100))
        for name in "rs":
            soup.execute(f"CREATE STREAM {name} (k BIGINT) RETENTION 64 ROWS ARCHIVE 10000 ROWS")
            soup.push(name, pa.table({"k": range(640)}))
        soup.maintain()
        sql = "SELECT r.k FROM r, s WHERE r.k = s.k AND r.k + 0 > 100 AND s.k + 0 > 200"
        on_disk = [view.hot_id - view.first_id for view in soup.engine.snapshot().by_id.values()]
        assert all(350 < count < 700 for count in on_disk)
        assert len(rows(soup.ask(sql, window="BEGIN (NOW - 300 ROWS)"))) == 300
        with pytest.raises(
            ResourceExhausted, match=rf"{on_disk[0]:,} of stream r, {on_disk[1]:,} of stream s"
        ) as caught:
            soup.ask(sql)
        assert caught.value.reason == "ARCHIVE_BUDGET"
        query = soup.register(sql)
        with pytest.raises(ResourceExhausted, match="psoup spark cover"):
            soup.invoke(query)
        assert [row[0] for row in rows(soup.ask(sql, window={"r": "BEGIN (NOW - 100 ROWS)"}))] == [*range(540, 640)]
        assert "| an invocation is refused: 1,152 tuples of the windows are on disk" in "\n".join(
            soup.explain(query).lines()
        )


def test_columns_on_disk_are_read_once_however_many_pieces_an_answer_has(tmp_path: Path) -> None:
    with making(tmp_path, cache_bytes=0) as made:
        soup = made(EngineConfig(chunk_rows=64), VirtualClock(100))
        for name in "rs":
            soup.execute(f"CREATE STREAM {name} (k BIGINT, x BIGINT) RETENTION 64 ROWS ARCHIVE 10000 ROWS")
            soup.push(name, pa.table({"k": [n % 100 for n in range(2_000)], "x": [*range(2_000)]}))
        soup.maintain()
        on_disk = [view.archived for view in soup.engine.snapshot().by_id.values()]
        before = soup.store.archive_reads
        answer = soup.ask("SELECT r.k, r.x, s.x AS y FROM r, s WHERE r.k = s.k")
        assert answer.to_table().num_rows == 40_000
        assert soup.store.archive_reads - before == 2 * sum(on_disk), "k and x of each chunk"
        reads = soup.store.archive_reads
        first = soup.ask("SELECT r.k, r.x, s.x AS y FROM r, s WHERE r.k = s.k LIMIT 3")
        assert rows(first) == [(0, 0, 0), (0, 0, 100), (0, 0, 200)]
        assert soup.store.archive_reads - reads < sum(on_disk) + 6, "k of each chunk, x of those with the first rows"
