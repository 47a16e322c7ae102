"""A table that follows a table of PostgreSQL: after each step both have the same rows, and each change came once.

    PostgreSQL   first rows | UPDATE, DELETE, new keys, TOAST, TRUNCATE | refusals at the start | ALTER TABLE
    PSoup        one stage    one batch for each transaction

The server is a process of its own, with a directory in memory.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("psycopg2", reason="psycopg2 is not installed (the extra psoup[postgres])")

from psoup_cdc import PostgresSource, Start, TableFeed, TargetTable, slot_name, statement_for
from psoup_client import Client, FailedPrecondition, InvalidData, InvalidRequest, NotFound, PSoupError, Unavailable
from psoup_testing.oracles.questions import again
from psoup_testing.services import postgres
from psoup_testing.services.command import Psoup
from psoup_testing.services.postgres import Postgres

pytestmark = [pytest.mark.long, pytest.mark.skipif(bool(postgres.missing()), reason=postgres.missing() or "-")]


@pytest.fixture(scope="module")
def server() -> Iterator[Postgres]:
    with Postgres() as running:
        yield running


@pytest.fixture
def clean(server: Postgres, client: Client) -> Iterator[Postgres]:
    """The server without slots and tables, and the service without tables."""
    yield server
    for name in server.slots():
        with PostgresSource(server.address, name) as source:
            source.drop_slot()
    for (name,) in server.run("SELECT pubname FROM pg_publication"):
        server.run(f"DROP PUBLICATION {name}")
    server.run("DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    for info in client.streams():
        if info.primary_key:
            client.drop(info.name, cascade=True)


def follow(client: Client, server: Postgres, table: str = "t", **more: Any) -> Any:
    """Follow a table up to now. Creates it if it is missing."""
    with PostgresSource(server.address, more.pop("slot", slot_name(table))) as source:
        described = source.describe(more.pop("source", table))
        try:
            info = client.describe(table)
        except NotFound:
            client.execute(statement_for(table, described))
            info = client.describe(table)
        start = Start.of(TargetTable.of(info), source, described)
        return TableFeed(client, source, start, until_now=True, patience=20, **more).run()


def rows(client: Client, columns: str, table: str = "t") -> list[tuple[Any, ...]]:
    answer = again(client.ask, f"SELECT {columns} FROM {table}").to_arrow()
    return sorted(map(tuple, zip(*(column.to_pylist() for column in answer.columns), strict=True)), key=repr)


def same(client: Client, server: Postgres, columns: str, table: str = "t") -> list[tuple[Any, ...]]:
    """The rows of both sides, which are the same."""
    expected = sorted(server.run(f"SELECT {columns} FROM {table}"), key=repr)
    assert rows(client, columns, table) == expected
    return expected


def test_the_first_rows_and_changes_come_with_all_types(clean: Postgres, client: Client) -> None:
    server = clean
    server.run(
        """CREATE TABLE t (id int PRIMARY KEY, name text NOT NULL, short varchar(9), born date, seen timestamptz,
        at timestamp, price numeric(9,2), ok boolean, f float8, tags text[], doc jsonb, u uuid, small int2)""",
        """INSERT INTO t SELECT n, E'a"b\\n,' || n, CASE n % 3 WHEN 0 THEN NULL WHEN 1 THEN '' ELSE 'ü🌍' END,
        DATE '2000-02-29' + n, '2024-03-01 12:00:00.25+02', '1969-12-31 23:59:59.5', n * 1.25, n % 2 = 0, 1.0 / n,
        ARRAY['x', NULL], '{"a": 1}', '6f1f6f0e-0000-4000-8000-000000000000', -n FROM generate_series(1, 500) n""",
    )
    columns = "id, name, short, born, price, ok, f, small"
    figures = follow(client, server)
    assert (figures.copied, figures.transactions) == (500, 0)
    assert len(same(client, server, columns)) == 500
    [(seen, at, tags, doc, u)] = rows(client, "seen, at, tags, doc, u", "t WHERE id = 7")
    assert (seen.isoformat(), at.isoformat()) == (
        "2024-03-01T10:00:00.250000+00:00",
        "1969-12-31T23:59:59.500000+00:00",
    )
    assert (tags, doc, u) == ("{x,NULL}", '{"a": 1}', "6f1f6f0e-0000-4000-8000-000000000000")
    server.run("UPDATE t SET name = 'new', short = NULL, f = 'NaN' WHERE id = 1", "DELETE FROM t WHERE id % 2 = 0")
    server.run("UPDATE t SET id = 1000 WHERE id = 3", "INSERT INTO t (id, name) VALUES (3, 'again')")
    figures = follow(client, server)
    assert (figures.copied, figures.transactions, figures.changes) == (None, 2, 251 + 3)
    assert len(same(client, server, "id, name, short, born, price, ok")) == 251
    assert client.describe("t").next_tuple_id == 500 + 251 + 3
    assert follow(client, server).changes == 0
    server.run("TRUNCATE t", "INSERT INTO t (id, name) VALUES (5, 'five')")
    follow(client, server)
    assert same(client, server, "id, name") == [(5, "five")]


def test_large_values_that_did_not_change_are_those_of_the_version_before(clean: Postgres, client: Client) -> None:
    """PostgreSQL leaves them out: they come from the transaction, the table, or the whole row (FULL)."""
    server = clean
    server.run(
        "CREATE TABLE t (a int, b text, n int, doc text, PRIMARY KEY (a, b))",
        "ALTER TABLE t ALTER doc SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT n, 'k' || n, 0, repeat(md5(n::text), 200) FROM generate_series(1, 5) n",
    )
    follow(client, server)
    server.run("UPDATE t SET n = 1 WHERE a < 3")
    server.run("UPDATE t SET n = 2 WHERE a = 1", "UPDATE t SET n = 3 WHERE a = 1", "UPDATE t SET b = 'z' WHERE a = 1")
    server.run("UPDATE t SET doc = repeat('x', 9000) WHERE a = 2", "UPDATE t SET n = 7 WHERE a = 2")
    server.run("INSERT INTO t VALUES (9, 'new', 0, repeat('y', 9000))", "UPDATE t SET a = 10, n = 4 WHERE a = 9")
    follow(client, server)
    assert len(same(client, server, "a, b, n, doc")) == 6
    server.run("INSERT INTO t SELECT n, 'many', 0, repeat(md5(n::text), 90) FROM generate_series(1, 450) n")
    follow(client, server)
    server.run("UPDATE t SET n = 8", "UPDATE t SET b = 'more' WHERE a > 440")
    follow(client, server)
    assert len(same(client, server, "a, b, n, doc")) == 456
    server.run("TRUNCATE t", "INSERT INTO t VALUES (1, 'k', 0, repeat('z', 9000))", "UPDATE t SET n = 5")
    server.run("ALTER TABLE t REPLICA IDENTITY FULL")
    server.run("UPDATE t SET n = 6", "UPDATE t SET a = 2")
    follow(client, server)
    assert [row[:3] for row in same(client, server, "a, b, n, doc")] == [(2, "k", 6)]


def test_a_partitioned_table_is_followed_as_one_table(clean: Postgres, client: Client) -> None:
    """Each partition has its own order of columns, a new one comes later, and rows move to another one."""
    server = clean
    server.run(
        "CREATE TABLE t (k int, v int, doc text, PRIMARY KEY (k)) PARTITION BY RANGE (k)",
        "CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100)",
        "CREATE TABLE high (doc text, gone int, v int, k int NOT NULL)",
        "ALTER TABLE high DROP COLUMN gone",
        "ALTER TABLE t ATTACH PARTITION high FOR VALUES FROM (100) TO (200)",
        "ALTER TABLE high ALTER doc SET STORAGE EXTERNAL",
        "INSERT INTO t SELECT n, 0, repeat('d', 3000) FROM generate_series(0, 199) n",
    )
    assert follow(client, server).copied == 200
    same(client, server, "k, v, doc")
    server.run("UPDATE t SET v = 1 WHERE k % 2 = 0", "DELETE FROM high WHERE k > 150")
    server.run("CREATE TABLE later PARTITION OF t FOR VALUES FROM (200) TO (300) PARTITION BY RANGE (k)")
    server.run(
        "CREATE TABLE last PARTITION OF later DEFAULT", "INSERT INTO t SELECT n, 2 FROM generate_series(200, 220) n"
    )
    server.run("UPDATE t SET k = k + 200 WHERE k BETWEEN 50 AND 60")
    follow(client, server)
    assert len(same(client, server, "k, v, doc")) == 151 + 21
    server.run("TRUNCATE t", "INSERT INTO t VALUES (7, 7, 'seven')")
    follow(client, server)
    assert same(client, server, "k, v, doc") == [(7, 7, "seven")]


@pytest.mark.parametrize("seed", range(3))
def test_random_transactions_leave_the_same_rows(clean: Postgres, client: Client, seed: int) -> None:
    server, chance, steps = clean, random.Random(seed), 40
    server.run(
        "CREATE TABLE t (k int PRIMARY KEY, v int NOT NULL, doc text)", "ALTER TABLE t ALTER doc SET STORAGE EXTERNAL"
    )
    server.run("INSERT INTO t SELECT n, 0, repeat('d', 3000) FROM generate_series(1, 10) n")
    for step in range(steps):
        statements = []
        for _ in range(chance.randrange(1, 5)):
            k, other = chance.randrange(12), chance.randrange(12)
            upsert = f"INSERT INTO t VALUES ({k}, {step}, repeat('{step}', 2000)) ON CONFLICT (k) DO UPDATE SET v = 9"
            statements.append(
                chance.choice(
                    [
                        upsert,
                        f"UPDATE t SET v = v + 1 WHERE k < {k}",
                        f"UPDATE t SET k = {other} WHERE k = {k} AND NOT EXISTS (SELECT FROM t WHERE k = {other})",
                        f"UPDATE t SET doc = NULL WHERE k = {k}",
                        f"DELETE FROM t WHERE k = {k}",
                        *(["TRUNCATE t"] if chance.random() < 0.1 else []),
                    ]
                )
            )
        if chance.random() < 0.1:
            statements.append("ROLLBACK")
        server.run(*statements)
        if chance.random() < 0.3:
            follow(client, server)
            same(client, server, "k, v, doc")
    follow(client, server)
    same(client, server, "k, v, doc")


@pytest.mark.parametrize(
    ("source", "columns", "words"),
    [
        ("CREATE TABLE t (a int)", None, "has no primary key"),
        ("CREATE TABLE t (a int)", "a BIGINT, PRIMARY KEY (a)", "its updates and deletions have no key"),
        (
            "CREATE TABLE t (a int PRIMARY KEY); ALTER TABLE t REPLICA IDENTITY NOTHING",
            None,
            "REPLICA IDENTITY NOTHING",
        ),
        ("CREATE TABLE t (a int PRIMARY KEY, b int)", "a BIGINT, b BIGINT, PRIMARY KEY (b)", r"its key is \(a\)"),
        (
            "CREATE TABLE t (a int PRIMARY KEY)",
            "a BIGINT, c TEXT, PRIMARY KEY (a)",
            "column 'c' of table 't' is not there",
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY, g int GENERATED ALWAYS AS (a * 2) STORED)",
            "a BIGINT, g BIGINT, PRIMARY KEY (a)",
            "is a generated column",
        ),
        ("CREATE TABLE t (a text PRIMARY KEY)", "a BIGINT, PRIMARY KEY (a)", "column 'a' of table 't' is a BIGINT"),
        ("CREATE TABLE t (a numeric PRIMARY KEY)", None, "column 'a' is a NUMERIC that no DECIMAL"),
        ("CREATE VIEW t AS SELECT 1 AS a", None, "public.t is a view"),
        (
            "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY RANGE (a); CREATE TABLE u PARTITION OF t DEFAULT;"
            " ALTER TABLE u REPLICA IDENTITY NOTHING",
            None,
            "the partition public.u of public.t has REPLICA IDENTITY NOTHING",
        ),
        (
            "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY RANGE (a);"
            " ALTER TABLE t REPLICA IDENTITY USING INDEX t_pkey",
            None,
            "the partitioned table public.t has REPLICA IDENTITY USING INDEX",
        ),
        ("CREATE TABLE t (a int) PARTITION BY RANGE (a)", None, "has no primary key"),
        ("CREATE TABLE other (a int)", None, "PostgreSQL has no table t"),
    ],
)
def test_what_cannot_be_followed_is_refused_by_name(
    clean: Postgres, client: Client, source: str, columns: str | None, words: str
) -> None:
    clean.run(source)
    if columns is not None:
        client.execute(f"CREATE TABLE t ({columns})")
    with pytest.raises((FailedPrecondition, NotFound), match=words):
        follow(client, clean)
    assert clean.slots() == []


def test_streams_tables_in_event_time_and_tables_with_rows_are_refused(clean: Postgres, client: Client) -> None:
    clean.run("CREATE TABLE t (a int PRIMARY KEY, at timestamp)", "CREATE TABLE s (a int PRIMARY KEY)")
    client.execute("CREATE STREAM s (a BIGINT)")
    with pytest.raises(FailedPrecondition, match="'s' is a stream, and changes of rows need a table"):
        follow(client, clean, "s")
    client.drop("s")
    client.execute("CREATE TABLE t (a BIGINT, at TIMESTAMP NOT NULL, PRIMARY KEY (a)) TIMESTAMP BY at")
    with pytest.raises(FailedPrecondition, match="has TIMESTAMP BY at"):
        follow(client, clean)
    client.drop("t")
    client.execute("CREATE TABLE t (a BIGINT, PRIMARY KEY (a))")
    client.push("t", {"a": [7]})
    with pytest.raises(FailedPrecondition, match="table 't' has rows, and no position of 'psoup_t' is recorded"):
        follow(client, clean)


def test_a_key_has_no_included_columns(clean: Postgres, client: Client) -> None:
    clean.run("CREATE TABLE t (a int, b int, PRIMARY KEY (a) INCLUDE (b))", "INSERT INTO t VALUES (1, 2)")
    assert follow(client, clean).copied == 1
    assert client.describe("t").primary_key == ("a",)


def test_a_value_that_does_not_fit_ends_the_copy_and_drops_its_slot(clean: Postgres, client: Client) -> None:
    clean.run("CREATE TABLE t (a int PRIMARY KEY, at timestamp)", "INSERT INTO t VALUES (1, 'infinity')")
    with pytest.raises(InvalidData, match="the value 'infinity' of column 'at' is not a valid TIMESTAMP"):
        follow(client, clean)
    assert (clean.slots(), rows(client, "a")) == ([], [])
    clean.run("UPDATE t SET at = NULL")
    assert follow(client, clean).copied == 1


def test_a_changed_definition_ends_it_with_the_way_out(clean: Postgres, client: Client) -> None:
    server = clean
    server.run("CREATE TABLE t (a int PRIMARY KEY, b text)", "INSERT INTO t VALUES (1, 'x')")
    follow(client, server)
    with PostgresSource(server.address, "psoup_t") as source:
        described = source.describe("t")
        start = Start.of(TargetTable.of(client.describe("t")), source, described)
        server.run("INSERT INTO t VALUES (2, 'y')")
        server.run("ALTER TABLE t ADD COLUMN c int DEFAULT 5", "INSERT INTO t VALUES (3, 'z')")
        feed = TableFeed(client, source, start, until_now=True, patience=5)
        with pytest.raises(FailedPrecondition, match=r"has the new column 'c'.*ALTER TABLE t ADD COLUMN c BIGINT"):
            feed.run()
    assert rows(client, "a, b") == [(1, "x"), (2, "y")]
    client.execute("ALTER TABLE t ADD COLUMN c BIGINT")
    follow(client, server)
    assert rows(client, "a, b, c")[-1] == (3, "z", 5)
    server.run("INSERT INTO t VALUES (4, 'w')")
    server.run("ALTER TABLE t RENAME COLUMN b TO text")
    with pytest.raises(FailedPrecondition, match="column 'b' of table 't' is not there"):
        follow(client, server)


def test_a_slot_that_is_gone_ahead_or_of_another_table_is_told(clean: Postgres, client: Client) -> None:
    server = clean
    server.run("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE u (a int PRIMARY KEY)")
    follow(client, server)
    with pytest.raises(FailedPrecondition, match="the slot 'psoup_t' belongs to another feed"):
        follow(client, server, "u", slot="psoup_t")
    server.run("INSERT INTO t VALUES (1)")
    server.run("SELECT pg_replication_slot_advance('psoup_t', pg_current_wal_lsn())")
    server.run("COMMENT ON PUBLICATION psoup_t IS 's-before-1'")  # as after a restore
    with pytest.raises(FailedPrecondition, match="the changes between are lost"):
        follow(client, server)
    with PostgresSource(server.address, "psoup_t") as source:
        source.drop_slot()
    with pytest.raises(FailedPrecondition, match="PostgreSQL has no slot 'psoup_t' any more"):
        follow(client, server)


def test_the_slot_of_a_copy_that_was_killed_is_dropped(clean: Postgres, client: Client) -> None:
    server = clean
    server.run("CREATE TABLE t (a int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    client.execute("CREATE TABLE t (a BIGINT, PRIMARY KEY (a))")
    server.run("CREATE PUBLICATION psoup_t FOR TABLE t")
    server.run(f"COMMENT ON PUBLICATION psoup_t IS '{client.describe('t').stream_id}'")
    server.run("SELECT pg_create_logical_replication_slot('psoup_t', 'pgoutput')")
    assert follow(client, server).copied == 1
    assert server.slots() == ["psoup_t"]


def test_the_position_moves_with_a_quiet_table(
    clean: Postgres, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other tables fill the log: the service does not forget the position."""
    server = clean
    server.run("CREATE TABLE t (a int PRIMARY KEY)", "CREATE TABLE other (a int)")
    first = follow(client, server).position
    monkeypatch.setattr("psoup_cdc.replication.REMEMBER_SECONDS", 0.0)
    server.run("INSERT INTO other SELECT generate_series(1, 1000)")
    assert follow(client, server).position > first
    assert client.position("t", "cdc psoup_t").number == 2


