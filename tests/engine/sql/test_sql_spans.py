"""Time between two times, and AT TIME ZONE: as in DuckDB, in SELECT and in WHERE, or refused by name."""

from __future__ import annotations

import random
from datetime import date, datetime, timedelta
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import SqlError
from psoup.local import LocalPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import again
from psoup_testing.suite.sweeps import swept

ROWS = 150
CREATE = "CREATE STREAM x (a TIMESTAMP, b TIMESTAMP, d DATE, n BIGINT, t TEXT)"
SCHEMA = pa.schema(
    [("a", pa.timestamp("us")), ("b", pa.timestamp("us")), ("d", pa.date32()), ("n", pa.int64()), ("t", pa.string())]
)
CONDITIONS = """
a - b > INTERVAL '1' DAY ; a - b = INTERVAL '0' SECOND ; INTERVAL '1' MONTH < a - b ; a - b >= b - a ; a - b = NULL
(a - b) BETWEEN INTERVAL '-1' DAY AND INTERVAL '1' YEAR ; a - b IS DISTINCT FROM INTERVAL '1' DAY ; (a - b) IS NULL
-(a - b) > INTERVAL '1' DAY ; - INTERVAL '1' DAY < b - a ; (a - b) + INTERVAL '1' HOUR > INTERVAL '1' DAY
(a - b) - INTERVAL '1' HOUR > INTERVAL '1' DAY + INTERVAL '1' HOUR ; INTERVAL '1' HOUR + (a - b) <> INTERVAL '1' DAY
a - d > INTERVAL '3' DAY ; d - a <= INTERVAL '3' DAY ; a - d - INTERVAL '1' DAY > INTERVAL '0' DAY
year(a AT TIME ZONE 'Etc/GMT-2') = 2020 ; a AT TIME ZONE '+02:00' > b ; (b - a) IS NOT NULL
"""
VALUES = """
epoch(a - b) ; epoch_ms(a - b) ; epoch_us(a - b) ; epoch((a - b) + (d - a)) ; extract(day FROM a - b)
extract(hour FROM (a - b)) ; date_part('minutes', a - b) ; second(a - b) ; millisecond(a - b) ; microsecond(a - b)
extract(epoch FROM a - b) ; a + (b - a) ; a - (b - a) ; (b - a) + d ; epoch(INTERVAL '1' DAY) ; a AT TIME ZONE 'UTC'
a AT TIME ZONE 'Etc/GMT-2' ; a AT TIME ZONE 'Etc/GMT+11' ; a AT TIME ZONE 'etc/utc' + INTERVAL '1' DAY
a AT TIME ZONE '+05:30' ; a AT TIME ZONE '-0330' ; a AT TIME ZONE NULL
date_trunc('day', a AT TIME ZONE 'GMT') ; TIMESTAMPTZ '2020-01-01 00:00:00+02' AT TIME ZONE 'Etc/GMT-2'
"""
OFFSETS = {"'+02:00'": "'Etc/GMT-2'", "'+05:30'": "'Asia/Kolkata'", "'-0330'": "'Etc/GMT+3' - INTERVAL '30' MINUTE"}
"""Zones that DuckDB has by other names."""


def listed(text: str) -> list[str]:
    return [part for line in text.strip().splitlines() for part in line.split(" ; ")]


def data() -> pa.Table:
    r = random.Random(3)

    def time() -> datetime | None:
        micros = r.choice([0, 1, 10**6, 86_400 * 10**6, r.randint(-(10**14), 10**14)])
        return None if r.random() < 0.1 else datetime(2020, 1, 1) + timedelta(microseconds=micros)

    days = [None if r.random() < 0.1 else date(2020, 1, 1) + timedelta(days=r.randint(-900, 900)) for _ in range(ROWS)]
    columns: list[list[Any]] = [[time() for _ in range(ROWS)], [time() for _ in range(ROWS)], days, [*range(ROWS)]]
    return pa.table([*columns, ["x"] * ROWS], schema=SCHEMA)


class Both:
    """One table in both systems; DuckDB has a as a TIMESTAMPTZ, too."""

    def __init__(self) -> None:
        table = data()
        self.soup = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER))
        self.soup.execute(CREATE)
        self.soup.push("x", table)
        self.duck = duckdb.connect(config={"threads": 1})
        self.duck.execute("SET TimeZone = 'UTC'")
        self.duck.register("source", table)
        self.duck.execute("CREATE TABLE x AS SELECT a::TIMESTAMPTZ AS z, * FROM source")

    def theirs(self, expression: str) -> list[str | None]:
        expression = expression.replace("a AT", "z AT")
        for mine, theirs in OFFSETS.items():
            expression = expression.replace(mine, theirs)
        return [text for (text,) in self.duck.execute(f"SELECT ({expression})::VARCHAR FROM x ORDER BY n").fetchall()]

    def ask(self, statement: str) -> list[Any]:
        return again(self.soup.ask, statement).to_table().column(0).to_pylist()


@pytest.fixture(scope="module")
def both() -> Both:
    return Both()


@pytest.mark.parametrize("expression", swept([*listed(CONDITIONS), *listed(VALUES)], fast=range(0, 99, 3)))
def test_values_are_duckdbs(both: Both, expression: str) -> None:
    if "NULL" in expression and "ZONE" in expression:
        with pytest.raises(SqlError, match="the zone NULL is not supported"):
            both.ask(f"SELECT {expression} AS v FROM x")
        return
    assert both.ask(f"SELECT CAST(({expression}) AS TEXT) AS v FROM x ORDER BY n") == both.theirs(expression)


