"""Statements over the catalogue that multiply relations, grow texts or reach for files end with an error."""

from __future__ import annotations

import pytest

from psoup.errors import PSoupError
from psoup_proto.v1 import queries_pb2, streams_pb2, types_pb2
from psoup_service.pg.catalogue.content import content_of
from psoup_service.pg.catalogue.growth import Growth
from psoup_service.pg.catalogue.statement import prepared
from psoup_service.pg.catalogue.store import Running, Store
from psoup_service.pg.contract import TEXT, Argument
from psoup_service.pg.errors import state_of
from psoup_testing.pg.catalogue import VALUES, VARIABLES, answer, store
from psoup_testing.suite.sweeps import swept

_ARRAY = "SELECT array(SELECT attnum FROM pg_attribute LIMIT 1900) AS q"
_TEXTS = f"SELECT array(SELECT '{'x' * 3_000}' || attname FROM pg_attribute LIMIT 1900) AS q"
_AGGREGATE = "SELECT array_agg(a.attname) AS q FROM pg_attribute a, pg_type b"
_LONG = f"SELECT '{'x' * 30_000}' || attname AS t, attnum FROM pg_attribute"
_SIGN = "'x'"


def _each(expression: str, count: int) -> str:
    """A SELECT list that repeats an expression. DuckDB does not interrupt the evaluation of one list."""
    return ", ".join(f"{expression} AS c{number}" for number in range(count))


@pytest.fixture(scope="module")
def filled() -> Store:
    """A store with streams and views. Some have long statements."""
    filled, long = store(), f"/* {'x' * 50_000} */"
    column = types_pb2.Column(name="n", type=types_pb2.DataType(kind=types_pb2.KIND_BIGINT))
    streams = [streams_pb2.Stream(stream_id="s-1-8", name="long", columns=[column], statement=long)]
    queries = [queries_pb2.Query(query_id="q-1-9", key="long", columns=[column], statement=long)]
    filled.change((), content_of(streams, queries, {"long"}))
    return filled


@pytest.mark.parametrize(
    ("text", "state"),
    swept(
        [
            (
                "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c WHERE a.attnum + b.attnum > 1",
                "57014",
            ),
            ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n FROM r) SELECT count(*) FROM r", "57014"),
            ("SELECT a.* FROM pg_attribute a, pg_attribute b, pg_attribute c", "53200"),
            ("SELECT array(SELECT generate_series(1, 1000000000))", "22023"),
            ("SELECT count(*) FROM generate_series(1, 10000000000)", "22023"),
            ("SELECT array_agg(a.attname) FROM pg_attribute a, pg_attribute b, pg_attribute c", "53200"),
            (
                "WITH RECURSIVE r AS (SELECT array[1] AS t UNION ALL SELECT t || t FROM r) SELECT count(*) FROM r",
                "22023",
            ),
            ("WITH RECURSIVE r AS (SELECT 'x' AS t UNION ALL SELECT t || t FROM r) SELECT length(t) FROM r", "22023"),
            ("SELECT " + "quote_ident(" * 14 + "'x'" + ")" * 14, "54001"),
            ("SELECT " + " AND ".join(["oid = 1"] * 700) + " FROM pg_class", "54001"),
            ("SELECT * FROM pg_class, read_csv('/etc/passwd')", "0A000"),
            ("SELECT * FROM pg_class, '/etc/passwd'", "0A000"),
            ("SELECT * FROM pg_class, duckdb_settings()", "42883"),
            ("SELECT * FROM pg_class, trades", "0A000"),
            ("SELECT * FROM pg_class, known.names", "0A000"),
            ("SELECT read_text('/etc/passwd') FROM pg_class", "42883"),
            ("SELECT getvariable('user') FROM pg_class", "42883"),
            ("SELECT pg_sleep(100) FROM pg_class", "0A000"),
            ("SELECT rpad('x', 1000000000)", "0A000"),
            ("SELECT oid FROM pg_class ORDER BY nothing", "42703"),
            ("SELECT x.oid FROM pg_class", "42P01"),
            ("SELECT '{1,2'::int[]", "22P02"),
            ("SELECT $" + "9" * 5_000, "0A000"),
            ("SELECT " + ", ".join(["a.*"] * 70) + " FROM pg_attribute a", "54011"),
            (f"SELECT {_each('lower(relname)', 201)} FROM pg_class", "54001"),
            (f"WITH l AS ({_ARRAY}) SELECT {_each('q || a.attnum', 40)} FROM l, pg_attribute a", "22023"),
            (f"WITH l AS ({_TEXTS}) SELECT q || a.attname FROM l, pg_attribute a", "22023"),
            (f"WITH l AS ({_AGGREGATE}) SELECT array_remove(q, a.attname) FROM l, pg_attribute a", "22023"),
            (f"WITH l AS ({_LONG}) SELECT {_each('CASE WHEN attnum > 1 THEN t ELSE t END', 20)} FROM l", "53200"),
            (f"WITH l AS ({_LONG}) SELECT {_each(f'regexp_replace(t, {_SIGN}, {_SIGN})', 3)} FROM l", "22023"),
            (f"WITH l AS ({_LONG}) SELECT t ~ '(x*)*y$' FROM l", "22023"),
            ("SELECT definition ~ '(x*)*y$' FROM pg_views", "22023"),
            ("SELECT VIEW_DEFINITION ~* '(x*)*y$' FROM information_schema.views", "22023"),
            ("WITH v AS (SELECT * FROM pg_views) SELECT d !~ '(x*)*y$' FROM v AS w(a, b, c, d)", "22023"),
            ("SELECT pg_get_viewdef(oid, true) ~ '(x*)*y$' FROM pg_class", "22023"),
            ("SELECT description ~ '(x*)*y$' FROM pg_description", "22023"),
            ("SELECT obj_description(oid, 'pg_class') ~ '(x*)*y$' FROM pg_class", "22023"),
            (f"SELECT {_each('array(SELECT generate_series(1, 2000))', 20)} FROM pg_attribute a", "22023"),
            (f"WITH l AS ({_ARRAY}) SELECT {_each('coalesce(q, q)', 100)} FROM l, pg_attribute a", "53200"),
        ],
        fast=range(0, 40, 4),
    ),
)
def test_a_hostile_statement_ends_with_an_error(filled: Store, text: str, state: str) -> None:
    with pytest.raises(PSoupError) as refused:
        answer(filled, text, seconds=0.2 if state == "57014" else 20)
    assert state_of(refused.value) == state


