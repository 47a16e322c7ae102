"""Row `cdc`: 100,000 changes of a table of PostgreSQL, until they are in a table of a durable service.

    PostgreSQL ── 100 transactions of 1,000 updates ──> psoup_cdc ──> service     to the last reply
    a producer ── 100 batches of the same rows ───────> service                   to the last reply

The rows of the producer are dicts of Python values, as drivers of databases give them. The changes
stand in the log of PostgreSQL when the clock starts, so only decoding and pushing are measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.peers import Missing
from benchmarks.peers.postgres import PostgresServer
from benchmarks.tool import processes
from benchmarks.tool.measure import Row, Sample, Target, seconds
from benchmarks.tool.run import Run
from psoup_client import Client

ROWS = 10_000
TRANSACTIONS, CHANGES = 100, 1_000
CREATE = "CREATE TABLE ads (id bigint PRIMARY KEY, title text, price numeric(9,2), seen timestamptz, clicks int)"
NAME = "the same rows by an SDK producer"


def rows(run: Run) -> Iterator[Row]:
    """Changes a second. No row where PostgreSQL or psycopg2 is not installed."""
    samples, transactions = run.of(5, 3, 1), run.of(TRANSACTIONS, TRANSACTIONS, 2)
    try:
        import psycopg2

        server = PostgresServer({"wal_level": "logical", "shared_buffers": "256MB"}, psycopg2)
    except (ImportError, Missing):
        return
    try:
        server.run(CREATE)
        made = f"SELECT n, 'ad ' || n, n / 100.0, now(), 0 FROM generate_series(0, {ROWS - 1}) n"
        server.run(f"INSERT INTO ads {made}")
        with processes.service(durable=True) as address, Client(address) as client:
            yield _row(client, server, transactions, samples)
    finally:
        server.close()


def _row(client: Client, server: PostgresServer, transactions: int, samples: int) -> Row:
    from psoup_cdc import PostgresSource, Start, TableFeed, TargetTable, statement_for

    with PostgresSource(server.address, "ads") as source:
        table = source.describe("ads")
        for name in ("ads", "copied"):
            client.execute(statement_for(name, table))
        start = Start.of(TargetTable.of(client.describe("ads")), source, table)
        TableFeed(client, source, start).prepare()
        rounds = list[tuple[float, float]]()
        for _ in range(samples + 1):
            _change(server, transactions)
            feed = TableFeed(client, source, start, until_now=True)
            ours = seconds(feed.run)
            assert feed.figures.changes == transactions * CHANGES
            batches = _batches(server, transactions)
            theirs = seconds(lambda batches=batches: _upsert(client, batches))  # type: ignore[misc]
            rounds.append((transactions * CHANGES / ours, transactions * CHANGES / theirs))
        ask = "SELECT count(*) AS n, sum(clicks) AS clicks FROM ads"
        [(count, clicks)] = _all(server, ask)
        assert client.ask(ask).to_arrow().to_pylist() == [{"n": count, "clicks": clicks}]
    ours_of, theirs_of = (Sample.of(list(values)) for values in zip(*rounds[1:], strict=True))
    return Row("cdc", ours_of, "changes/s", NAME, theirs_of, Target(at_least=0.5), f"{CHANGES} changes a transaction")


def _change(server: PostgresServer, transactions: int) -> None:
    for place in range(transactions):
        first = place * CHANGES % ROWS
        server.run(f"UPDATE ads SET clicks = clicks + 1 WHERE id >= {first} AND id < {first + CHANGES}")


def _batches(server: PostgresServer, transactions: int) -> list[list[dict[str, Any]]]:
    """The rows of the transactions, as a driver of PostgreSQL gives them."""
    names = ("id", "title", "price", "seen", "clicks")
    statement = "SELECT {} FROM ads WHERE id >= {} AND id < {}"
    batches = list[list[dict[str, Any]]]()
    for place in range(transactions):
        first = place * CHANGES % ROWS
        some = _all(server, statement.format(", ".join(names), first, first + CHANGES))
        batches.append([dict(zip(names, row, strict=True)) for row in some])
    return batches


def _upsert(client: Client, batches: list[list[dict[str, Any]]]) -> None:
    with client.producer("copied") as producer:
        for batch in batches:
            producer.upsert(batch)


def _all(server: PostgresServer, statement: str) -> list[tuple[Any, ...]]:
    with server.connection.cursor() as cursor:
        cursor.execute(statement)
        return list(cursor.fetchall())
