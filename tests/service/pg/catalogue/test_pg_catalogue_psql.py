"""psql lists and describes streams and queries by statements over PostgreSQL's catalogue."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg2
import pytest

from psoup_client import Client
from psoup_testing.services.threaded_service import Serving

Cursor = psycopg2.extensions.cursor

_LISTED = """SELECT n.nspname as "Schema",
  c.relname as "Name",
  CASE c.relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' END as "Type",
  pg_catalog.pg_get_userbyid(c.relowner) as "Owner"
FROM pg_catalog.pg_class c
     LEFT JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r','p','v','m','S','f','')
      AND n.nspname <> 'pg_catalog'
      AND n.nspname !~ '^pg_toast'
      AND n.nspname <> 'information_schema'
  AND pg_catalog.pg_table_is_visible(c.oid)
ORDER BY 1,2;"""


@pytest.fixture(scope="module")
def cursor(running: Serving) -> Iterator[Cursor]:
    """A cursor of a client that sees a stream, a table and a query with a key."""
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM trades (sym TEXT NOT NULL, price DECIMAL(10, 2), n BIGINT)")
        client.create_stream("CREATE TABLE people (id BIGINT PRIMARY KEY, name TEXT)")
        client.register("SELECT sym, price FROM trades WHERE price > 10", key="dear")
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    connection = psycopg2.connect(f"host={host} port={port} user=anybody dbname=any")
    connection.autocommit = True
    yield connection.cursor()
    connection.close()


def test_a_list_of_relations_has_streams_tables_and_keys_of_queries(cursor: Cursor) -> None:
    cursor.execute(_LISTED)
    assert cursor.fetchall() == [
        ("queries", "dear", "view", "anybody"),
        ("streams", "people", "table", "anybody"),
        ("streams", "trades", "table", "anybody"),
    ]
    assert cursor.description is not None
    assert [(column.name, column.type_code) for column in cursor.description] == [
        ("Schema", 19),
        ("Name", 19),
        ("Type", 25),
        ("Owner", 19),
    ]


def test_a_relation_has_its_columns_and_types(cursor: Cursor) -> None:
    cursor.execute(
        "SELECT a.attname, pg_catalog.format_type(a.atttypid, a.atttypmod), a.attnotnull"
        " FROM pg_catalog.pg_attribute a WHERE a.attrelid = 'trades'::regclass AND a.attnum > 0 ORDER BY a.attnum"
    )
    assert cursor.fetchall() == [("sym", "text", True), ("price", "numeric(10,2)", False), ("n", "bigint", False)]
    cursor.execute("SELECT pg_get_viewdef('queries.dear'::regclass, true)")
    assert cursor.fetchall() == [("SELECT sym, price FROM trades WHERE price > 10;",)]
    cursor.execute("SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint WHERE conrelid = 'people'::regclass")
    assert cursor.fetchall() == [("people_pkey", "PRIMARY KEY (id)")]


def test_a_statement_without_from_is_answered(cursor: Cursor) -> None:
    cursor.execute("SELECT 1, version(), current_user")
    assert cursor.fetchall() == [(1, "PostgreSQL 15.0 (PSoup)", "anybody")]


def test_a_construct_outside_of_the_allowed_ones_is_refused_by_name(cursor: Cursor) -> None:
    with pytest.raises(psycopg2.errors.FeatureNotSupported, match="read_csv"):
        cursor.execute("SELECT * FROM pg_class, read_csv('/etc/passwd')")
