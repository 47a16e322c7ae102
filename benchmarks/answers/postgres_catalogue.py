"""Rows `pg.catalogue.*`: questions of tools about 10,000 queries, beside PostgreSQL with as many views.

    pg.catalogue.psql        `psql -c '\\d'`, with the start of psql
    pg.catalogue.inspector   SQLAlchemy's inspector: names, columns, keys, indexes and comments of all views
    pg.catalogue.follow      a registration or a CREATE VIEW, and a question that finds it
    pg.catalogue.fill        the first question, which fills the catalogue, beside the list of queries by the SDK

The first round of both sides is warm-up. Each round of `pg.catalogue.fill` has a new service.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

from benchmarks.answers.postgres_port import wait_until_open
from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, in_turns, seconds
from benchmarks.tool.run import Run
from psoup_client import Client

COLUMNS = "(sym TEXT, price DOUBLE PRECISION, n BIGINT)"
VIEW = "SELECT sym, price, n FROM trades WHERE n > "
_AT_MOST = Target(at_most=3)
FOLLOWED_MS = 100
"""The most milliseconds of a registration and a question that finds it: a person does not notice them."""


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
            _register(client, count)
            address = f"postgresql://bench@127.0.0.1:{port}/bench"
            wait_until_open(psycopg, address)
            addresses = address, server.address
            if which("psql"):
                yield _row("pg.catalogue.psql", _described, addresses, "psql with \\d", run)
            inspect = lambda at: _inspected(sqlalchemy, at, count)  # noqa: E731
            yield _row("pg.catalogue.inspector", inspect, addresses, "SQLAlchemy's inspector", run)
            yield _followed(psycopg, client, addresses, run)
    finally:
        server.close()
    yield _filled(psycopg, count, run)


def _register(client: Client, count: int) -> None:
    """Make a stream and its queries in the service."""
    client.execute("CREATE STREAM trades (sym TEXT, price DOUBLE, n BIGINT)")
    values = [{"n": number, "name": f"k{number}"} for number in range(count)]
    client.register_many(VIEW + "$n", values, key="name")


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


def _followed(psycopg: Any, client: Client, addresses: tuple[str, str], run: Run) -> Row:
    """A new query or view, and a question that must find it."""
    repeats, numbers = run.of(20, 20, 2), itertools.count()
    with (
        psycopg.connect(addresses[0], autocommit=True) as ours,
        psycopg.connect(addresses[1], autocommit=True) as theirs,
    ):

        def changed(connection: Any, define: Callable[[str], object]) -> None:
            for _ in range(repeats):
                name = f"new{next(numbers)}"
                define(name)
                assert connection.execute("SELECT relkind FROM pg_class WHERE relname = %s", (name,)).fetchone()

        turns = [
            lambda: changed(ours, lambda name: client.register(f"{VIEW} 1", key=name)),
            lambda: changed(theirs, lambda name: theirs.execute(f"CREATE VIEW queries.{name} AS {VIEW} 1")),
        ]
        rates = in_turns(turns, [repeats, repeats], run.of(5, 3, 1))
    times = [rate.wall.milliseconds_each() for rate in rates]
    note = "a definition, and a question that finds it"
    return Row("pg.catalogue.follow", times[0], "ms", "PostgreSQL", times[1], Target(value_at_most=FOLLOWED_MS), note)


def _filled(psycopg: Any, count: int, run: Run) -> Row:
    """The first question about the queries of a service, and the list of them by the SDK."""
    rounds = list[tuple[float, float]]()
    for _ in range(run.of(2, 2, 1) + 1):
        port = processes.free_port()
        settings = {"PSOUP_PG_PORT": str(port)}
        with processes.served(Path(), durable=False, settings=settings) as service, Client(service.address) as client:
            _register(client, count)
            address = f"postgresql://bench@127.0.0.1:{port}/bench"
            wait_until_open(psycopg, address)
            with psycopg.connect(address, autocommit=True) as connection:
                views = "SELECT count(*) FROM pg_views WHERE schemaname = 'queries'"
                ours = seconds(lambda: connection.execute(views).fetchone())  # noqa: B023
                assert connection.execute(views).fetchone() == (count,)
                rounds.append((1e3 * ours, 1e3 * seconds(lambda: list(client.queries()))))
    ours_of, theirs_of = (Sample.of(values) for values in zip(*rounds[1:], strict=True))
    note = "first question to a new service"
    return Row("pg.catalogue.fill", ours_of, "ms", "the SDK's list", theirs_of, _AT_MOST, note)


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
