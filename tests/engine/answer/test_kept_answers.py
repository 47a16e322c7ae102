"""Answers of COMPLETE queries: when they are sent again, brought up to date, evaluated anew, and given up."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from psoup.answer.figures.bill import memory_bill
from psoup.answer.invoke import Answer, invoke
from psoup.answer.kept_answers.sent_answers import KeepingAnswer, SentAnswer
from psoup.config import EngineConfig
from psoup.events.tenants import AlterTenant, CreateTenant, Quotas
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.plan.amounts import Amount, Keeping
from psoup.published.answer_room import AnswerRoom
from psoup.sql import create_stream
from psoup.work.clock import VirtualClock
from psoup_testing.engines.attachments import attach, write
from psoup_testing.engines.restarts import making
from psoup_testing.oracles.complete_answers import COMPLETE, told
from psoup_testing.suite.sweeps import swept

CONFIG = EngineConfig(chunk_rows=64)
ROWS = "SELECT _id, v FROM s WHERE v < 50 BEGIN (NOW - 200 ROWS)"


def made(config: EngineConfig = CONFIG, columns: str = "v BIGINT NOT NULL, t TEXT") -> LocalPSoup:
    """A stream `s` without tuples."""
    soup = LocalPSoup(config, VirtualClock(SECOND))
    soup.execute(f"CREATE STREAM s ({columns})")
    return soup


def push(soup: LocalPSoup, count: int, first: int = 0, stream: str = "s") -> None:
    """Push tuples. Half of them match `ROWS`."""
    numbers = np.arange(first, first + count)
    soup.push(stream, pa.table({"v": numbers * 37 % 100, "t": (numbers % 7).astype(str)}))


def asked(soup: LocalPSoup, query: int) -> Answer:
    """An answer that was read to its end. It is the one under PARTIAL."""
    snapshot = soup.engine.snapshot()
    bare = replace(snapshot, answers=AnswerRoom(0))
    partial = told(invoke(bare, query, tenant=soup.tenant, now=soup.clock.now()))
    answer = soup.invoke(query)
    assert told(answer) == partial
    return answer


def kept(soup: LocalPSoup, query: int) -> str:
    """The text of EXPLAIN about the kept answer."""
    explained = soup.explain(query)
    assert explained.kept_answer is not None
    assert [line for line in explained.lines() if line.startswith("  kept ")]
    return "\n".join(explained.kept_answer.lines())


def test_the_same_bytes_are_sent_again_while_nothing_comes_or_leaves() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=COMPLETE)
    push(soup, 300)
    assert "none is kept yet" in kept(soup, query)
    assert type(asked(soup, query)) is KeepingAnswer
    first, second = asked(soup, query), asked(soup, query)
    assert type(first) is type(second) is SentAnswer
    assert next(iter(first.messages())) is next(iter(second.messages()))
    assert "100 rows" in kept(soup, query)
    push(soup, 0)
    soup.push("s", pa.table({"v": [99]}))  # it does not match, and a tuple leaves that did not, either
    assert asked(soup, query).completeness.sequence == soup.engine.snapshot().sequence


@pytest.mark.seeded("a kept answer is not cut at BEGIN")
def test_rows_that_left_the_window_leave_the_kept_answer() -> None:
    soup = made()
    query = soup.register(ROWS, keeping=COMPLETE)
    push(soup, 300)
    asked(soup, query)
    for step in range(20):
        push(soup, 13, 300 + 13 * step)
        answer = asked(soup, query)
        assert type(answer) is SentAnswer
        ids = answer.to_table().column("_id").to_numpy()
        assert ids.min() >= 300 + 13 * (step + 1) - 200


@pytest.mark.parametrize(
    "select",
    [
        "SELECT v, t FROM s WHERE v < 50",
        "SELECT v + 1 AS w, t FROM s WHERE v < 50",
        "SELECT DISTINCT t FROM s WHERE v < 50",
        "SELECT v, _id FROM s WHERE v < 50 ORDER BY v DESC, t LIMIT 7",
        "SELECT _id FROM s WHERE v < 50 LIMIT 9 OFFSET 3",
        "SELECT * FROM s",
    ],
)
@pytest.mark.parametrize(
    "window", swept(["BEGIN (NOW - 100 ROWS)", "BEGIN (START)", "BEGIN (NOW - 90 ROWS) END (NOW - 9 ROWS)"], fast=1)
)
def test_selections_of_every_form_are_brought_up_to_date(select: str, window: str) -> None:
    soup = made()
    head = select.split(" ORDER BY")[0].split(" LIMIT")[0]
    query = soup.register(f"{head} {window}{select[len(head) :]}", keeping=COMPLETE)
    for step in range(30):
        push(soup, (0, 1, 17, 64)[step % 4], 40 * step)
        if step % 5 == 4:
            soup.maintain()
        asked(soup, query)
        assert type(asked(soup, query)) is SentAnswer


@pytest.mark.seeded("history that is attached below the kept answer is ignored")
def test_history_that_is_attached_below_a_kept_answer_comes(tmp_path: Path) -> None:
    with making(tmp_path / "store") as made_on_disk:
        soup = made_on_disk(CONFIG, VirtualClock(1_000 * SECOND))
        sql = "CREATE STREAM s (at TIMESTAMP NOT NULL, v BIGINT NOT NULL) TIMESTAMP BY at"
        soup.execute(sql)
        query = soup.register("SELECT _id, v FROM s WHERE v < 50 BEGIN (START)", keeping=COMPLETE)
        soup.push("s", _timed(range(500, 540)))
        soup.heartbeat("s", 600 * SECOND)
        assert asked(soup, query).matched == asked(soup, query).matched == 20
        times = [second * SECOND for second in range(100, 130)]
        write(tmp_path / "job", create_stream(sql), _timed(range(100, 130)), times, [])
        attach(soup, "s", "job", tmp_path / "job")
        answer = asked(soup, query)
        assert answer.matched == 35
        assert answer.to_table().column("_id").to_pylist()[0] < 0


def _timed(seconds: range) -> pa.Table:
    numbers = np.array(seconds)
    at = pa.array(numbers * SECOND, pa.timestamp("us", "UTC"))
    return pa.table({"at": at, "v": numbers % 2 * 60})


@pytest.mark.seeded("a kept answer misses the end of a table's version")
def test_a_version_that_ends_changes_a_kept_answer() -> None:
    soup = made()
    soup.execute("CREATE TABLE p (k BIGINT PRIMARY KEY, w BIGINT)")
    soup.push("p", pa.table({"k": [1, 2], "w": [10, 20]}))
    push(soup, 10)
    texts = ("SELECT k, w FROM p WHERE w < 100", "SELECT s.v, p.w FROM s [ROWS 20], p WHERE s.v % 3 = p.k")
    queries = [soup.register(text, keeping=COMPLETE) for text in texts]
    for query in queries:
        asked(soup, query)
        assert type(asked(soup, query)) is SentAnswer
    soup.push("p", pa.table({"k": [1], "w": [11]}))
    for query in queries:
        answer = asked(soup, query)
        assert type(answer) is KeepingAnswer
        assert set(answer.to_table().column("w").to_pylist()) == {11, 20}


def test_joins_are_kept_until_the_next_event() -> None:
    soup = made()
    soup.execute("CREATE STREAM r (k BIGINT, w BIGINT)")
    queries = [
        soup.register(f"SELECT s.v, r.w FROM s [ROWS 90], r [{window}] WHERE s.v = r.k", keeping=COMPLETE)
        for window in ("ROWS 150", "BEGIN START")
    ]
    for step in range(8):
        push(soup, (0, 9, 31)[step % 3], 40 * step)
        soup.push("r", pa.table({"k": [0, 37, step], "w": [None, 5, step]}))
        for query in queries:
            asked(soup, query)
            for _ in range(3):
                assert type(asked(soup, query)) is SentAnswer
    assert "until a stream or table of it has an event" in kept(soup, queries[0])


def test_other_plans_are_sent_again_until_an_event_of_their_streams() -> None:
    soup = made()
    soup.execute("CREATE STREAM r (v BIGINT)")
    soup.execute("CREATE STREAM other (v BIGINT)")
    push(soup, 50)
    soup.push("r", pa.table({"v": [3, 4]}))
    query = soup.register("SELECT s.v FROM s [ROWS 40] WHERE s.v NOT IN (SELECT r.v FROM r [ROWS 2])", keeping=COMPLETE)
    asked(soup, query)
    soup.push("other", pa.table({"v": [1]}))
    answer = asked(soup, query)
    assert type(answer) is SentAnswer
    assert answer.completeness.sequence == soup.engine.snapshot().sequence
    assert "until a stream or table of it has an event" in kept(soup, query)
    soup.push("r", pa.table({"v": [5]}))
    assert type(asked(soup, query)) is KeepingAnswer


def test_folds_and_now_are_answered_as_under_partial() -> None:
    soup = made()
    push(soup, 50)
    counted = soup.register("SELECT count(*) AS n FROM s BEGIN (NOW - 40 ROWS)", keeping=COMPLETE)
    dated = soup.register("SELECT v, now() AS at FROM s", keeping=COMPLETE)
    for query, said in ((counted, "as PARTIAL, which keeps the folds"), (dated, "shows now()")):
        assert type(asked(soup, query)) is type(asked(soup, query)) is Answer
        assert said in kept(soup, query)
    assert len(soup.engine.snapshot().answers) == 0


def test_other_windows_times_and_amounts_do_not_touch_the_kept_answer() -> None:
    soup = made()
    query, partial = soup.register(ROWS, keeping=COMPLETE), soup.register(ROWS)
    inactive = soup.register(ROWS, keeping=Keeping(COMPLETE.amount, active=False))
    push(soup, 300)
    asked(soup, query)
    for answer in (
        soup.invoke(query, as_of=soup.clock.now()),
        soup.invoke(query, window="BEGIN (NOW - 10 ROWS)"),
        soup.invoke(partial),
        soup.invoke(inactive),
    ):
        assert type(answer) is Answer
    assert soup.explain(partial).kept_answer is None
    assert soup.explain(inactive).kept_answer is None


def test_an_answer_that_changes_too_much_is_given_up_and_tried_again() -> None:
    soup = made(EngineConfig(chunk_rows=1_024))
    query = soup.register("SELECT v FROM s BEGIN (NOW - 1500 ROWS)", keeping=COMPLETE)
    push(soup, 3_000)
    asked(soup, query)
    push(soup, 600)
    assert type(asked(soup, query)) is SentAnswer, "1,200 of 1,500 rows came and left"
    push(soup, 900)
    assert type(asked(soup, query)) is Answer
    said = kept(soup, query)
    assert "given up at 1970-01-01" in said
    assert "900 rows came and 900 left between two invocations, and it holds 1,500" in said
    clock = soup.clock
    assert isinstance(clock, VirtualClock)
    for _ in range(12):
        assert type(asked(soup, query)) is Answer, "a minute has not passed"
    assert "asked 12 times since" in kept(soup, query)
    clock.advance(seconds=60)
    assert type(asked(soup, query)) is KeepingAnswer
    assert type(asked(soup, query)) is SentAnswer
    push(soup, 2_000)
    asked(soup, query)
    clock.advance(seconds=60)
    assert [type(asked(soup, query)) for _ in range(10)] == [*[Answer] * 9, KeepingAnswer], "it was asked nine times"
    assert soup.engine.snapshot().answers.given_up == 2


def test_few_rows_never_give_an_answer_up() -> None:
    soup = made()
    query = soup.register("SELECT v FROM s BEGIN (NOW - 10 ROWS)", keeping=COMPLETE)
    for step in range(5):
        push(soup, 100, 100 * step)
        asked(soup, query)
    assert soup.engine.snapshot().answers.given_up == 0


def test_values_that_cannot_be_computed_are_counted_as_under_partial() -> None:
    soup = made()
    for where, shown in (("10 / v > 1", "v"), ("v < 3", "10 / v AS q")):
        query = soup.register(f"SELECT {shown} FROM s WHERE {where} BEGIN (NOW - 90 ROWS)", keeping=COMPLETE)
        for step in range(6):
            push(soup, 40, 40 * step)
            asked(soup, query)


def test_an_answer_whose_reader_stops_is_not_kept() -> None:
    soup = made()
    push(soup, 300)
    query = soup.register("SELECT v FROM s", keeping=COMPLETE)
    assert next(soup.invoke(query).messages(max_rows=10)).rows == 10  # type: ignore[union-attr]
    assert "none is kept yet" in kept(soup, query)


def test_kept_messages_are_cut_to_the_size_that_a_reader_wants() -> None:
    soup = made()
    push(soup, 300)
    query = soup.register("SELECT v, t FROM s ORDER BY v", keeping=COMPLETE)
    asked(soup, query)
    whole = soup.invoke(query)
    parts = list(whole.batches(max_rows=7))
    assert [part.num_rows for part in parts] == [7] * 42 + [6]
    assert pa.Table.from_batches(parts).equals(whole.to_table())
    assert sum(1 for _ in whole.messages(max_bytes=1_000)) > 3


def test_answers_count_in_the_bill_and_leave_with_their_queries() -> None:
    soup = made()
    push(soup, 300)
    ids = [soup.register(f"SELECT v FROM s WHERE v < {limit}", keeping=COMPLETE) for limit in (10, 20, 30)]
    for query in ids:
        asked(soup, query)
    items = {item.structure: item for item in memory_bill(soup.engine.snapshot()).items}
    room = soup.engine.snapshot().answers
    assert items["kept answers"].bytes == items["kept answers"].reclaimable == room.held > 1_000
    assert items["kept answers"].count == 3
    assert soup.engine.bill()["kept_answers_bytes"] == room.held
    soup.unregister(ids[0])
    soup.unregister_many(ids[1:2])
    assert room.answers == 1
    soup.drop_stream("s", cascade=True)
    assert (room.held, len(room)) == (0, 0)


@pytest.mark.parametrize(
    "select", [ROWS, "SELECT t FROM s WHERE v < 50 ORDER BY v", "SELECT a.v FROM s AS a, s AS b WHERE a.v = b.v"]
)
def test_readers_of_older_snapshots_get_their_own_answers(select: str) -> None:
    soup = made()
    query = soup.register(select, keeping=COMPLETE)
    snapshots = []
    for step in range(4):
        push(soup, 70, 70 * step)
        snapshots.append(soup.engine.snapshot())
    for number in (3, 1, 1, 3, 0, 2, 2, 3):
        given: dict[str, Any] = {"tenant": soup.tenant, "now": soup.clock.now()}
        expected = told(invoke(replace(snapshots[number], answers=AnswerRoom(0)), query, **given))
        assert told(invoke(snapshots[number], query, **given)) == expected


def test_an_answer_leaves_when_the_amount_of_its_query_changes() -> None:
    soup = made()
    push(soup, 300)
    query = soup.register(ROWS, keeping=COMPLETE)
    asked(soup, query)
    soup.alter_queries([query], amount=Amount.PARTIAL)
    assert len(soup.engine.snapshot().answers) == 0
    assert type(soup.invoke(query)) is Answer
    soup.alter_queries([query], amount=Amount.COMPLETE)
    assert type(asked(soup, query)) is KeepingAnswer
    assert type(asked(soup, query)) is SentAnswer
    soup.alter_queries([query], active=False)
    assert type(soup.invoke(query)) is Answer


def test_answers_stay_within_their_limit_and_the_quota() -> None:
    soup = made(replace(CONFIG, answer_bytes=100_000))
    soup.submit(CreateTenant("acme", Quotas()))
    for soup.tenant in ("default", "acme"):
        if soup.tenant == "acme":
            soup.execute("CREATE STREAM s (v BIGINT NOT NULL, t TEXT)")
        push(soup, 500)
        queries = [soup.register(f"SELECT v, _id FROM s WHERE v <> {out}", keeping=COMPLETE) for out in range(20)]
        for query in queries:
            asked(soup, query)
            assert soup.engine.snapshot().answers.held <= 100_000
        large = soup.register("SELECT v, v AS a, v AS b, v AS c, v AS d, v AS e, v AS f FROM s", keeping=COMPLETE)
        asked(soup, large)
        assert "one kept answer may take 25,000" in kept(soup, large)
    room = soup.engine.snapshot().answers
    soup.submit(AlterTenant("acme", {"kept_bytes": 30_000}))
    for query in queries:
        push(soup, 1)
        asked(soup, query)
    assert 0 < room.held_by("acme") <= 60_000
    soup.submit(AlterTenant("acme", {"kept_bytes": 1}))
    push(soup, 1)
    asked(soup, queries[0])
    assert "kept_bytes" in kept(soup, queries[0])


def test_answers_leave_first_when_memory_is_full() -> None:
    soup = made(EngineConfig(chunk_rows=64, memory_bytes=400_000, results_bytes=400_000))
    push(soup, 500)
    query = soup.register("SELECT v, _id FROM s", keeping=COMPLETE)
    asked(soup, query)
    soup.maintain()
    room = soup.engine.snapshot().answers
    assert room.answers == 1
    while soup.engine._rooms.answers.limit > 0:
        push(soup, 500)
        soup.maintain()
    assert room.held == 0
    assert type(asked(soup, query)) is Answer
    assert "no memory for kept answers" in kept(soup, query)
