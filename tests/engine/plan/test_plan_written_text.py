"""Texts for people have the operators of SQL, and select the same tuples when they are read again."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.local import LocalPSoup
from psoup.model import SECOND
from psoup.plan.nodes import walk
from psoup.plan.standing_query import StandingQuery
from psoup.plan.written_text import guards
from psoup.sql import create_stream, standing_query
from psoup.work.clock import VirtualClock

SPEC = create_stream(
    "CREATE STREAM s (a BIGINT, b BIGINT, p DECIMAL(8, 2), q DECIMAL(8, 2), t TIMESTAMP, u TIMESTAMP, d DATE, e DATE,"
    " f DOUBLE, o BOOLEAN, w TEXT)"
)
MICROS = pa.timestamp("us")
CONDITIONS = {
    "t + INTERVAL 8 HOURS > u": "t > u - INTERVAL 8 HOURS",
    "t > u + INTERVAL '1' MONTH": "(u + INTERVAL 1 MONTH) < t",
    "t + INTERVAL 3 DAYS <= u + INTERVAL 90 SECONDS": "t <= u - INTERVAL 259110 SECONDS",
    "t <= u + INTERVAL 2 YEARS AND t >= d": "CAST(d AS TIMESTAMP) <= t AND (u + INTERVAL 2 YEARS) >= t",
    "t > TIMESTAMP '2024-01-01'": "t > TIMESTAMP '2024-01-01 00:00:00'",
    "a <= b": "a <= b",
    "a > b": "a > b",
    "a = b + 5": "a = b + 5",
    "a <> b": "a <> b",
    "a BETWEEN b - 2 AND b + 3": "(a >= b - 2 AND a < b + 4)",
    "p >= q + 0.5": "p >= q + 0.50",
    "d - 2 < e": "d < e + 2",
    "a > b + 5 OR d + 3 > e": "(a >= b + 6 OR d >= e - 2)",
    "-a < 3 AND ~a > 5 AND NOT (w LIKE '%x%')": "NOT (w LIKE '%x%') AND (~a) >= 6 AND (-a) < 3",
    "CASE WHEN a > 1 THEN o ELSE NOT o END": "CASE WHEN (a > 1) THEN o ELSE (NOT o) END",
    "f <= 2 AND f > 0.1": "(f > 0.1e0 AND f <= 2.0e0)",
    "hour(t) = 3": "extract(hour FROM t) = 3",
    "time_bucket(INTERVAL 15 MINUTES, t) = u": "time_bucket(INTERVAL 15 MINUTES, t) = u",
    "CAST(a AS INTEGER) = 3": "CAST(a AS INTEGER) = 3",
    "a > 3": "a >= 4",
}


def bind(text: str) -> StandingQuery:
    return standing_query(text, lambda name: SPEC if name.lower() == "s" else None)


@pytest.mark.parametrize(("condition", "written"), CONDITIONS.items())
def test_a_condition_is_shown_as_sql_that_says_the_same(condition: str, written: str) -> None:
    query = bind(f"SELECT * FROM s WHERE {condition}")
    assert query.written == f"FROM s WHERE {written}"
    shown = bind(f"SELECT * {query.written}")
    assert set(shown.factors) - guards(shown.factors) == set(query.factors) - guards(query.factors)


def test_the_canonical_text_stays_as_it_is() -> None:
    query = bind("SELECT * FROM s WHERE t > u + INTERVAL '1' MONTH AND t + INTERVAL 8 HOURS > u")
    assert query.clause == (
        "FROM s WHERE difference(add_interval(u, 1, 0), t) < 0 AND difference(t, u) >= -28799999999"
        " AND t < TIMESTAMP KEY 9223372008054775807"
    )
    assert query.written == "FROM s WHERE (u + INTERVAL 1 MONTH) < t AND t > u - INTERVAL 8 HOURS"


def test_steps_of_a_plan_are_shown_as_sql() -> None:
    plan = bind(
        "SELECT t - INTERVAL 1 DAY AS y, sum(-a) OVER (ORDER BY NOT o), tumble(t, INTERVAL 1 HOUR) AS h"
        " FROM s ORDER BY u + INTERVAL 2 MINUTES"
    ).plan
    assert [node.label for _, node in walk(plan)][:3] == [
        "Sort (u + INTERVAL 2 MINUTES)",
        'Project (t - INTERVAL 1 DAY) AS y, sum((-a)) OVER (ORDER BY (NOT o)) AS "sum(-a) OVER (ORDER BY NOT o)",'
        " time_bucket(INTERVAL 1 HOUR, t) AS h",
        "Over sum((-a)) OVER (ORDER BY (NOT o))",
    ]


def test_explain_and_why_show_sql() -> None:
    soup = LocalPSoup(clock=VirtualClock(86_400 * SECOND))
    soup.execute("CREATE STREAM s (t TIMESTAMP, u TIMESTAMP) TIMESTAMP BY t")
    row = pa.table({"t": pa.array([86_400_000_000], MICROS), "u": pa.array([0], MICROS)})
    soup.push("s", row)
    query = soup.register("SELECT * FROM s WHERE t > u + INTERVAL 8 HOURS")
    text = "\n".join(soup.explain(query).lines())
    (factor, *_) = soup.why(query, 0).steps
    assert "clause   FROM s WHERE t > u + INTERVAL 8 HOURS" in text
    assert "difference" not in text and "KEY" not in text
    assert factor.text == "t > u + INTERVAL 8 HOURS" and [name for name, _ in factor.values] == ["t", "u"]
