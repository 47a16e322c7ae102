"""Forms of PostgreSQL that PSoup's SQL lacks: comparisons with constant arrays, and times with their format."""

from __future__ import annotations

from datetime import UTC, date, datetime

import psycopg2
import pytest

from psoup.errors import InvalidInput, NotSupported
from psoup_client import Client
from psoup_service.pg.statements.postgresql_forms import in_psoup_sql
from psoup_service.pg.values.zones import Zone
from psoup_testing.services.threaded_service import Serving

BERLIN = Zone.named("Europe/Berlin")
NOW = datetime(2026, 6, 30, 22, 30, tzinfo=UTC)
_MICROS = int(NOW.timestamp()) * 1_000_000
TIME = "TIMESTAMP '2026-06-30 22:30:00'"
FORMS = [
    ("n = ANY(ARRAY[1, 2])", "n  IN (1, 2)"),
    ("n = some ( array [ $1, n + (2) ] :: int8 [] )", "n  IN ($1, n + (2))"),
    ("s <> ALL(ARRAY['a]', f(ARRAY[1])])", "s  NOT IN ('a]', f(ARRAY[1]))"),
    ("""s != ALL('{a,"b ''c",NULL}')""", "s  NOT IN ('a', 'b ''c', NULL)"),
    ("n = ANY('{1,2}'::bigint[])", "n  IN (1, 2)"),
    ("at = ANY('{2026-07-01 12:00}'::timestamp with time zone[])", "at  IN (TIMESTAMP '2026-07-01 10:00:00')"),
    ("n = ANY('{}') AND m = ANY(ARRAY[]::int[])", "n  IN (NULL) AND m  IN (NULL)"),
    ("a AND t.\"x y\" <> ALL('{}') AND b", "a AND TRUE AND b"),
    (
        "at >= TO_TIMESTAMP('2026-07-01 12:00:00.5', 'YYYY-MM-DD HH24:MI:SS.US')",
        "at >= TIMESTAMP '2026-07-01 10:00:00.500000'",
    ),
    ("at > now() - INTERVAL '1 day' OR at = current_timestamp(3)", f"at > {TIME} - INTERVAL '1 day' OR at = {TIME}"),
    (
        "d < CURRENT_DATE GROUP BY date_trunc('day', LOCALTIMESTAMP)",
        f"d < DATE '2026-07-01' GROUP BY date_trunc('day', {TIME})",
    ),
    ("n IN (SELECT now() FROM u WHERE at < NOW())", f"n IN (SELECT now() FROM u WHERE at < {TIME})"),
    ("CASE WHEN at < NOW() THEN 1 END = 1 AND at < NOW()", f"CASE WHEN at < {TIME} THEN 1 END = 1 AND at < {TIME}"),
    ("percentile_cont(0.5) WITHIN GROUP (ORDER BY t.n + 1) > 2", "QUANTILE_CONT(t.n + 1, 0.5) > 2"),
    (
        "date_trunc('hour', t.at) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM t.at) / 5) = at",
        "TIME_BUCKET(INTERVAL '5 MINUTE', t.at) = at",
    ),
    (
        "DATE_TRUNC('MINUTE', at) + INTERVAL '30 second' * FLOOR(EXTRACT(SECOND FROM at) / 30) = at",
        "TIME_BUCKET(INTERVAL '30 SECOND', at) = at",
    ),
    ("d = to_date('2026-07-01', 'YYYY-MM-DD')", "d = DATE '2026-07-01'"),
]
SAME = [
    "n = ANY(SELECT n FROM t)",
    "n > 1 BEGIN (NOW() - 1 HOUR) END (NOW())",
    "n > 1 AND n IN (SELECT n FROM u [BEGIN (NOW() - 1 HOUR)]) AND t.now = 'now()' AND \"current_date\" = now",
    "n = ANY(ARRAY(SELECT 1))",
    "n = ANY(ARRAY[1] || ARRAY[2])",
    "n > ANY(ARRAY[1])",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY n DESC) > 2",
    "percentile_cont(0.5) WITHIN GROUP",
    "date_trunc('hour', at) + INTERVAL '7 minutes' * FLOOR(EXTRACT(MINUTE FROM at) / 7) = at",
    "date_trunc('hour', at) + INTERVAL '5 minutes' * FLOOR(EXTRACT(MINUTE FROM late) / 5) = at",
    "date_trunc('hour', at) + INTERVAL '0 minutes' * FLOOR(EXTRACT(MINUTE FROM at) / 0) = at",
    "date_trunc('day', at) = 3 * FLOOR(n)",
    "n = ANY('{1}' || '{2}')",
    "s = 'ANY(ARRAY[1])' AND TO_TIMESTAMP('x')",
    "TO_TIMESTAMP('01.07.2026', 'DD.MM.YYYY')",
    "TO_TIMESTAMP('yesterday', 'YYYY-MM-DD')",
]