def test_a_time_that_ends_before_the_statement_begins_ends_it(filled: Store) -> None:
    with pytest.raises(PSoupError, match="took longer than 0 s"):
        answer(filled, "SELECT count(*) FROM pg_attribute a, pg_attribute b, pg_attribute c", seconds=0)


@pytest.mark.parametrize(
    ("text", "refused"),
    swept(
        [
            ("SELECT count(CASE WHEN attnum > 1 THEN $1::int[] END) FROM pg_attribute", True),
            ("WITH l AS (SELECT ($1::int[]) AS q) SELECT array_remove(q, attnum) FROM l, pg_attribute", True),
            ("SELECT 1 FROM pg_attribute WHERE attnum = ANY(CASE WHEN attnum > 1 THEN $1::int[] END)", True),
            ("SELECT 1 FROM pg_attribute WHERE attnum = ANY($1) AND attrelid = ANY(($1::oid[]))", False),
            ("SELECT 1 FROM unnest($1::int[]) AS u(n) WHERE n < 0", False),
        ],
        fast=(0, 3),
    ),
)
def test_a_long_array_of_a_client_is_searched_but_not_copied(filled: Store, text: str, refused: bool) -> None:
    arguments = (Argument(f"{{{','.join(['12345'] * 5_000)}}}".encode(), TEXT, 1007),)
    if refused:
        with pytest.raises(PSoupError, match=r"an array at most 2000 elements"):
            answer(filled, text, arguments)
    else:
        assert answer(filled, text, arguments).num_rows == 0


def test_a_run_that_has_ended_can_be_stopped(filled: Store) -> None:
    run = Running(filled, "SELECT 1 AS n", Growth(), VARIABLES, 20)
    assert run.run().num_rows == 1
    run.stop()


def test_names_with_quotes_and_statements_in_them_are_names(filled: Store) -> None:
    odd = 'x"; DROP TABLE cat.pg_class; --'
    quoted = odd.replace('"', '""')
    table = answer(filled, f'SELECT relname AS "{quoted}" FROM pg_class AS "{quoted}" LIMIT 1')
    assert table.column_names == [odd]
    assert answer(filled, "SELECT " + "9" * 30 + " AS n").num_rows == 1
    assert answer(filled, "SELECT $$a'b\\$$ AS v, E'\\'' AS w").to_pylist() == [{"v": "a'b\\", "w": "'"}]


def test_a_relation_that_postgresql_does_not_have_is_empty(filled: Store) -> None:
    read = prepared("SELECT s.what, other FROM pg_catalog.pg_stat_strange AS s", VALUES, [])
    assert read is not None
    assert read.strange == {"pg_catalog.pg_stat_strange"}
    assert answer(filled, "SELECT s.what, other FROM pg_catalog.pg_stat_strange AS s").num_rows == 0
