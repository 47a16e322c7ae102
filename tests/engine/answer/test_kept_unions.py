"""Kept answers of UNION ALL: each SELECT is brought up to date by itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from psoup.answer.invoke import Answer
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, SentAnswer
from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.published.answer_room import AnswerRoom
from psoup.sql import create_stream
from psoup.work.clock import VirtualClock
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.restarts import making
from psoup_testing.oracles.complete_answers import COMPLETE, told
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64)
UNION = (
    "SELECT a._id, a.v FROM s [{0}] AS a WHERE a.v < 50 UNION ALL SELECT b._id, b.w FROM r [{1}] AS b WHERE b.w > 40"
)
FORM = "for each SELECT, new rows are added to the kept answer"


def made(config: EngineConfig = CONFIG) -> LocalPSoup:
    """Two streams without tuples."""
    soup = LocalPSoup(config, VirtualClock(SECOND))
    soup.execute("CREATE STREAM s (v BIGINT NOT NULL, t TEXT)")
    soup.execute("CREATE STREAM r (w BIGINT, x BIGINT)")
    return soup


def push(soup: LocalPSoup, stream: str, count: int, first: int = 0) -> None:
    """Push tuples. About half of them satisfy the conditions of UNION."""
    column = "v" if stream == "s" else "w"
    soup.push(stream, pa.table({column: [number * 37 % 100 for number in range(first, first + count)]}))


def asked(soup: LocalPSoup, query: int) -> Answer:
    """An answer that was read to its end. It is the one under PARTIAL, bit for bit."""
    snapshot = soup.engine.snapshot()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(soup.engine, "_snapshot", replace(snapshot, answers=AnswerRoom(0)))
        partial = told(soup.invoke(query))
    answer = soup.invoke(query)
    assert told(answer) == partial
    return answer


def kept(soup: LocalPSoup, query: int) -> str:
    """The text of EXPLAIN about the kept answer."""
    explained = soup.explain(query).kept_answer
    assert explained is not None
    return "\n".join(explained.lines())


@pytest.mark.parametrize(
    ("left", "right"), swept([("ROWS 90", "ROWS 40"), ("BEGIN START", "ROWS 70"), ("ROWS 50", "BEGIN START")], fast=1)
)
def test_each_select_is_brought_up_to_date(left: str, right: str) -> None:
    soup = made()
    query = soup.register(UNION.format(left, right), keeping=COMPLETE)
    push(soup, "s", 100)
    assert type(asked(soup, query)) is KeepingAnswer
    for step in range(24):
        push(soup, "sr"[step % 2], (1, 17, 64, 0)[step % 4], 40 * step)
        if step % 5 == 4:
            soup.maintain()
        assert type(asked(soup, query)) is SentAnswer
        assert type(asked(soup, query)) is SentAnswer
    assert FORM in kept(soup, query)


@pytest.mark.seeded("a kept answer is not cut at BEGIN of its second stream")
def test_rows_of_the_second_select_leave_with_its_window() -> None:
    soup = made()
    query = soup.register(UNION.format("ROWS 90", "ROWS 40"), keeping=COMPLETE)
    push(soup, "s", 100)
    push(soup, "r", 100)
    asked(soup, query)
    for step in range(8):
        push(soup, "r", 13, 100 + 13 * step)
        answer = asked(soup, query)
        assert type(answer) is SentAnswer
        rows = answer.to_table().to_pylist()[-10:]
        assert min(row["_id"] for row in rows) >= 100 + 13 * (step + 1) - 40


def test_the_messages_of_a_select_without_a_change_are_sent_again() -> None:
    soup = made()
    query = soup.register(UNION.format("ROWS 90", "ROWS 40"), keeping=COMPLETE)
    push(soup, "s", 100)
    push(soup, "r", 100)
    asked(soup, query)
    first = list(asked(soup, query).messages())
    push(soup, "r", 9)
    second = list(asked(soup, query).messages())
    assert len(first) == len(second) == 2
    assert first[0] is second[0]
    assert first[1] is not second[1]
    assert list(asked(soup, query).messages()) == second


def test_a_stream_in_both_selects_brings_a_new_row_once_to_each() -> None:
    soup = made()
    query = soup.register(
        "SELECT v FROM s [ROWS 50] WHERE v < 60 UNION ALL SELECT v FROM s [ROWS 20] WHERE v > 30", keeping=COMPLETE
    )
    push(soup, "s", 80)
    asked(soup, query)
    soup.push("s", pa.table({"v": [45]}))
    answer = asked(soup, query)
    assert type(answer) is SentAnswer
    assert answer.to_table().column("v").to_pylist().count(45) >= 2


@pytest.mark.parametrize(
    "sql",
    swept(
        [
            "SELECT t FROM s [ROWS 9] UNION ALL SELECT t FROM s [ROWS 5]",
            "SELECT v + 1 AS v FROM s [ROWS 9] UNION ALL SELECT w FROM r [ROWS 5]",
            "SELECT v FROM s [ROWS 9] UNION SELECT w FROM r [ROWS 5]",
            "SELECT v FROM s [ROWS 9] UNION ALL (SELECT w FROM r [ROWS 5] ORDER BY w LIMIT 2)",
            "SELECT v FROM s [ROWS 9] UNION ALL SELECT w FROM r [ROWS 5] ORDER BY v",
            "SELECT v FROM s [ROWS 9] UNION ALL SELECT 7",
            "SELECT u.v FROM (SELECT v FROM s [ROWS 9] UNION ALL SELECT w FROM r [ROWS 5]) u WHERE u.v > 20",
        ],
        fast=range(0, 7, 3),
    ),
)
def test_other_unions_are_sent_again_until_an_event(sql: str) -> None:
    soup = made()
    query = soup.register(sql, keeping=COMPLETE)
    for step in range(4):
        for stream in "sr":
            push(soup, stream, 7, 7 * step)
        assert type(asked(soup, query)) is KeepingAnswer
        assert type(asked(soup, query)) is SentAnswer
    assert "until a stream or table of it has an event" in kept(soup, query)


def test_a_union_with_null_is_evaluated() -> None:
    soup = made()
    query = soup.register("SELECT v FROM s [ROWS 40] UNION ALL SELECT w FROM r [ROWS 40]", keeping=COMPLETE)
    push(soup, "s", 50)
    push(soup, "r", 50)
    asked(soup, query)
    soup.push("r", pa.table({"w": [None, 3]}, pa.schema([("w", pa.int64())])))
    assert type(asked(soup, query)) is KeepingAnswer
    assert type(asked(soup, query)) is SentAnswer
    push(soup, "s", 5)
    assert type(asked(soup, query)) is KeepingAnswer
    push(soup, "r", 150)
    assert type(asked(soup, query)) is KeepingAnswer, "the chunk with NULL has left the window"
    push(soup, "r", 5)
    assert type(asked(soup, query)) is SentAnswer


def test_a_union_is_kept_by_a_reader_that_came_late() -> None:
    soup = made()
    query = soup.register(UNION.format("ROWS 90", "ROWS 40"), keeping=COMPLETE)
    push(soup, "s", 100)
    push(soup, "r", 100)
    waiting = soup.invoke(query).lean()
    push(soup, "s", 9, 100)
    assert waiting.to_table().num_rows == waiting.matched
    assert type(asked(soup, query)) is SentAnswer


def test_a_union_that_changes_too_much_is_given_up() -> None:
    soup = made(EngineConfig(chunk_rows=1_024))
    query = soup.register("SELECT v FROM s [ROWS 900] UNION ALL SELECT w FROM r [ROWS 900]", keeping=COMPLETE)
    for stream in "sr":
        push(soup, stream, 1_000)
    asked(soup, query)
    for stream in "sr":
        push(soup, stream, 500)
    assert type(asked(soup, query)) is Answer
    assert "1,000 rows came and 1,000 left between two invocations, and it holds 1,800" in kept(soup, query)


def test_values_that_cannot_be_computed_are_counted() -> None:
    soup = made()
    query = soup.register("SELECT v FROM s [ROWS 40] WHERE 10 / v > 1 UNION ALL SELECT w FROM r", keeping=COMPLETE)
    for step in range(6):
        push(soup, "sr"[step % 2], 40, 40 * step)
        asked(soup, query)


def test_readers_of_older_snapshots_get_their_own_union() -> None:
    soup = made()
    query = soup.register(UNION.format("ROWS 90", "ROWS 40"), keeping=COMPLETE)
    snapshots = []
    for step in range(4):
        push(soup, "sr"[step % 2], 70, 70 * step)
        snapshots.append(soup.engine.snapshot())
    for number in (3, 1, 1, 3, 0, 2, 2, 3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(soup.engine, "_snapshot", snapshots[number])
            asked(soup, query)


def test_history_that_is_attached_below_a_kept_union_comes(tmp_path: Path) -> None:
    with making(tmp_path / "store") as made_on_disk:
        soup = made_on_disk(CONFIG, VirtualClock(1_000 * SECOND))
        sql = "CREATE STREAM s (at TIMESTAMP NOT NULL, v BIGINT NOT NULL) TIMESTAMP BY at"
        soup.execute(sql)
        union = "SELECT _id, v FROM s WHERE v < 50 UNION ALL SELECT v, _id FROM s [ROWS 10]"
        query = soup.register(union, keeping=COMPLETE)
        soup.push("s", _timed(range(500, 540)))
        soup.heartbeat("s", 600 * SECOND)
        assert asked(soup, query).matched == asked(soup, query).matched == 30
        times = [second * SECOND for second in range(100, 130)]
        write(tmp_path / "job", create_stream(sql), _timed(range(100, 130)), times, [])
        attach(soup, "s", "job", tmp_path / "job")
        assert asked(soup, query).matched == 45


def _timed(seconds: range) -> pa.Table:
    at = pa.array([second * SECOND for second in seconds], pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "v": [second % 2 * 60 for second in seconds]})
