"""Transactions of PostgreSQL's clients read one snapshot with one NOW, while other clients push."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from psoup.errors import ResourceExhausted
from psoup_client import Client
from psoup_service.host.reads import held_snapshots
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def place(running: Serving) -> dict[str, Any]:
    """The arguments of connections to a service with two streams, a table and three queries."""
    with Client(running.address, timeout=60) as client:
        for name in ("a", "b"):
            client.create_stream(f"CREATE STREAM {name} (n INT)")
        client.execute("CREATE TABLE kept (k INT, v INT, PRIMARY KEY (k))")
        client.register("SELECT n FROM a", key="all")
        client.register("SELECT count(*) AS c, max(n) AS m FROM a BEGIN (NOW - 1 SECONDS)", key="recent")
        client.register("SELECT count(*) AS c FROM a JOIN b USING (n)", key="both")
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return {"host": host, "port": int(port), "user": "x", "dbname": "d"}


@pytest.fixture
def pushes(running: Serving, place: dict[str, Any]) -> Iterator[threading.Semaphore]:
    """Another client that pushes the same numbers to both streams, and to the table. Counts its rounds."""
    ended, rounds = threading.Event(), threading.Semaphore(0)

    def push() -> None:
        with Client(running.address, timeout=60) as client:
            number = client.ask("SELECT count(*) AS c FROM a").rows()[0][0]
            while not ended.is_set():
                for name in ("a", "b"):
                    client.push(name, {"n": [number]})
                client.push("kept", {"k": [number % 3], "v": [number]})
                number += 1
                rounds.release()

    thread = threading.Thread(target=push)
    thread.start()
    yield rounds
    ended.set()
    thread.join()


def test_a_connection_sees_the_rows_that_are_derived_from_its_own(running: Serving, place: dict[str, Any]) -> None:
    """By a SELECT from the stream, or from the view of a query. After an INSERT alone, and after a COMMIT."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM source (n INT)")
        client.execute("CREATE STREAM derived AS (SELECT n * 10 AS n FROM source)")
        client.register("SELECT n FROM derived", key="tens")
    with psycopg.connect(**place, autocommit=True) as connection:
        for number in range(1, 11):
            connection.execute("INSERT INTO source VALUES (%s)", (number,))
            wanted = [(10 * n,) for n in range(1, number + 1)]
            assert connection.execute("SELECT n FROM derived WHERE n > 0").fetchall() == wanted
            connection.execute("INSERT INTO source VALUES (0)")
            read = connection.execute(f"SELECT count(*) FROM {'derived' if number % 2 else 'tens'} WHERE n = 0")
            assert read.fetchall() == [(number,)]
            connection.execute("BEGIN")
            connection.execute("INSERT INTO source VALUES (-1)")
            connection.execute("COMMIT")
            assert len(connection.execute("SELECT n FROM derived WHERE n = -10").fetchall()) == number


def reaches(place: dict[str, Any], state: Callable[[], bool]) -> bool:
    """Whether the service reaches a state while it answers some hundred statements of another client."""
    with psycopg.connect(**place) as other:
        return any(state() or not other.execute("SHOW TimeZone").fetchall() for _ in range(2_000))


STATEMENTS = (
    "SELECT count(*), max(n) FROM streams.a",
    "SELECT count(*), max(n) FROM queries.all",
    "SELECT n FROM a",
    "SELECT * FROM queries.all",
    "SELECT * FROM queries.recent",
    "SELECT c, m FROM queries.recent",
    "SELECT * FROM queries.both",
    "SELECT k, v FROM kept ORDER BY k",
)


@pytest.mark.long
def test_all_statements_of_a_transaction_have_the_rows_of_one_moment(
    place: dict[str, Any], pushes: threading.Semaphore
) -> None:
    seen = set[int]()
    with psycopg.connect(**place) as connection:
        for _ in range(5):
            first = [connection.execute(sql).fetchall() for sql in STATEMENTS]
            while pushes.acquire(blocking=False):
                pass
            assert pushes.acquire(timeout=60), "another round was pushed"
            assert [connection.execute(sql).fetchall() for sql in STATEMENTS] == first
            (count, greatest), everything = first[0][0], first[2]
            assert first[1] == first[0]
            assert first[3] == everything
            assert (count, greatest) == (len(everything), max(everything, default=(None,))[0])
            assert first[4] == first[5]
            assert count - 1 <= first[6][0][0] <= count
            assert max([v for _, v in first[7]], default=count) in (count - 1, count - 2, count)
            seen.add(count)
            connection.commit()
        assert len(seen) > 1, "the pushes went on between the transactions"
        assert connection.execute("SELECT count(*) FROM a").fetchone() != (min(seen),)


def test_a_key_that_gets_another_query_keeps_its_answer_in_a_transaction(
    place: dict[str, Any], running: Serving
) -> None:
    with psycopg.connect(**place) as connection, Client(running.address, timeout=60) as client:
        client.register("SELECT count(*) AS c FROM b", key="moves")
        client.register("SELECT n FROM b WHERE n < 2", key="leaves")
        first = connection.execute("SELECT * FROM queries.moves").fetchall()
        client.register("SELECT count(*) + 1000 AS c FROM b", key="moves", replace=True)
        client.unregister(client.query(key="leaves"))
        client.create_stream("CREATE STREAM late_one (n INT)")
        assert connection.execute("SELECT * FROM queries.moves").fetchall() == first
        assert connection.execute("SELECT c FROM queries.moves").fetchall() == first
        assert connection.execute("SELECT * FROM queries.leaves").fetchall() is not None
        connection.commit()
        assert connection.execute("SELECT * FROM queries.moves").fetchall() == [(first[0][0] + 1000,)]
        with pytest.raises(psycopg.errors.UndefinedTable):
            connection.execute("SELECT * FROM queries.leaves")


def test_an_open_transaction_is_charged_and_may_be_given_up(
    place: dict[str, Any], running: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    pins = running.service.host.pins
    monkeypatch.setattr(held_snapshots, "HOLD_S", 0.0)
    with psycopg.connect(**place) as connection:
        connection.execute("SELECT count(*) FROM a")
        assert reaches(place, lambda: pins.streams == 1)
        (pin,) = pins._pins
        pin.end(ResourceExhausted("too much", reason="STREAM_BEHIND"))
        with pytest.raises(psycopg.Error, match="keep transactions short") as given_up:
            connection.execute("SELECT count(*) FROM a")
        assert given_up.value.sqlstate == "72000"
        connection.rollback()
        assert connection.execute("SELECT count(*) FROM a").fetchone() is not None
        connection.commit()
        connection.execute("SELECT 1 FROM a")
    assert reaches(place, lambda: pins.streams == 0)
