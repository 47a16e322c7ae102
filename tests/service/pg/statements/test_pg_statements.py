"""Statements of PostgreSQL's clients: SELECTs over streams and views, settings, transactions, and refusals."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import psycopg2
import psycopg2.errors
import pytest

from psoup_client import Client
from psoup_proto.v1 import types_pb2
from psoup_service.assistants.facts import completeness_facts
from psoup_service.pg.statements.completeness import notice_of
from psoup_service.pg.statements.reads import Reads
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def place(running: Serving) -> str:
    """The connection string of a service with two streams and four queries."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM trades (sym TEXT, price DOUBLE, n INT)")
        client.create_stream("CREATE STREAM quotes (sym TEXT, bid DOUBLE)")
        rows = [{"sym": "AB"[n % 2], "price": n / 2, "n": n} for n in range(1, 21)]
        client.push("trades", rows)
        client.push("quotes", [{"sym": "A", "bid": 1.5}, {"sym": "B", "bid": 2.5}])
        client.register("SELECT sym, price FROM trades WHERE price > 8 BEGIN (NOW - 1 HOUR)", key="hot")
        client.register("SELECT sym, count(*) AS c FROM trades GROUP BY sym BEGIN (NOW - 5 ROWS)", key="Last five")
        client.register("SELECT sym, max(bid) AS bid FROM quotes GROUP BY sym -- best", key="best")
        client.register("SELECT t.sym, q.bid FROM trades t, quotes [RANGE 1 HOUR] q WHERE t.sym = q.sym", key="j")
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return f"host={host} port={port} user=anybody dbname=any"


@pytest.fixture
def session(place: str) -> Iterator[Any]:
    """A cursor of a connection without transactions."""
    connection = psycopg2.connect(place)
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


def rows_of(cursor: Any, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    cursor.execute(sql)
    return list(cursor.fetchall())


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT * FROM queries.hot", [("B", 8.5), ("A", 9.0), ("B", 9.5), ("A", 10.0)]),
        ('SELECT * FROM "queries"."Last five"', [("A", 3), ("B", 2)]),
        ("SELECT count(*) FROM queries.hot WHERE sym = 'A'", [(2,)]),
        ("SELECT hot.sym, max(price) FROM hot GROUP BY hot.sym ORDER BY 2 DESC LIMIT 1", [("A", 10.0)]),
        ('SELECT l.sym, c FROM queries."Last five" AS l WHERE c > 2', [("A", 3)]),
        (
            'SELECT h.price, b.bid, l.c FROM queries.hot h JOIN queries.best b USING (sym) JOIN queries."Last five" l'
            " USING (sym) ORDER BY price",
            [(8.5, 2.5, 2), (9.0, 1.5, 3), (9.5, 2.5, 2), (10.0, 1.5, 3)],
        ),
        (
            "SELECT streams.trades.n, best.bid FROM streams.trades JOIN queries.best ON streams.trades.sym = best.sym"
            " BEGIN (NOW - 2 ROWS)",
            [(19, 2.5), (20, 1.5)],
        ),
        ("SELECT count(*) FROM (SELECT bid FROM queries.j UNION SELECT price FROM queries.hot) t", [(6,)]),
        ("WITH v AS (SELECT * FROM queries.hot) SELECT count(*) FROM v, streams.quotes [ROWS 1] q", [(4,)]),
        (
            "SELECT count(*) FROM trades GROUP BY"
            " hop(make_timestamp(n * 60000000), INTERVAL '10 minutes', INTERVAL '20 minutes')",
            [(9,), (19,), (11,), (1,)],
        ),
        ('SELECT n FROM trades WHERE n IN (SELECT c FROM queries."Last five") ORDER BY n', [(2,), (3,)]),
    ],
)
def test_a_view_has_the_rows_of_its_querys_answer(session: Any, sql: str, rows: list[tuple[Any, ...]]) -> None:
    assert rows_of(session, sql) == rows


