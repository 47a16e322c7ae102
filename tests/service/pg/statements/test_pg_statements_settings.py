"""Settings as SHOW writes them, and the schemas of the search path."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg2
import pytest

from psoup_client import Client
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def session(running: Serving) -> Iterator[Any]:
    """A cursor of a client. A stream and a view have one name, and another stream and view do not."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM both (n INT)")
        client.create_stream("CREATE STREAM plain (n INT)")
        client.push("both", [{"n": 1}, {"n": 2}])
        client.push("plain", [{"n": 5}])
        client.register("SELECT n FROM both WHERE n > 1", key="both")
        client.register("SELECT n + 1 AS n FROM both", key="view")
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    connection = psycopg2.connect(host=host, port=port, user="me", dbname="any")
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


def rows_of(session: Any, sql: str) -> list[Any]:
    """The rows of a statement; their only values, if they have one column."""
    session.execute(sql)
    return [row[0] if len(row) == 1 else row for row in session.fetchall()]


@pytest.mark.parametrize(
    ("written", "shown"),
    [("5000", "5s"), ("'90s'", "90s"), ("'90min'", "90min"), ("'1.5s'", "1500ms"), ("'600us'", "1ms"), ("0", "0")],
)
def test_times_are_shown_as_postgresql_shows_them(session: Any, written: str, shown: str) -> None:
    session.execute(f"SET statement_timeout = {written}")
    assert rows_of(session, "SHOW statement_timeout") == [shown]


def test_the_column_of_show_has_the_name_of_the_setting(session: Any) -> None:
    for sql, name in (("SHOW timezone", "TimeZone"), ("SHOW Server_Version", "server_version")):
        session.execute(sql)
        assert session.description[0].name == name


def test_a_name_is_looked_for_in_the_schemas_of_the_search_path(session: Any) -> None:
    assert rows_of(session, "SELECT current_schema(), current_schemas(false)") == [("streams", ["streams", "queries"])]
    assert rows_of(session, "SELECT n FROM both") == [1, 2]
    session.execute('SET search_path TO nowhere, "queries", STREAMS, pg_catalog')
    assert rows_of(session, "SELECT current_schema, current_schemas(true)") == [
        ("queries", ["queries", "streams", "pg_catalog"])
    ]
    assert rows_of(session, "SELECT n FROM both") == [2]
    assert rows_of(session, "SELECT * FROM view") == [2, 3]
    assert rows_of(session, "SELECT both.n + plain.n FROM both, plain") == [7]
    session.execute("SET SESSION search_path TO 'streams'")
    assert rows_of(session, "SELECT current_schema()") == ["streams"]
    assert rows_of(session, "SELECT n FROM both") == [1, 2]
    session.execute("RESET search_path")


def test_a_name_of_a_relation_may_have_quotes_and_capitals(session: Any) -> None:
    for name in ('"streams" . "plain"', "STREAMS.Plain", 'streams."plain"'):
        assert rows_of(session, f"SELECT '{name}'::regclass::oid = 'streams.plain'::regclass::oid") == [True], name
    assert rows_of(session, "SELECT to_regclass('\"Plain\"')") == [None]
