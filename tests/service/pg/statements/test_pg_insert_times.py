"""The present time and DEFAULT in VALUES: each form has the value that PostgreSQL gives it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import psycopg
import pytest

from psoup_client import Client
from psoup_testing.pg.script import pg_address
from psoup_testing.services import postgres
from psoup_testing.services.postgres import Postgres
from psoup_testing.services.threaded_service import Serving

KATHMANDU = ZoneInfo("Asia/Kathmandu")
FORMS = [
    *("now()", "NOW ( )", "pg_catalog.now()", "transaction_timestamp()", "CURRENT_TIMESTAMP", "current_timestamp(0)"),
    *("CURRENT_TIMESTAMP(3)", "current_timestamp(9)", "localtimestamp", "LOCALTIMESTAMP(2)", "(now())", "CURRENT_DATE"),
    *("now()::timestamptz", "now()::date", "now()::date::timestamp", "CAST(now() AS timestamp)", "now()::timestamp(0)"),
    *("current_date::timestamptz", "CAST(CURRENT_TIMESTAMP AS timestamp with time zone)", "DEFAULT"),
]
"""Forms with one value in a transaction."""
REFUSED = ["now", "now(1)", "current_date()", "current_timestamp()", "nope.now()", "CURRENT_TIMESTAMP(x)"]


@pytest.fixture(scope="module")
def address(running: Serving) -> str:
    """The address of a service with a stream of times."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM times (form TEXT, at TIMESTAMP, d DATE)")
        client.create_stream("CREATE STREAM strict (a INT NOT NULL, b TEXT)")
    host, port = pg_address(running).rsplit(":", 1)
    return f"host={host} port={port} user=x dbname=d"


