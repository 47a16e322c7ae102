"""Parked queries through the service: registered, listed, invoked and altered, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_client import Altered, Client, Conflict, InvalidRequest
from psoup_service.process.settings import Settings
from psoup_storage import open_store
from psoup_storage.durable.tools.backup import restore
from psoup_testing.services.receivers import Receiver
from psoup_testing.services.threaded_service import serving

SELECT = "SELECT a FROM s WHERE a > $x"


HOUR = 3_600


def fill(client: Client) -> None:
    client.create_stream("CREATE STREAM s (a BIGINT)")
    client.register("SELECT a FROM s WHERE a > 2", key="alone", labels={"u": "x"}, parked=True)
    rows = [{"x": n, "k": f"many/{n}", "u": "x" if n % 2 else "y"} for n in range(100)]
    client.register_many(SELECT, rows, key="k", labels=["u"])
    client.push("s", {"a": list(range(10))})


def test_parked_queries_are_answered_listed_and_altered(tmp_path: Path) -> None:
    settings = Settings(port=0, verify="all")
    with serving(settings, store=open_store(tmp_path, reserve_bytes=0)) as running, Client(running.address) as client:
        fill(client)
        alone, many = client.query(key="alone"), client.query(key="many/5")
        assert (alone.info.parked, alone.info.active, alone.info.sql) == (True, False, "SELECT a FROM s WHERE a > 2")
        assert client.alter_queries(labels={"u": "x"}, parked=True) == Altered(51, 50)
        assert [many.invoke().rows(), alone.invoke().rows()] == [[(n,) for n in range(first, 10)] for first in (6, 3)]
        assert alone.alter(active=True) and not alone.info.parked and alone.info.active
        assert alone.alter(parked=True) and alone.info.parked and not alone.info.active
        assert client.matches("s", 2) == [client.query(key="many/0").id]
        for refused in (
            lambda: client.register(SELECT, {"x": 3}, parked=True, active=True),
            lambda: client.alter_queries([alone], parked=True, active=True),
        ):
            with pytest.raises(InvalidRequest, match="a parked query is inactive, and this call says active"):
                refused()
        with pytest.raises(ValueError, match="amount, eager, active or parked"):
            client.alter_queries([alone])
        before = [(query.id, query.info) for query in client.queries()]
    with serving(settings, store=open_store(tmp_path, reserve_bytes=0)) as running, Client(running.address) as client:
        assert [(query.id, query.info) for query in client.queries()] == before
        assert client.query(key="many/5").invoke().rows() == [(n,) for n in range(6, 10)]
        with pytest.raises(Conflict, match="registered otherwise"):
            client.register("SELECT a FROM s", key="alone")
        assert client.alter_queries(key_prefix="many/", parked=False) == Altered(100, 50)
        assert not client.query(key="many/5").info.parked


def parked(client: Client) -> list[str]:
    return [query.key for query in client.queries() if query.info.parked]


def test_inactive_queries_that_are_not_asked_for_a_day_are_parked(tmp_path: Path) -> None:
    """A day after the first look. An invocation, also of many at once, begins the day anew."""
    clock = VirtualClock(1_750_000_000 * SECOND)
    with (
        serving(clock=clock, store=open_store(tmp_path, reserve_bytes=0)) as running,
        Client(running.address) as client,
    ):
        client.create_stream("CREATE STREAM s (a BIGINT)")
        client.register("SELECT a FROM s", key="active")
        client.register("SELECT a FROM s WHERE a > 1", key="alone", active=False)
        rows = [{"x": n, "k": f"many/{n}"} for n in range(6)]
        many = client.register_many(SELECT, rows, key="k", active=False)
        assert running.park() == 0
        clock.advance(seconds=20 * HOUR)
        many[2].invoke().rows()
        list(client.invoke_many(many[3:5]))
        client.query(key="many/5").alter(active=True)
        assert running.park() == 0
        clock.advance(seconds=4 * HOUR)
        assert running.park() == 3
        assert parked(client) == ["alone", "many/0", "many/1"]
        clock.advance(seconds=20 * HOUR)
        assert running.park() == 3
        assert parked(client) == ["alone", *(f"many/{n}" for n in range(5))]
        for left in (6, 0):
            running.service._recalled.forget()
            assert len(running.service._recalled) == left
        assert client.query(key="many/2").invoke().rows() == [] and running.park() == 0
        for left in (1, 0):
            running.service._recalled.forget()
            assert len(running.service._recalled) == left
        assert client.query(key="many/2").alter(parked=False) and running.park() == 0


def test_a_backup_has_the_parked_queries(tmp_path: Path) -> None:
    with (
        serving(store=open_store(tmp_path / "data", reserve_bytes=0)) as running,
        Client(running.address) as client,
    ):
        fill(client)
        client.alter_queries(labels={"u": "x"}, parked=True)
        before = parked(client)
        client.backup(tmp_path / "backup")
    restore(tmp_path / "backup", tmp_path / "restored")
    with (
        serving(store=open_store(tmp_path / "restored", reserve_bytes=0)) as running,
        Client(running.address) as client,
    ):
        assert parked(client) == before and len(before) == 51
        assert client.query(key="alone").invoke().rows() == [(n,) for n in range(3, 10)]
        assert client.query(key="many/5").invoke().rows() == [(n,) for n in range(6, 10)]


def test_parked_queries_expire_unless_they_are_asked(tmp_path: Path) -> None:
    clock, store = VirtualClock(1_750_000_000 * SECOND), open_store(tmp_path, reserve_bytes=0)
    with serving(clock=clock, store=store) as running, Client(running.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        rows = [{"x": n, "k": f"many/{n}"} for n in range(4)]
        client.register_many(SELECT, rows, key="k", parked=True, expires_after="2 days")
        client.register("SELECT a FROM s", key="alone", parked=True, expires_after="2 days")
        assert running.expire() == 0
        clock.advance(seconds=40 * HOUR)
        client.query(key="many/2").invoke().rows()
        assert running.expire() == 0
        clock.advance(seconds=40 * HOUR)
        assert running.expire() == 4
        assert [query.key for query in client.queries()] == ["many/2"]
    with (
        serving(clock=clock, store=open_store(tmp_path, reserve_bytes=0)) as running,
        Client(running.address) as client,
    ):
        assert parked(client) == ["many/2"] and client.query(key="many/2").invoke().rows() == []


@pytest.mark.long
def test_a_webhook_tells_the_changes_of_a_parked_query(tmp_path: Path) -> None:
    with (
        Receiver() as receiver,
        serving(
            Settings(port=0, webhook_hosts=(receiver.origin,)), store=open_store(tmp_path, reserve_bytes=0)
        ) as running,
        Client(running.address) as client,
    ):
        fill(client)
        client.add_webhook("alone", receiver.begin())
        client.push("s", {"a": [12]})
        sent = receiver.until(lambda requests: any({"a": 12} in request.data["came"] for request in requests))
        assert sum(request.data["left_count"] for request in sent) == 0
        assert parked(client) == ["alone"]
