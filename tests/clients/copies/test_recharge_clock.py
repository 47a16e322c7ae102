"""Stores without a network: rows that have left by the clock here are hidden, in any tool, and none is deleted."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_client import Client
from psoup_client.copies.moments import Moment
from psoup_recharge import Store
from psoup_recharge import store as store_module
from psoup_testing.services.threaded_service import serving

pytestmark = [
    pytest.mark.seeded("rows are deleted by the client's clock"),
    pytest.mark.seeded("hidden a microsecond early"),
    pytest.mark.seeded("hidden where others enter, or as LIMIT and event time do not allow"),
    pytest.mark.seeded("retention is forgotten"),
]

START = 10**9 * SECOND
STATEMENTS = {
    "sliding": "SELECT n FROM s WHERE n <> 25 BEGIN (NOW - 100 SECONDS)",
    "all_rows": "SELECT n FROM s WHERE n <> 25 BEGIN (START)",
    "early": "SELECT n FROM s WHERE n <> 25 BEGIN (NOW - 100 SECONDS) END (NOW - 5 SECONDS)",
    "counted": "SELECT n FROM s WHERE n <> 25 BEGIN (NOW - 10 ROWS)",
    "joined": "SELECT x.n FROM s AS x [BEGIN (NOW - 100 SECONDS)], s AS y [BEGIN (NOW - 70 SECONDS)] WHERE x.n = y.n",
}
AGEING = ("sliding", "all_rows", "joined")


@dataclass
class Here:
    """The clocks of a client."""

    wall: int
    boot: int = 0
    boot_id: str = "a"

    def moment(self) -> Moment:
        return Moment(self.wall, self.boot, self.boot_id)

    def wait(self, seconds: int) -> None:
        self.wall += seconds * SECOND
        self.boot += seconds * SECOND


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Here:
    here = Here(time.time_ns() // 1_000)
    monkeypatch.setattr(store_module, "moment", here.moment)
    return here


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(START)


@pytest.fixture
def client(clock: VirtualClock) -> Iterator[Client]:
    with serving(clock=clock) as service, Client(service.address) as client:
        yield client


@pytest.fixture
def store(tmp_path: Path, client: Client, clock: VirtualClock, here: Here) -> Iterator[Store]:
    """A store with 30 rows, pushed one a second, of each query."""
    client.create_stream("CREATE STREAM s (n BIGINT)")
    for n in range(30):
        client.push("s", {"n": [n]})
        clock.advance(seconds=10)
        here.wait(10)
    with Store(tmp_path / "copies.db") as store:
        for name, statement in STATEMENTS.items():
            store.add(name, sql=statement)
        store.recharge(client)
        yield store


def seen(store: Store, name: str) -> list[int]:
    return list(store.read(name).column("n").to_pylist())


def in_any_tool(store: Store, name: str) -> list[int]:
    with sqlite3.connect(store.path) as plain:
        return [n for (n,) in plain.execute(f"SELECT n FROM {name}")]


def asked(client: Client, store: Store, name: str) -> list[int]:
    return [row["n"] for row in client.invoke(key=store.key_of(store.entry(name)))]


def test_what_is_shown_is_the_answer_of_later(client: Client, clock: VirtualClock, store: Store, here: Here) -> None:
    before = {name: seen(store, name) for name in STATEMENTS}
    rows = {name: store.entry(name).rows for name in STATEMENTS}
    for seconds in (0, 3, 25, 60, 1_000):
        clock.advance(seconds=seconds)
        here.wait(seconds)
        for name in STATEMENTS:
            assert store.entry(name).certainty == ("exact now" if name in AGEING else "as of")
            assert seen(store, name) == (asked(client, store, name) if name in AGEING else before[name]), (
                name,
                seconds,
            )
    assert before["sliding"] and not seen(store, "sliding")
    assert before["joined"] and not seen(store, "joined")
    assert {name: store.entry(name).rows for name in STATEMENTS} == rows, "hidden, and not deleted"
    now, stepped = store.now()
    assert now is not None and (now.timestamp() * 1_000_000, stepped) == (clock.now(), 0)
    assert all(copy.came == 0 for copy in store.recharge(client).copies if copy.name in ("sliding", "all_rows"))


def test_any_tool_hides_by_the_clock(client: Client, clock: VirtualClock, store: Store, here: Here) -> None:
    assert in_any_tool(store, "sliding") == asked(client, store, "sliding") != []
    for sooner, remain in ((45, lambda n: n > 24), (3_600, lambda n: False)):
        # the reply came some time ago: SQLite reads the clock of this machine
        with sqlite3.connect(store.path) as plain:
            plain.execute("UPDATE clock SET wall = ?", (time.time_ns() // 1_000 - sooner * SECOND,))
        assert in_any_tool(store, "sliding") == [n for n in range(30) if n != 25 and remain(n)]
        assert len(in_any_tool(store, "all_rows")) == 29
        assert len(in_any_tool(store, "counted")) == len(asked(client, store, "counted"))


@pytest.mark.seeded("NOW is estimated by a wall clock that was set, or goes back")
@pytest.mark.seeded("the greatest estimate is kept after the service's word")
def test_a_clock_that_is_set_makes_no_hole(client: Client, clock: VirtualClock, store: Store, here: Here) -> None:
    whole = seen(store, "sliding")
    here.wall += 86_400 * SECOND
    assert seen(store, "sliding") == whole, "since boot nothing has passed"
    assert store.now()[1] == 86_400
    with sqlite3.connect(store.path) as plain:
        assert plain.execute("SELECT wall, stepped FROM clock").fetchone() == (here.wall, 86_400 * SECOND)
    here.wait(45)
    left = seen(store, "sliding")
    assert whole[-len(left) :] == left != whole
    here.wall -= 2 * 86_400 * SECOND
    here.boot_id, here.boot = "b", 0
    assert seen(store, "sliding") == left, "after a boot, with a clock far back: not more than was shown before"
    clock.advance(seconds=45)
    store.recharge(client)
    assert seen(store, "sliding") == asked(client, store, "sliding") == left
    assert store.now()[1] == 0
    clock.advance(seconds=-40)
    store.recharge(client)
    assert seen(store, "sliding") == asked(client, store, "sliding"), "the service's word counts, also if it went back"
    assert len(seen(store, "sliding")) > len(left)


def test_a_reply_without_a_clock_is_of_an_older_service(client: Client, store: Store, here: Here) -> None:
    with sqlite3.connect(store.path) as plain:
        plain.execute("DELETE FROM clock")
    assert store.now() == (None, 0)
    assert seen(store, "sliding") == in_any_tool(store, "sliding") == asked(client, store, "sliding")