@pytest.fixture
def connection(address: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection without transactions, in a zone 5:45 hours east of UTC."""
    with psycopg.connect(address, autocommit=True) as connected:
        connected.execute("SET TimeZone = 'Asia/Kathmandu'")
        yield connected


def times(connection: psycopg.Connection[Any], form: str) -> list[Any]:
    """The rows with a form."""
    return connection.execute("SELECT at, d FROM times WHERE form = %s", (form,)).fetchall()


def test_now_is_the_present_time_of_the_session(connection: psycopg.Connection[Any]) -> None:
    before = datetime.now(UTC)
    connection.execute("INSERT INTO times VALUES ('now', now(), CURRENT_DATE), ('now', CURRENT_TIMESTAMP, now())")
    after = datetime.now(UTC)
    first, second = times(connection, "now")
    assert first == second
    assert before <= first[0] <= after
    assert first[1] == first[0].astimezone(KATHMANDU).date()
    connection.execute("SET psoup.as_of = '2020-01-01'")
    connection.execute("INSERT INTO times VALUES ('as_of', now(), now())")
    connection.execute("RESET psoup.as_of")
    assert times(connection, "as_of")[0][0] >= after


@pytest.mark.parametrize(("hour", "day"), [(18, 1), (19, 2)])
def test_a_column_of_dates_has_the_day_of_the_session(connection: psycopg.Connection[Any], hour: int, day: int) -> None:
    """An argument with a zone: 18:00 UTC is 23:45 in the session's zone, and 19:00 is the next day."""
    at = datetime(2026, 7, 1, hour, tzinfo=UTC)
    connection.execute("INSERT INTO times VALUES (%s, %s, %s)", (f"day{day}", at, at))
    assert times(connection, f"day{day}") == [(at, date(2026, 7, day))]


def test_a_prepared_statement_has_the_time_of_each_execution(connection: psycopg.Connection[Any]) -> None:
    sql = "INSERT INTO times VALUES (%s, now(), now())"
    for _ in range(3):
        connection.execute(sql, ("prepared",), prepare=True)
    instants = [at for at, _ in times(connection, "prepared")]
    assert instants == sorted(set(instants)) and len(instants) == 3


def test_a_transaction_has_one_time_and_the_clock_goes_on(connection: psycopg.Connection[Any]) -> None:
    with connection.transaction():
        for _ in range(3):
            connection.execute("INSERT INTO times VALUES ('one', now(), now()), ('many', clock_timestamp(), NULL)")
    assert len(set(times(connection, "one"))) == 1
    assert len(set(times(connection, "many"))) == 3


def test_a_time_is_a_text_for_a_column_of_texts(connection: psycopg.Connection[Any]) -> None:
    connection.execute("INSERT INTO times (form) VALUES (current_timestamp(0)), (current_date), (localtimestamp(0))")
    texts = [text for (text,) in connection.execute("SELECT form FROM times WHERE at IS NULL AND form LIKE '20%'")]
    assert len(texts) == 3
    zoned, day, local = texts
    assert zoned.endswith("+05:45") and zoned[:10] == day == local[:10]
    assert len(local) == 19


def test_many_rows_with_the_present_time_are_read(connection: psycopg.Connection[Any]) -> None:
    rows = ", ".join([f"('many{n}', now(), $1)" for n in range(3_000)])
    cursor = psycopg.RawCursor(connection)
    cursor.execute(f"INSERT INTO times VALUES {rows}", ("2026-07-01",))
    assert cursor.statusmessage == "INSERT 0 3000"
    distinct = connection.execute("SELECT count(DISTINCT at) FROM times WHERE form LIKE 'many_%'").fetchone()
    assert distinct == (1,)


def test_default_values_are_a_row_of_null(connection: psycopg.Connection[Any]) -> None:
    cursor = connection.execute("INSERT INTO times DEFAULT VALUES")
    assert cursor.statusmessage == "INSERT 0 1"
    assert connection.execute("SELECT at, d FROM times WHERE form IS NULL").fetchall() == [(None, None)]
    with pytest.raises(psycopg.errors.NotNullViolation):
        connection.execute("INSERT INTO strict DEFAULT VALUES")
    with pytest.raises(psycopg.errors.FeatureNotSupported):
        connection.execute("INSERT INTO times (at) DEFAULT VALUES")


@pytest.mark.parametrize("form", REFUSED)
def test_other_forms_are_refused(connection: psycopg.Connection[Any], form: str) -> None:
    with pytest.raises(psycopg.Error):
        connection.execute(f"INSERT INTO times (at) VALUES ({form})")


@pytest.mark.long
@pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "-")
def test_postgresql_gives_the_same_values(connection: psycopg.Connection[Any]) -> None:
    """Each value as its distance from now() of the transaction, or from midnight of its day."""

    def distances(server: psycopg.Connection[Any], form: str) -> tuple[Any, ...]:
        with server.transaction():
            server.execute(f"INSERT INTO times VALUES ('{form[:9]}', {form}, {form}), ('now', now(), now())")
        (at, day), (now, today) = server.execute("SELECT at, d FROM times").fetchall()[-2:]
        if at is None:
            return at, day
        local = at.astimezone(KATHMANDU)
        midnight = local.time() == time(0)
        digits = re.search(r"\((\d)\)", form)
        rounded = local.microsecond % 10 ** (6 - min(6, int(digits[1]) if digits else 6)) == 0
        return midnight, rounded, midnight or abs(at - now) < timedelta(seconds=1), day - today

    with Postgres() as server, psycopg.connect(server.address, autocommit=True) as theirs:
        theirs.execute("CREATE TABLE times (form text, at timestamptz, d date)")
        theirs.execute("SET TimeZone = 'Asia/Kathmandu'")
        for form in FORMS:
            assert distances(connection, form) == distances(theirs, form), form
        for form in REFUSED:
            with pytest.raises(psycopg.Error):
                theirs.execute(f"INSERT INTO times (at) VALUES ({form})")


def test_a_read_after_an_insert_sees_what_came_in_between(running: Serving, address: str) -> None:
    sql = "INSERT INTO times VALUES ('between', now(), NULL)"
    with psycopg.connect(address) as connection, Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM arrivals (n INT)")
        connection.execute(sql, prepare=True)
        connection.commit()
        connection.execute(sql, prepare=True)  # a prepared statement reads nothing, so the snapshot comes later
        client.wait_for(client.push("arrivals", [{"n": 1}]).sequence)
        rows = connection.execute("SELECT n FROM arrivals BEGIN (NOW - 1 HOUR) END (NOW)").fetchall()
        assert rows == [(1,)], "NOW of a read is not before its snapshot"
        connection.execute(sql, prepare=True)
        connection.commit()
        instants = [at for at, _ in times(connection, "between")]
        assert len(instants) == 3 and len(set(instants)) == 2
