"""Rows `pg.catalogue.psql` and `pg.catalogue.inspector`: questions of tools about 10,000 queries, beside PostgreSQL.

    pg.catalogue.psql        `psql -c '\\d'`, with the start of psql
    pg.catalogue.inspector   SQLAlchemy's inspector: names, columns, keys, indexes and comments of all views

PostgreSQL has as many views as the service has queries with keys. The first round of both sides is warm-up.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

from benchmarks.answers.postgres_port import wait_until_open
from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Target, in_turns
from benchmarks.tool.run import Run
from psoup_client import Client

COLUMNS = "(sym TEXT, price DOUBLE PRECISION, n BIGINT)"
VIEW = "SELECT sym, price, n FROM trades WHERE n > "
_AT_MOST = Target(at_most=3)


def rows(run: Run) -> Iterator[Row]:
    """The rows of the catalogue. None without psycopg, SQLAlchemy, psql or PostgreSQL."""
    try:
        import psycopg
        import sqlalchemy

        server = PostgresServer()
    except (ImportError, Missing):
        return
    count, port = run.of(10_000, 10_000, 50), processes.free_port()
    try:
        _fill(psycopg, server.address, count)
        settings = {"PSOUP_PG_PORT": str(port)}
        with processes.served(Path(), durable=False, settings=settings) as service, Client(service.address) as client:
            client.execute("CREATE STREAM trades (sym TEXT, price DOUBLE, n BIGINT)")
            values = [{"n": number, "name": f"k{number}"} for number in range(count)]
            client.register_many(VIEW + "$n", values, key="name")
            address = f"postgresql://bench@127.0.0.1:{port}/bench"
            wait_until_open(psycopg, address)
            addresses = address, server.address
            if which("psql"):
                yield _row("pg.catalogue.psql", _described, addresses, "psql with \\d", run)
            inspect = lambda at: _inspected(sqlalchemy, at, count)  # noqa: E731
            yield _row("pg.catalogue.inspector", inspect, addresses, "SQLAlchemy's inspector", run)
    finally:
        server.close()


def _fill(psycopg: Any, address: str, count: int) -> None:
    """Make a stream's table and its views in PostgreSQL."""
    with psycopg.connect(address) as connection:
        connection.execute("CREATE SCHEMA streams")
        connection.execute("CREATE SCHEMA queries")
        connection.execute("ALTER DATABASE postgres SET search_path = streams, queries")
        connection.execute("SET search_path = streams, queries")
        connection.execute(f"CREATE TABLE streams.trades {COLUMNS}")
        for number in range(count):
            connection.execute(f"CREATE VIEW queries.k{number} AS {VIEW}{number}")


def _row(name: str, ask: Callable[[str], None], addresses: tuple[str, str], note: str, run: Run) -> Row:
    ours, theirs = addresses
    turns = [lambda: ask(ours), lambda: ask(theirs)]
    rates = in_turns(turns, [1, 1], run.of(5, 3, 1))
    times = [rate.wall.milliseconds_each() for rate in rates]
    return Row(name, times[0], "ms", "PostgreSQL", times[1], _AT_MOST, note)


def _described(address: str) -> None:
    subprocess.run(["psql", address, "-Xc", "\\d"], stdout=subprocess.DEVNULL, check=True)


def _inspected(sqlalchemy: Any, address: str, count: int) -> None:
    """Ask for all facts about the views. Fails if one is missing."""
    engine = sqlalchemy.create_engine(address.replace("postgresql://", "postgresql+psycopg://"))
    inspector = sqlalchemy.inspect(engine)
    scope = {"schema": "queries", "kind": sqlalchemy.engine.reflection.ObjectKind.ANY}
    assert len(inspector.get_view_names("queries")) >= count
    assert len(inspector.get_multi_columns(**scope)) >= count
    inspector.get_multi_pk_constraint(**scope)
    inspector.get_multi_indexes(**scope)
    inspector.get_multi_foreign_keys(**scope)
    inspector.get_multi_table_comment(**scope)
    assert inspector.get_table_names("streams") == ["trades"]
    engine.dispose()
