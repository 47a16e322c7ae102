"""A client of PostgreSQL asks streams, and reads errors with position and hint."""

from __future__ import annotations

import psycopg2
import pytest

from psoup_client import Client
from psoup_testing.pg.script import pg_address
from psoup_testing.pg.socket import SYNC, PgSocket, bind, execute, parse, query
from psoup_testing.services.threaded_service import Serving


@pytest.fixture(scope="module")
def address(running: Serving) -> str:
    """The address of a service with a stream of two tuples."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM trades (sym TEXT, price DOUBLE, n INT)")
        client.push("trades", [{"sym": "A", "price": 1.5, "n": 3}, {"sym": "B", "price": 2.5, "n": None}])
        client.ask("SELECT n FROM trades")  # once the tuples are visible, as clients of PostgreSQL do not wait for them
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    return f"host={host} port={port} user=anybody dbname=any"


def test_a_select_returns_its_rows_as_text(address: str) -> None:
    connection = psycopg2.connect(address)
    cursor = connection.cursor()
    connection.autocommit = True
    cursor.execute("SELECT sym, price, n FROM trades WHERE price > 1")
    assert cursor.fetchall() == [("A", 1.5, 3), ("B", 2.5, None)]
    assert cursor.rowcount == 2
    connection.close()


def test_an_error_has_a_state_a_position_and_a_hint(address: str) -> None:
    connection = psycopg2.connect(address)
    connection.autocommit = True
    with pytest.raises(psycopg2.errors.UndefinedColumn) as refused:
        connection.cursor().execute("SELECT sym, prce FROM trades")
    assert refused.value.diag.statement_position == "13"
    assert refused.value.diag.message_hint == "did you mean 'price'?"
    cursor = connection.cursor()
    cursor.execute("SELECT sym FROM trades WHERE n = 3")
    assert cursor.fetchall() == [("A",)]
    connection.close()


def test_a_text_of_comments_is_an_empty_query(address: str, running: Serving) -> None:
    with PgSocket(pg_address(running)) as client:
        client.start()
        client.send(query("-- ping"))
        assert client.kinds() == "IZ"
        client.send(query("SELECT n FROM trades WHERE n = 3; /* the end */"))
        assert client.kinds() == "TDNCZ"
        client.send(parse("/* ping */"), bind(), execute(), SYNC)
        assert client.kinds() == "12IZ"
