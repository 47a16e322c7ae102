"""The room of kept answers: which answers leave when it is full, and at what cost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from psoup.aggregates.kept import KeptBytes
from psoup.config import EngineConfig
from psoup.execution.rows.record_batch import Message
from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.published.answer_room import AnswerRoom, GivenUp
from psoup.work.clock import VirtualClock
from psoup_testing.engines.within import in_calls
from psoup_testing.oracles.complete_answers import COMPLETE

KIB = 1 << 10


def room_of(limit: int, quota: Callable[[str], int] = lambda _: 0) -> AnswerRoom:
    return AnswerRoom(limit, KeptBytes(quota))


def test_a_tenant_that_keeps_very_many_answers_leaves_those_of_others() -> None:
    room = room_of(1_000 * KIB)
    for query in range(10):
        assert room.keep(query, "quiet", object(), 20 * KIB) == ""
    for query in range(100, 1_100):
        assert room.keep(query, "loud", object(), 20 * KIB) == ""
    assert all(room.look(query) for query in range(10)), "the quiet tenant has less than half of the room"
    assert room.held <= room.limit
    assert room.look(1_099) is not None and room.look(100) is None


def test_each_tenant_gets_an_equal_share_of_a_full_room() -> None:
    room = room_of(1_200 * KIB)
    for query in range(1_000):
        assert room.keep(query, "first", object(), 10 * KIB) == ""
    for query in range(1_000, 3_000):
        tenant = ("second", "third")[query % 2]
        assert room.keep(query, tenant, object(), 10 * KIB) == ""
    shares = [room.held_by(tenant) for tenant in ("first", "second", "third")]
    assert sum(shares) == room.held <= room.limit
    assert min(shares) > 240 * KIB, shares


def test_a_tenant_with_one_large_answer_displaces_only_what_nobody_asks_for() -> None:
    room = room_of(1_000 * KIB)
    for query in range(10):
        assert room.keep(query, f"t{query}", object(), 80 * KIB) == ""
    assert "kept answers fill" in room.keep(10, "large", object(), 230 * KIB)
    for query in range(1, 10):
        assert room.find(query) is not None
    assert room.keep(10, "large", object(), 230 * KIB) == ""
    assert [query for query in range(10) if room.look(query) is None] == [0]
    assert room.keep(11, "large", object(), 230 * KIB) == "", "its own leaves"
    assert room.look(10) is None
    assert all(room.look(query) for query in range(1, 10))


def test_an_answer_at_the_quota_does_not_look_at_all_answers_each_time() -> None:
    room = room_of(1 << 30, lambda tenant: 2_000 * 1_400)
    for query in range(2_000):
        assert room.keep(query, "a", object(), 1_000) == ""
    in_calls(60_000, lambda: [room.keep(query, "a", object(), 1_000) for query in range(2_000, 2_200)])
    assert 1_500 < len(room) <= 2_000


@pytest.mark.parametrize("tenants", ["a", "ab", "abc"])
def test_an_answer_in_a_full_room_does_not_look_at_all_answers_each_time(tenants: str) -> None:
    room = room_of(2_000 * 1_400)

    def keep(first: int, end: int) -> None:
        for query in range(first, end):
            assert room.keep(query, tenants[query % len(tenants)], object(), 1_000) == ""

    keep(0, 2_000)
    in_calls(100_000, lambda: keep(2_000, 2_200))
    assert 1_500 < len(room) <= 2_000
    shares = [room.held_by(tenant) for tenant in tenants]
    assert min(shares) > 0.8 * max(shares), shares


def test_reasons_of_answers_that_were_given_up_do_not_fill_the_memory() -> None:
    room = room_of(100 * KIB)
    for query in range(50_000):
        room.refuse(query, "a", 5, "why")
    assert (room.given_up, room.answers) == (50_000, 0)
    assert 8_000 < len(room) < 17_000
    last = room.look(49_999)
    assert last is not None and isinstance(last.value, GivenUp)


def push(soup: LocalPSoup, count: int) -> None:
    numbers = np.arange(count)
    soup.push("s", pa.table({"v": numbers * 37 % 100, "t": (numbers % 7).astype(str)}))


def of(limit: int) -> LocalPSoup:
    """A stream of 300 tuples, and a room of `limit` bytes."""
    soup = LocalPSoup(EngineConfig(chunk_rows=64, answer_bytes=limit), VirtualClock(SECOND))
    soup.execute("CREATE STREAM s (v BIGINT NOT NULL, t TEXT)")
    push(soup, 300)
    return soup


def test_an_answer_that_was_too_large_is_not_kept_when_the_limit_rises() -> None:
    soup = of(100_000)
    query, room = soup.register("SELECT v FROM s", keeping=COMPLETE), soup.engine.snapshot().answers
    room.bound(4_000)
    messages = soup.invoke(query).messages(max_rows=200)
    next(messages)
    room.bound(100_000)
    list(messages)
    assert soup.invoke(query).to_table().num_rows == 300


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT v, _id FROM s",
        "SELECT v, t FROM s",
        "SELECT a.v FROM s a JOIN s b ON a.v = b.v",
        "SELECT v, _id FROM s UNION ALL SELECT _id, v FROM s WHERE v < 5",
    ],
)
def test_readers_that_stop_midway_hold_little_of_their_answers(sql: str) -> None:
    soup = of(40_000)
    query, room = soup.register(sql, keeping=COMPLETE), soup.engine.snapshot().answers
    for changed in (False, True):
        if changed:
            soup.invoke(query).to_table()
            push(soup, 10)
        stalled = [soup.invoke(query).messages(max_rows=100) for _ in range(50)]
        for messages in stalled:
            next(messages), next(messages)
        assert 0 < room.taken <= 20_000
        rows = soup.invoke(query).to_table().num_rows
        for messages in stalled[:2]:
            assert sum(part.rows if isinstance(part, Message) else part.num_rows for part in messages) == rows - 200
        for messages in stalled[2:]:
            messages.close()  # type: ignore[attr-defined]
        assert room.taken == 0
        assert soup.invoke(query).to_table().num_rows == rows
