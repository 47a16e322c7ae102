"""Queries that expire, through the service: shown before, told afterwards, over restarts and a copy of the files."""

from __future__ import annotations

import datetime as dt
import shutil
from pathlib import Path

import pytest

from psoup.work.clock import VirtualClock
from psoup_client import Client, InvalidData, InvalidRequest, NotFound, Query
from psoup_storage import open_store
from psoup_testing.services.threaded_service import Serving, serving

SQL = "SELECT a FROM s WHERE a > 1"
START = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
DAY = 86_400


def pass_days(serving: Serving, clock: VirtualClock, days: float) -> int:
    """Days go by, and the service looks for what has expired."""
    clock.advance(seconds=days * DAY)
    return serving.expire()


def test_what_is_not_asked_expires_and_restarts_know_when_it_was_asked(tmp_path: Path) -> None:
    clock = VirtualClock(int(START.timestamp()) * 1_000_000)
    data, copy = tmp_path / "data", tmp_path / "copy"
    with (
        serving(clock=clock, store=open_store(str(data), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        client.create_stream("CREATE STREAM s (a BIGINT)")
        asked = client.register(SQL, key="asked", expires_after="10 days")
        kept = client.register(SQL + "0", key="kept", expires_after=dt.timedelta(days=30))
        never = client.register(SQL)
        rows = [{"least": number, "id": f"search-{number}"} for number in range(20)]
        many = client.register_many("SELECT a FROM s WHERE a > $least", rows, key="id", expires_after="10 days")
        assert asked.info.expires_after == dt.timedelta(days=10)
        assert asked.info.expires == dt.datetime(2026, 3, 12, tzinfo=dt.UTC)
        assert (never.info.expires_after, never.info.expires) == (None, None)
        assert client.queries(expiring="7 days") == []
        assert pass_days(service, clock, 0) == pass_days(service, clock, 5) == 0
        assert [query.id for query in client.queries(expiring="7 days")] == [asked.id, *(query.id for query in many)]
        asked.invoke()
        list(client.invoke_many([many[3].id]))
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns("lock", "note-asked"))
    with (
        serving(clock=clock, store=open_store(str(data), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        assert pass_days(service, clock, 6) == 19
        assert [query.id for query in client.queries()] == [asked.id, kept.id, never.id, many[3].id]
        gone = Query(client, many[0].id)
        for call in (gone.invoke, gone.explain):
            with pytest.raises(NotFound, match=f"query '{many[0].id}' has expired") as refused:
                call()
            assert refused.value.reason == "QUERY_EXPIRED"
        assert not (data / "note-asked").read_text(), "a kill would lose what was asked from now on"
    with (
        serving(clock=clock, store=open_store(str(copy), reserve_bytes=0)) as service,
        Client(service.address) as client,
    ):
        assert pass_days(service, clock, 10) == 0, "without the note of the last process all live on"
        assert len(client.queries()) == 23


def test_what_is_not_a_time_is_refused() -> None:
    with serving() as service, Client(service.address) as client:
        client.create_stream("CREATE STREAM s (a BIGINT)")
        for text, why in (("0 days", "would expire at once"), ("soon", "give it as '90 days'")):
            with pytest.raises(InvalidRequest, match=why):
                client.register(SQL, expires_after=text)
            with pytest.raises(InvalidRequest, match=why):
                client.queries(expiring=text)
        with pytest.raises(InvalidData, match="the time is empty"):
            client.register(SQL, expires_after="")
        with pytest.raises(InvalidRequest, match="'-1 SECONDS' is not a time"):
            client.register(SQL, expires_after=dt.timedelta(seconds=-1))