def test_faults_in_views_and_streams_have_their_places(session: Any) -> None:
    for sql, state, position in (
        ("SELECT streams.trades.sym, nope FROM streams.trades", "42703", 28),
        ('SELECT sym, prce FROM queries."hot"', "42703", 13),
        ("SELECT 1 FROM queries.nope", "42P01", 15),
        ("SELECT 1 FROM nope", "42P01", 15),
        ("SELECT 1 FROM queries.hot [ROWS 3]", "42601", 27),
    ):
        with pytest.raises(psycopg2.Error) as refused:
            session.execute(sql)
        assert (refused.value.pgcode, refused.value.diag.statement_position) == (state, str(position)), sql


def test_settings_choose_the_time_and_the_window_of_all_later_statements(session: Any, place: str) -> None:
    session.execute("SET psoup.window = 'BEGIN (NOW - 3 ROWS)'")
    assert rows_of(session, "SELECT n FROM trades") == [(18,), (19,), (20,)]
    session.execute("RESET ALL; SET psoup.as_of TO '2020-01-01'")
    assert rows_of(session, "SELECT count(*) FROM trades") == [(0,)]
    assert rows_of(session, "SELECT * FROM queries.hot") == []
    with pytest.raises(psycopg2.errors.InvalidParameterValue):
        session.execute("SET psoup.as_of TO 'soon'")
    with pytest.raises(psycopg2.Error):
        session.execute("SET psoup.window TO 'BEGIN'")
    started = psycopg2.connect(place, options=r"-c psoup.window=BEGIN\ (NOW\ -\ 2\ ROWS) --application_name=a")
    cursor = started.cursor()
    assert rows_of(cursor, "SELECT n FROM trades; ") == [(19,), (20,)]
    assert rows_of(cursor, "SHOW application_name") == [("a",)]
    started.close()
    with pytest.raises(psycopg2.OperationalError, match="unrecognized configuration parameter"):
        psycopg2.connect(place, options="-c no_such_setting=1")


def test_statements_that_clients_send_by_themselves_succeed(session: Any) -> None:
    for sql, tag in (
        ("SET extra_float_digits = 3", "SET"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", "SET"),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", "SET"),
        ("SET application_name TO 'x''y'", "SET"),
        ("SET client_encoding TO 'UNICODE'", "SET"),
        ("SET NAMES 'utf8'", "SET"),
        ("SET DateStyle = ISO, DMY", "SET"),
        ('SET search_path TO streams, "$user"', "SET"),
        ("SET SESSION AUTHORIZATION DEFAULT", "SET"),
        ("SET my.own = 'value'", "SET"),
        ("BEGIN TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY NOT DEFERRABLE", "BEGIN"),
        ("SET LOCAL statement_timeout = '5s'", "SET"),
        ("SAVEPOINT one", "SAVEPOINT"),
        ("RELEASE SAVEPOINT one", "RELEASE"),
        ("COMMIT WORK", "COMMIT"),
        ("START TRANSACTION READ WRITE", "START TRANSACTION"),
        ("ROLLBACK AND CHAIN", "ROLLBACK"),
        ("END", "COMMIT"),
        ("DEALLOCATE ALL", "DEALLOCATE ALL"),
        ("CLOSE ALL", "CLOSE CURSOR ALL"),
        ("/* reset */ RESET ALL -- all", "RESET"),
        ("DISCARD ALL", "DISCARD ALL"),
    ):
        session.execute(sql)
        assert session.statusmessage == tag, sql
    for sql, value in (
        ("SHOW transaction_isolation", "repeatable read"),
        ("SHOW TRANSACTION ISOLATION LEVEL", "repeatable read"),
        ("SHOW standard_conforming_strings", "on"),
        ("show TimeZone", "UTC"),
        ("SHOW statement_timeout", "0"),
        ("SELECT pg_advisory_unlock_all()", ""),
    ):
        assert rows_of(session, sql) == [(value,)], sql