def seconds(span: str) -> tuple[list[float], list[float]]:
    """Those of a span of `a`, a time, here and in DuckDB."""
    r = random.Random(5)
    start = datetime(2020, 1, 1)
    ends = [start + timedelta(microseconds=r.randint(-(10**k), 10**k)) for k in range(6, 16) for _ in range(2_000)]
    table = pa.table({"a": pa.array(ends, pa.timestamp("us")), "n": range(len(ends))})
    soup, duck = LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER)), duckdb.connect(config={"threads": 1})
    soup.execute("CREATE STREAM s (a TIMESTAMP, n BIGINT)")
    soup.push("s", table)
    duck.register("s", table)
    statement = f"SELECT epoch({span}) AS v FROM s ORDER BY n"
    theirs = duck.execute(statement).fetchall()
    return again(soup.ask, statement).to_table().column(0).to_pylist(), [value for (value,) in theirs]


def test_seconds_are_duckdbs_to_the_last_bit() -> None:
    ours, theirs = seconds("a - TIMESTAMP '2020-01-01'")
    assert ours == theirs


def test_seconds_of_sums_may_differ_in_the_last_bit() -> None:
    ours, theirs = seconds(
        "(a - TIMESTAMP '2020-01-01') + (TIMESTAMP '2020-03-01 17:00:00.7' - a) - (DATE '2019-01-01' - a)"
    )
    assert ours == pytest.approx(theirs, rel=1e-14) and ours != theirs


@pytest.mark.parametrize("condition", swept(listed(CONDITIONS), fast=range(0, 19, 4)))
def test_conditions_keep_what_duckdb_keeps(both: Both, condition: str) -> None:
    wanted = [n for n, text in enumerate(both.theirs(condition)) if text == "true"]
    assert both.ask(f"SELECT n FROM x WHERE {condition} ORDER BY n") == wanted
    soup = LocalPSoup()
    soup.execute(CREATE)
    before = soup.register(f"SELECT n FROM x WHERE {condition} ORDER BY n")
    soup.push("x", data())
    (many,) = soup.register_many(f"SELECT n FROM x WHERE {condition} AND n < ? ORDER BY n", [(75,)])
    assert again(soup.invoke, before).to_table().column(0).to_pylist() == wanted
    assert again(soup.invoke, many).to_table().column(0).to_pylist() == [n for n in wanted if n < 75]


def test_rows_are_put_in_the_order_of_a_difference(both: Both) -> None:
    assert both.ask("SELECT n FROM x ORDER BY a - b NULLS LAST, n") == [
        n for (n,) in both.duck.execute("SELECT n FROM x ORDER BY a - b NULLS LAST, n").fetchall()
    ]


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("a - b", "an INTERVAL as a value is not supported"),
        ("INTERVAL '1' DAY", "an INTERVAL as a value is not supported"),
        ("abs(a - b)", "an INTERVAL as a value is not supported"),
        ("coalesce(a - b, b - a)", "an INTERVAL as a value is not supported"),
        ("(a - b) IN (INTERVAL '1' DAY)", "an INTERVAL as a value is not supported"),
        ("(a - b) AND n > 1", "an INTERVAL as a value is not supported"),
        ("INTERVAL '1' DAY - a", "an INTERVAL as a value is not supported"),
        ("date_part(t, a - b)", "an INTERVAL as a value is not supported"),
        ("hour((a - b) + INTERVAL '1' HOUR)", "an INTERVAL as a value is not supported"),
        ("epoch(INTERVAL '1' MONTH)", "an INTERVAL as a value is not supported"),
        ("(a - b) / 2", "an INTERVAL can only be compared"),
        ("a - b > '1 day'", "an INTERVAL is compared with an INTERVAL, not with TEXT"),
        ("a - b > 5", "an INTERVAL is compared with an INTERVAL, not with BIGINT"),
        ("(a - b) + INTERVAL '1' MONTH > INTERVAL '1' DAY", "months have no fixed length"),
        ("extract(year FROM a - b)", "what is between two times has no year"),
        ("age(a)", "age.. is not supported"),
        ("age(a, b)", "a - b compares with an INTERVAL"),
        ("a AT TIME ZONE 'Europe/Berlin'", "the zone 'Europe/Berlin' is not supported"),
        ("a AT TIME ZONE t", "the zone t is not supported"),
        ("a AT TIME ZONE '+19:00'", "at most 18 hours"),
        ("a AT TIME ZONE 'UTC' AT TIME ZONE 'UTC'", "has been given a zone already"),
        ("date_trunc('day', a AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'", "has been given a zone already"),
        ("TIMESTAMP '2020-01-01' AT TIME ZONE 'UTC'", "AT TIME ZONE needs an instant"),
        ("d AT TIME ZONE 'UTC'", "AT TIME ZONE needs a TIMESTAMP, not DATE"),
    ],
)
def test_what_is_not_there_is_refused_with_the_way_out(both: Both, expression: str, told: str) -> None:
    for statement in (f"SELECT {expression} AS v FROM x", f"SELECT n FROM x WHERE {expression}"):
        with pytest.raises(SqlError, match=told) as refused:
            both.ask(statement)
        assert refused.value.excerpt.endswith("^")
