"""Parked queries through the service: registered, listed, invoked and altered, also after a restart."""

from __future__ import annotations

from pathlib import Path

import pytest

from psoup.model import SECOND
from psoup.work.clock import VirtualClock
from psoup_client import Altered, Client, Conflict, InvalidRequest
from psoup_service.process.settings import Settings
from psoup_storage import open_store
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