def test_a_change_of_a_setting_ends_with_the_transaction_that_is_rolled_back(session: Any) -> None:
    session.execute("BEGIN; SET TIME ZONE 'Europe/Berlin'; SET LOCAL application_name = 'inner'")
    assert session.connection.get_parameter_status("TimeZone") == "Europe/Berlin"
    session.execute("ROLLBACK")
    assert rows_of(session, "SHOW TIME ZONE") == [("UTC",)]
    assert session.connection.get_parameter_status("TimeZone") == "UTC"
    session.execute("BEGIN; SET TIME ZONE 'Asia/Tokyo'; SET LOCAL application_name = 'inner'; COMMIT")
    assert rows_of(session, "SHOW TimeZone") == [("Asia/Tokyo",)]
    assert rows_of(session, "SHOW application_name") == [("",)]


def test_a_failed_transaction_refuses_statements_up_to_its_end(session: Any) -> None:
    session.execute("BEGIN; SAVEPOINT s")
    with pytest.raises(psycopg2.errors.UndefinedColumn):
        session.execute("SELECT nope FROM trades")
    for sql in ("SELECT n FROM trades", "SHOW TimeZone", "BEGIN"):
        with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
            session.execute(sql)
    session.execute("ROLLBACK TO SAVEPOINT s")
    assert len(rows_of(session, "SELECT n FROM trades")) == 20
    with pytest.raises(psycopg2.errors.InvalidSavepointSpecification):
        session.execute("ROLLBACK TO t")
    session.execute("COMMIT")
    assert session.statusmessage == "ROLLBACK"
    assert len(rows_of(session, "SELECT n FROM trades")) == 20


def test_other_statements_are_refused_by_their_names(session: Any) -> None:
    for sql, name, position in (
        ("CREATE TEMP TABLE t (a int)", "CREATE TABLE", 1),
        ("  -- now\n UPDATE trades SET n = 1", "UPDATE", 11),
        ("DELETE FROM trades", "DELETE", 1),
        ("DROP VIEW v", "DROP VIEW", 1),
        ("VACUUM", "VACUUM", 1),
        ("GRANT SELECT ON trades TO x", "GRANT", 1),
        ("DO $$ x $$", "DO", 1),
        ("NOTIFY a", "NOTIFY", 1),
        ("PREPARE TRANSACTION 'x'", "PREPARE TRANSACTION", 9),
        ("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE", "ISOLATION LEVEL SERIALIZABLE", 33),
    ):
        with pytest.raises(psycopg2.errors.FeatureNotSupported, match=f"{name} is not supported") as refused:
            session.execute(sql)
        assert refused.value.diag.statement_position == str(position), sql
    with pytest.raises(psycopg2.errors.FeatureNotSupported) as refused:
        session.execute("DELETE FROM trades")
    assert "(…, _deleted) VALUES (…, true)" in str(refused.value.diag.message_hint)
    with pytest.raises(psycopg2.errors.FeatureNotSupported) as refused:
        session.execute("SELECT n FROM trades AS OF TIMESTAMP '2026-07-01'")
    assert "SET psoup.as_of = '2026-07-01 12:30'" in str(refused.value.diag.message_hint)
    with pytest.raises(psycopg2.errors.SyntaxError, match="FROM is missing"):
        session.execute("SELECT")
    with pytest.raises(psycopg2.errors.UndefinedObject, match="did you mean 'DateStyle'"):
        session.execute("SET datestile = 'x'")
    with pytest.raises(psycopg2.errors.SyntaxError):
        session.execute("SET application_name 'x'")


