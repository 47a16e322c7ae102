"""LISTEN: notifications of the changes of an answer, with the numbers of rows that came and left."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any

import psycopg
import pytest

from psoup_client import Client
from psoup_service.watching import pages
from psoup_testing.services.threaded_service import Serving

BOTH = "left_side l JOIN right_side r ON l.k = r.k"
JOINS = {
    "inner": f"SELECT l.k, l.v, r.v FROM {BOTH}",
    "window": f"SELECT l.v FROM {BOTH} BEGIN (NOW - 20 ROWS)",
    "outer": "SELECT l.k, r.v FROM left_side l LEFT JOIN right_side r ON l.k = r.k",
    "sums": f"SELECT l.k, sum(r.v) AS total, count(*) AS c FROM {BOTH} GROUP BY l.k",
    "having": "SELECT k, max(v) AS high FROM left_side GROUP BY k HAVING count(*) > 3",
    "few": "SELECT DISTINCT k FROM right_side ORDER BY k LIMIT 5",
}
"""Queries whose changes only an evaluation shows, by their keys."""


@pytest.fixture(scope="module")
def place(running: Serving) -> dict[str, Any]:
    """The arguments of connections to a service with queries of several kinds."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM s (n INT, k TEXT)")
        client.push("s", {"n": list(range(10)), "k": ["a", "b"] * 5})
        client.register("SELECT n FROM s WHERE n >= 0", key="Rows")
        client.register("SELECT n FROM s BEGIN (NOW - 3 ROWS)", key="last")
        client.register("SELECT k, count(*) AS c FROM s GROUP BY k", key="groups")
        client.register("SELECT a.n FROM s a JOIN s b ON a.n = b.n WHERE a.n > 100", key="pairs")
        for name in ("left_side", "right_side"):
            client.create_stream(f"CREATE STREAM {name} (k INT, v INT)")
        for key, sql in JOINS.items():
            client.register(sql, key=key)
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return {"host": host, "port": int(port), "user": "x", "dbname": "d", "autocommit": True}


@pytest.fixture
def connection(place: dict[str, Any]) -> Iterator[psycopg.Connection[Any]]:
    """A connection without transactions."""
    with psycopg.connect(**place) as connected:
        yield connected


def totals(connection: psycopg.Connection[Any], wanted: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
    """The sums of came and left by key, until they are those wanted, or nothing comes for a while."""
    sums = dict.fromkeys(wanted, (0, 0))
    notifications = connection.notifies(timeout=60)
    for notification in notifications:
        payload = json.loads(notification.payload)
        assert payload["key"] == notification.channel
        assert payload["sequence"] > 0
        came, left = sums[notification.channel]
        sums[notification.channel] = (came + payload["came_count"], left + payload["left_count"])
        if sums == wanted:
            notifications.close()
    return sums


def test_each_change_of_an_answer_is_told_with_the_rows_that_came_and_left(
    connection: psycopg.Connection[Any], place: dict[str, Any]
) -> None:
    for key in ('"Rows"', "last", "groups", "pairs"):
        assert connection.execute(f"LISTEN {key}").statusmessage == "LISTEN"
    with psycopg.connect(**place) as other:
        other.execute("INSERT INTO s VALUES (200, 'a'), (201, 'c'), (-1, 'd')")
        wanted = {"Rows": (2, 0), "last": (3, 3), "groups": (3, 1), "pairs": (2, 0)}
        assert totals(connection, wanted) == wanted
        connection.execute('UNLISTEN "Rows"; UNLISTEN groups; UNLISTEN pairs')
        other.execute("INSERT INTO s VALUES (202, 'a')")
        wanted = {"last": (1, 1)}
        assert totals(connection, wanted) == wanted
        connection.execute("UNLISTEN *")


def test_changes_within_a_transaction_are_told_after_it_and_merged(
    connection: psycopg.Connection[Any], place: dict[str, Any]
) -> None:
    connection.execute('LISTEN "Rows"')
    connection.execute('LISTEN "Rows"; BEGIN')
    with psycopg.connect(**place) as other:
        for n in range(5):
            other.execute("INSERT INTO s VALUES (%s, 'a')", (300 + n,))
        assert connection.execute("SELECT 1 FROM s WHERE n = 0").fetchall() == [(1,)]
        assert list(connection.notifies(timeout=0)) == []
        connection.execute("COMMIT")
        assert totals(connection, {"Rows": (5, 0)}) == {"Rows": (5, 0)}


def test_a_listener_follows_its_key_to_another_query_and_learns_of_its_end(
    connection: psycopg.Connection[Any], running: Serving
) -> None:
    with Client(running.address, timeout=60) as client:
        client.register("SELECT n FROM s WHERE n = 1", key="moving")
        connection.execute("LISTEN moving")
        client.register("SELECT n FROM s WHERE n IN (1, 2, 3)", key="moving", replace=True)
        assert totals(connection, {"moving": (3, 1)}) == {"moving": (3, 1)}
        client.unregister(client.query(key="moving"))
        (notification,) = connection.notifies(timeout=60, stop_after=1)
        payload = json.loads(notification.payload)
        assert (payload["came_count"], payload["left_count"]) == (0, 3)
        assert "gone" in payload


def test_a_key_of_no_query_is_refused_with_its_place(connection: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.UndefinedTable, match="no query with key 'nope'") as refused:
        connection.execute("LISTEN nope")
    assert refused.value.diag.statement_position == "8"
    connection.execute("UNLISTEN nope")


class Waits:
    """A clock that passes a second at each look, as if each evaluation waited for other reads."""

    thread_time = staticmethod(time.thread_time)
    _seconds = count()

    def perf_counter(self) -> float:
        """The next second."""
        return next(self._seconds)


@pytest.mark.long
def test_joins_and_groups_are_told_soon_though_their_evaluation_waits(
    connection: psycopg.Connection[Any], running: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "time", Waits())
    for key in JOINS:
        connection.execute(f'LISTEN "{key}"')
    with Client(running.address, timeout=60) as client, ThreadPoolExecutor(2) as producers:
        for turn in range(4):
            rows = [{"k": n % 7 + turn, "v": n} for n in range(10)]
            list(producers.map(lambda name: client.push(name, rows), ("left_side", "right_side")))  # noqa: B023
        missing = {key: len(client.query(key=key).invoke().to_arrow()) for key in JOINS}
    assert all(missing.values())
    notifications = connection.notifies(timeout=60)
    for notification in notifications:
        payload = json.loads(notification.payload)
        missing[notification.channel] -= payload["came_count"] - payload["left_count"]
        if not any(missing.values()):
            notifications.close()
    assert not any(missing.values()), "the notifications count the rows of the answers"