@pytest.mark.parametrize(("written", "wanted"), FORMS)
def test_a_form_becomes_the_same_in_psoup_sql(written: str, wanted: str) -> None:
    edited = in_psoup_sql(f"SELECT n FROM t WHERE {written}", BERLIN, lambda: _MICROS)
    assert edited is not None and edited.text == f"SELECT n FROM t WHERE {wanted}"


@pytest.mark.parametrize("written", SAME)
def test_any_other_form_stays(written: str) -> None:
    assert in_psoup_sql(f"SELECT n FROM t WHERE {written}", BERLIN, lambda: _MICROS) is None


def test_a_wrong_array_is_refused() -> None:
    with pytest.raises(InvalidInput, match='invalid input syntax for type bigint: "x"'):
        in_psoup_sql("SELECT n FROM t WHERE n = ANY('{1,x}'::int8[])", BERLIN, lambda: _MICROS)
    with pytest.raises(NotSupported, match="compared with ALL of no values is not supported"):
        in_psoup_sql("SELECT n FROM t WHERE abs(n) <> ALL('{}')", BERLIN, lambda: _MICROS)


def test_lists_of_psycopg2_and_times_of_superset_select_their_rows(running: Serving) -> None:
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM t (s TEXT, n INT, at TIMESTAMP, d DATE)")
        client.push("t", [{"s": "a", "n": 1, "at": datetime(2026, 7, 1, 10, tzinfo=UTC), "d": date(2026, 7, 1)}])
        client.push("t", [{"s": "b", "n": 2}])
        client.describe("t")  # waits until the rows are visible
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    connection = psycopg2.connect(host=host, port=port, user="me", dbname="any")
    connection.autocommit = True
    cursor = connection.cursor()
    for where, values, wanted in (
        ("n = ANY(%s) AND s = ANY(%s)", ([1, 2], ["b", "c"]), [2]),
        ("s <> ALL(%s)", (["a"],), [2]),
        ("d <> ALL(%s)", ([],), [1, 2]),
        ("d = ANY(%s)", ([date(2026, 7, 1)],), [1]),
        ("at <= TO_TIMESTAMP('2026-07-01 10:00:00.000000', 'YYYY-MM-DD HH24:MI:SS.US')", (), [1]),
    ):
        cursor.execute(f"SELECT n FROM t WHERE {where}", values)
        assert [row[0] for row in cursor.fetchall()] == wanted, where
    with pytest.raises(psycopg2.errors.UndefinedColumn) as refused:
        cursor.execute("SELECT n FROM t WHERE n = ANY(ARRAY[1, 2]) AND nope = 1")
    assert refused.value.diag.statement_position == "48"
    cursor.execute(
        "SELECT n FROM t WHERE at < now() - INTERVAL '1 second' OR n = 2 AND now() > '2026-07-01' ORDER BY n"
    )
    assert [row[0] for row in cursor.fetchall()][-1] == 2
    cursor.execute("SET psoup.as_of = '2020-01-01'; SELECT count(*) FROM t WHERE now() < '2020-01-02'")
    assert cursor.fetchall() == [(0,)]
    connection.close()


def test_a_transaction_has_one_present_time(running: Serving) -> None:
    with Client(running.address, timeout=60) as client:
        client.create_stream("CREATE STREAM present (n INT)")
        client.push("present", [{"n": 1}, {"n": 2}])
        client.describe("present")
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    connection = psycopg2.connect(host=host, port=port, user="me", dbname="any")
    cursor = connection.cursor()
    times = set()
    for _ in range(2):
        cursor.execute("SELECT now(), count(*) FROM present")
        times.add(cursor.fetchall()[0][0])
    cursor.execute("SELECT count(*) FROM present WHERE now() = %s", list(times))
    assert cursor.fetchall() == [(2,)]
    connection.close()


def test_a_select_of_constants_reads_no_stream(running: Serving) -> None:
    assert running.service.pg is not None
    host, port = running.service.pg.address.rsplit(":", 1)
    connection = psycopg2.connect(host=host, port=port, user="me", dbname="any")
    cursor = connection.cursor()
    cursor.execute("select NULL, relkind from (select 'r' as relkind union select 'v') as a ORDER BY 2")
    assert cursor.fetchall() == [(None, "r"), (None, "v")]
    cursor.execute("select * from upper('abc') as result")
    assert cursor.fetchall() == [("ABC",)]
    connection.close()
