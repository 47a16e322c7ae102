"""Services with a table whose rows expire: followers, copies, restarts, and a clock that is wrong at a start."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from psoup.model import SECOND
from psoup_client import Client
from psoup_service.chores import row_expiry
from psoup_service.process.settings import Settings
from psoup_storage import DurableStore
from psoup_testing.services.machine_clocks import Machine
from psoup_testing.services.threaded_service import Serving, serving


@pytest.fixture(autouse=True)
def no_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the test looks for expired rows."""
    monkeypatch.setattr(row_expiry, "EVERY_S", 3_600.0)


@contextmanager
def service_on(machine: Machine, path: Path) -> Iterator[tuple[Serving, Client]]:
    machine.clock = machine.new_clock()
    store = DurableStore(path, reserve_bytes=0)
    with serving(Settings(port=0), machine.clock, store) as running, Client(running.address) as client:
        yield running, client


def upsert(client: Client, machine: Machine, **seconds: float | None) -> None:
    """Rows that expire so many seconds after the machine's time."""
    until = [None if s is None else machine.true + round(s * SECOND) for s in seconds.values()]
    client.push("ads", {"id": [*seconds], "until": until}, time_unit="us")


def names(client: Client) -> list[str]:
    return [row[0] for row in client.ask("SELECT id FROM ads ORDER BY id").rows()]


def test_followers_and_copies_lose_a_row_when_its_time_has_come(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path / "data") as (running, client):
        machine.pass_seconds(61)  # expiry waits for a minute after a start
        table = client.create_table("CREATE TABLE ads (id TEXT PRIMARY KEY, until TIMESTAMP) EXPIRES BY until")
        assert table.expires_by == "until"
        client.register("SELECT id FROM ads", key="all")
        copy, feed = client.copy(key="all"), client.follow("ads")
        upsert(client, machine, a=5, b=60, c=None)
        assert copy.sync().came == 3 and len(next(feed)) == 3
        assert running.expire_rows() == 0
        machine.pass_seconds(5)
        assert running.expire_rows() == 1 and running.expire_rows() == 0
        (match,) = next(feed)
        assert match.tuple["id"] == "a" and dict(zip(match.keys, match.changes, strict=True)) == {"all": "left"}
        feed.close()
        assert copy.sync().gone == 1 and names(client) == ["b", "c"]
        assert running.service._figures()["rows_expired"] == 1
        upsert(client, machine, b=1_000)
        machine.pass_seconds(60)
        assert running.expire_rows() == 0


def test_a_look_waits_for_an_event_or_for_the_time_of_a_row(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path / "data") as (running, client):
        machine.pass_seconds(61)
        client.create_table("CREATE TABLE ads (id TEXT PRIMARY KEY, until TIMESTAMP) EXPIRES BY until")
        work = running.service.regular.row_expiry
        assert work.is_due() and running.expire_rows() == 0
        assert not work.is_due()
        upsert(client, machine, a=5, b=60)
        assert names(client) == ["a", "b"] and work.is_due() and running.expire_rows() == 0
        assert not work.is_due()
        machine.pass_seconds(5)
        assert work.is_due() and running.expire_rows() == 1
        assert running.expire_rows() == 0  # it sees its own event
        assert not work.is_due()


def test_rows_wait_for_a_minute_after_a_start(tmp_path: Path) -> None:
    machine = Machine()
    with service_on(machine, tmp_path / "data") as (running, client):
        client.create_table("CREATE TABLE ads (id TEXT PRIMARY KEY, until TIMESTAMP) EXPIRES BY until")
        upsert(client, machine, a=-1, b=30)
        assert running.expire_rows() == 1 and names(client) == ["b"]  # its time is before the last event
    machine.set_forward(3_600)  # the clock of the machine is wrong at the start, and is set right
    with service_on(machine, tmp_path / "data") as (running, client):
        assert running.expire_rows() == 0
        machine.set_forward(-3_600)
        machine.pass_seconds(29)
        assert running.expire_rows() == 0
        machine.pass_seconds(31)
        assert running.expire_rows() == 1 and names(client) == []
    with service_on(machine, tmp_path / "data") as (running, client):
        machine.pass_seconds(61)
        assert running.expire_rows() == 0 and names(client) == []
        assert client.describe("ads").next_tuple_id == 4