def test_a_server_that_does_not_decode_is_told(client: Client) -> None:
    with Postgres(wal_level="replica") as server:
        server.run("CREATE TABLE t (a int PRIMARY KEY)")
        with pytest.raises(FailedPrecondition, match=r"wal_level = replica.*ALTER SYSTEM SET wal_level = logical"):
            follow(client, server)
    client.drop("t")


def test_an_address_that_nobody_answers_is_told(client: Client) -> None:
    with pytest.raises(Unavailable, match="PostgreSQL: connection to server"):
        PostgresSource("postgresql://127.0.0.1:1/x?connect_timeout=2", "s").describe("t")
    with pytest.raises(InvalidRequest, match="'a\"b' is not a valid name of a slot"):
        PostgresSource("postgresql:///x", 'a"b')
    with pytest.raises(PSoupError, match="PostgreSQL"):
        PostgresSource("what is this", "s").describe("t")


def test_the_command_follows_shows_and_drops(clean: Postgres, client: Client, psoup: Psoup) -> None:
    server = clean
    server.run("CREATE TABLE t (a int PRIMARY KEY, b text, c int)", "INSERT INTO t VALUES (1, 'x', 2)")
    ran = psoup("cdc", "t", "--from", server.address, "--once")
    assert ran.code == 0, ran.err
    assert 'Created the table: CREATE TABLE "t" ("a" BIGINT, "b" TEXT, "c" BIGINT, PRIMARY KEY ("a"))' in ran.err
    assert "Copied 1 row of public.t." in ran.err
    server.run("UPDATE t SET c = 3", "INSERT INTO t VALUES (2, 'y', 0)")
    ran = psoup("cdc", "t", "--from", server.address, "--once")
    assert "2 changes in 1 transaction are in, up to 0/" in ran.err
    [state] = psoup("cdc", "t", "--from", server.address, "--status", "--json").rows
    assert (state["slot"], state["reader"], state["slot_exists"]) == ("psoup_t", None, True)
    assert isinstance(state["behind_bytes"], int)
    ran = psoup("cdc", "t", "--from", server.address, "--status")
    assert [line.split("  ")[0] for line in ran.out.splitlines()][:3] == ["position", "last batch", "slot"]
    assert "Dropped the slot psoup_t." in psoup("cdc", "t", "--from", server.address, "--drop-slot").err
    assert (server.slots(), server.run("SELECT count(*) FROM pg_publication")) == ([], [(0,)])
    assert "There is no slot psoup_t." in psoup("cdc", "t", "--from", server.address, "--drop-slot").err
    ran = psoup("cdc", "t", "--from", server.address, "--once")
    assert (ran.code, "PostgreSQL has no slot 'psoup_t' any more" in ran.err) == (5, True)
