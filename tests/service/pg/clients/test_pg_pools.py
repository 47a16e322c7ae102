"""Statements that pools, load balancers and monitors send by themselves."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import psycopg.errors
import pytest

from psoup_service.process.settings import Settings
from psoup_testing.pg.script import pg_address
from psoup_testing.pg.socket import PgSocket, cells, query
from psoup_testing.services.threaded_service import Serving, serving
from psoup_testing.suite.sweeps import swept


@pytest.fixture(scope="module")
def place() -> Iterator[Serving]:
    """A service of PostgreSQL's protocol."""
    with serving(Settings(port=0, pg_port=0)) as running:
        yield running


@pytest.fixture
def session(place: Serving) -> Iterator[Any]:
    with connected(place) as connection:
        yield connection


def connected(place: Serving) -> Any:
    """A connection without transactions."""
    host, port = pg_address(place).rsplit(":", 1)
    return psycopg.connect(f"host={host} port={port} user=anybody dbname=any", autocommit=True)


def value(session: Any, sql: str) -> Any:
    """The first value of the last statement of a text."""
    cursor = session.execute(sql)
    while cursor.nextset():
        pass
    return cursor.fetchone()[0]


def test_a_text_of_comments_is_an_empty_statement(place: Serving) -> None:
    with PgSocket(pg_address(place)).start() as client:
        for text in ("-- ping", "/* ping */", " ; -- ping\n;"):
            client.send(query(text))
            assert client.kinds() == "IZ", text


@pytest.mark.parametrize(
    "sql",
    [
        "DISCARD ALL",
        "CLOSE ALL; UNLISTEN *; SELECT pg_advisory_unlock_all(); DISCARD SEQUENCES; DISCARD TEMP; RESET ALL",
        "RESET SESSION AUTHORIZATION; SET SESSION AUTHORIZATION DEFAULT; RESET ROLE; SET ROLE none",
        "SET client_min_messages TO 'warning'; SET intervalstyle = iso_8601; SET SESSION timezone TO 'UTC'",
        "SET default_statistics_target = 100; SET transaction_timeout = 0; SET enable_hashagg = off",
    ],
)
def test_a_pool_resets_a_session(session: Any, sql: str) -> None:
    session.execute(sql)


@pytest.mark.parametrize(
    ("sql", "answer"),
    swept(
        [
            ("SELECT pg_is_in_recovery()", False),
            ("SHOW in_hot_standby", "off"),
            ("SELECT pg_catalog.txid_current_if_assigned()", None),
            ("SELECT pg_blocking_pids(1)", []),
            ("SELECT pg_postmaster_start_time() <= now()", True),
            ("SELECT current_setting('server_version_num')::int / 10000", 15),
            ("SELECT interval '14 months 3 days 01:00:00'", timedelta(days=428, hours=1)),
            ("SELECT count(*) FROM pg_stat_replication", 0),
            ("SHOW TRANSACTION ISOLATION LEVEL", "repeatable read"),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY; SHOW transaction_read_only", "on"),
            ("BEGIN; SET TRANSACTION READ WRITE; SHOW transaction_read_only", "off"),
            ("SET TIME ZONE INTERVAL '+02:00' HOUR TO MINUTE; SHOW TimeZone", "<+02>-02"),
            ("SET TIME ZONE INTERVAL '-05:30'; SHOW TimeZone", "<-05:30>+05:30"),
            ("SET TIME ZONE -3.5; SHOW TimeZone", "<-03:30>+03:30"),
            ("SET TIME ZONE 5; SHOW TimeZone", "<+05>-05"),
            ("SET TIME ZONE 'Europe/Berlin'; SET TIME ZONE LOCAL; SHOW TIME ZONE", "UTC"),
            ("SET TIME ZONE 'Europe/Berlin'; SET TIME ZONE DEFAULT; SHOW TIME ZONE", "UTC"),
        ],
        fast=6,
    ),
)
def test_a_check_of_a_session_is_answered(session: Any, sql: str, answer: Any) -> None:
    assert value(session, sql) == answer


def test_times_follow_a_zone_of_hours(place: Serving) -> None:
    with PgSocket(pg_address(place)).start() as client:
        client.send(query("SET TIME ZONE INTERVAL '-05:30' HOUR TO MINUTE; SELECT now()"))
        (shown,) = next(cells(body) for kind, body in client.until(b"Z") if kind == b"D")
        assert shown is not None
        assert shown.endswith(b"-05:30")


def test_the_number_of_a_connection_is_the_one_for_cancel_requests(session: Any) -> None:
    assert value(session, "SELECT pg_backend_pid()") == session.info.backend_pid
    names = [row[0] for row in session.execute("SHOW ALL").fetchall()]
    assert {"TimeZone", "psoup.as_of", "server_version"} <= set(names)
    assert names == sorted(names, key=str.lower)


@pytest.mark.parametrize(
    ("sql", "state", "message"),
    [
        ("SELECT pg_terminate_backend(1)", "0A000", r"pg_terminate_backend\(\) is not supported"),
        ("SELECT pg_try_advisory_lock(1)", "0A000", r"pg_try_advisory_lock\(\) is not supported"),
        ("SELECT pg_sleep(1) FROM pg_class", "0A000", r"pg_sleep\(\) beside FROM is not supported"),
        ("SELECT pg_sleep(1 + 1)", "0A000", r"pg_sleep\(\) of an expression is not supported"),
        ("SELECT pg_sleep('x')", "22P02", "pg_sleep takes seconds, and not 'x'"),
        (
            "SET statement_timeout = '50ms'; SELECT pg_sleep(60)",
            "57014",
            "canceling statement due to statement timeout",
        ),
        ("SET TIME ZONE INTERVAL 'soon' HOUR", "42601", "the interval is not a time zone"),
        ("SET TIME ZONE 25", "22023", "'<\\+25>-25'"),
    ],
)
def test_a_statement_that_is_not_for_clients_is_refused_by_name(
    session: Any, sql: str, state: str, message: str
) -> None:
    with pytest.raises(psycopg.Error, match=message) as refused:
        session.execute(sql)
    assert refused.value.sqlstate == state


def test_pg_sleep_ends_at_the_deadline_of_the_service() -> None:
    with (
        serving(Settings(port=0, pg_port=0, default_deadline_s=0.2)) as running,
        connected(running) as session,
        pytest.raises(psycopg.Error, match=r"after 0.2 s \(default_deadline_s\)") as refused,
    ):
        session.execute("SELECT pg_sleep(1e9)")
    assert refused.value.sqlstate == "57014"


def test_pg_sleep_waits_and_can_be_cancelled(session: Any) -> None:
    start = time.monotonic()
    assert session.execute("SELECT pg_sleep(%s), 7 AS n", (0.05,)).fetchone() == ("", 7)
    assert session.execute("SELECT pg_sleep(-1)").fetchone() == ("",)
    assert time.monotonic() - start >= 0.05
    over = threading.Event()

    def cancel() -> None:
        """Cancel until the statement has ended: a request before its beginning ends nothing."""
        while not over.wait(0.05):
            session.cancel_safe()

    cancelling = threading.Thread(target=cancel)
    cancelling.start()
    with pytest.raises(psycopg.errors.QueryCanceled, match="as its client has asked"):
        session.execute("SELECT pg_sleep(600)")
    over.set()
    cancelling.join()
    assert value(session, "SELECT 1") == 1