def test_the_completeness_of_an_answer_is_a_notice_that_a_client_may_silence(session: Any) -> None:
    notices = session.connection.notices
    session.execute("SELECT n FROM trades")
    assert len(notices) == 1
    assert notices[0].startswith("NOTICE:  complete up to event ")
    assert "rows may still come" in notices[0]
    del notices[:]
    session.execute("SET psoup.as_of = '2020-01-01'; SELECT n FROM trades; COMMIT")
    assert notices == ["NOTICE:  final\n", "WARNING:  there is no transaction in progress\n"]
    del notices[:]
    session.execute("SET client_min_messages = warning; SELECT n FROM trades; COMMIT")
    assert notices == ["WARNING:  there is no transaction in progress\n"]


def test_the_notice_of_a_table_says_that_rows_may_leave() -> None:
    contents = types_pb2.Completeness(sequence=7, window_kind=types_pb2.WINDOW_KIND_TABLE, pending=3, unknown=2)
    lacks = "without 3 tuples waiting for the watermark, 2 rows with an unknown version"
    said = f"complete up to event 7; rows may come and leave; {lacks}"
    assert notice_of(contents).message == said


def test_the_notice_and_the_facts_name_what_is_missing_of_a_derived_stream() -> None:
    gap = types_pb2.Gap()
    gap.end.FromJsonString("2026-03-01T00:05:00Z")
    delay = types_pb2.Delay(stream="x", why="it is full")
    delay.since.FromJsonString("2026-03-01T00:06:00Z")
    contents = types_pb2.Completeness(sequence=7, halt="waiting", delay=delay, gaps=[gap])
    missing = (
        "the derived stream x waits for room in memory since 2026-03-01T00:06:00Z: it is full; the derived stream lacks"
        " rows from the beginning to 2026-03-01T00:05:00Z"
    )
    assert notice_of(contents).message == f"complete up to event 7; rows may still come; {missing}"
    facts = completeness_facts(contents)
    assert facts.said == f"The answer reflects event 7, and may change; {missing}."
    assert facts.halt == "waiting"


def test_prepared_statements_of_sql(session: Any) -> None:
    session.execute('PREPARE five AS SELECT sym FROM queries."Last five"; EXECUTE five')
    assert session.fetchall() == [("A",), ("B",)]
    with pytest.raises(psycopg2.Error, match="already exists"):
        session.execute("PREPARE five AS SELECT 1 FROM trades")
    with pytest.raises(psycopg2.errors.SyntaxError, match="'PREPARE' is not expected here"):
        session.execute("PREPARE p AS PREPARE q AS SELECT 1 FROM trades")
    session.execute("PREPARE of (text, double precision) AS SELECT n FROM trades WHERE sym = $1 AND price > $2")
    assert rows_of(session, "EXECUTE of ('A', 9)") == [(20,)]
    session.execute("DEALLOCATE five")
    with pytest.raises(psycopg2.errors.InvalidSqlStatementName):
        session.execute("EXECUTE five")


def test_names_of_savepoints_end_after_63_characters_and_those_of_statements_count(session: Any) -> None:
    long = "s" * 60_000
    for sql in ("BEGIN", f'SAVEPOINT "{long}"', f"ROLLBACK TO {'s' * 63}", f'RELEASE "{long}"', "ROLLBACK"):
        session.execute(sql)
    for number in range(69):
        session.execute(f'PREPARE "{long}{number}" AS SELECT n FROM trades')
    with pytest.raises(psycopg2.Error, match="too many prepared statements"):
        session.execute(f'PREPARE "{long}" AS SELECT n FROM trades')
    session.execute("DEALLOCATE ALL")


def test_a_statement_that_takes_longer_than_its_timeout_is_ended(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Reads, "ask", never)
    session.execute("SET statement_timeout = '20ms'")
    with pytest.raises(psycopg2.errors.QueryCanceled, match="statement timeout"):
        session.execute("SELECT n FROM trades")
    monkeypatch.undo()
    session.execute("SET statement_timeout = 0; SELECT n FROM trades LIMIT 1")
    assert session.fetchall() == [(1,)]
