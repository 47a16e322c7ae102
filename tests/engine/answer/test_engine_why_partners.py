"""Reasons for a tuple of a statement over several sources: its partners, or the tuple that prevents its row."""

from __future__ import annotations

import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.errors import InvalidInput
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.suite.sweeps import swept

Partners = list[tuple[str, bool, list[tuple[str, int | None]]]]


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    """Three streams. r has k 0 to 9 twice. s and u have k NULL, and some of these."""
    made = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(100))
    for name, columns in (("r", "k BIGINT, a BIGINT"), ("s", "k BIGINT, b TEXT"), ("u", "k BIGINT, c TEXT")):
        made.execute(f"CREATE STREAM {name} ({columns})")
    made.push("r", pa.table({"k": [*range(10)] * 2, "a": range(20)}))
    made.push("s", pa.table({"k": [0, 3, 6, 9, None], "b": [*"abcde"]}))
    made.push("u", pa.table({"k": [1, 3, 6, 11, None], "c": [*"abcde"]}))
    return made


EXISTS = "SELECT r._id FROM r WHERE {} (SELECT 1 FROM s WHERE s.k = r.k)"
NOT_IN = "SELECT r._id FROM r WHERE k NOT IN (SELECT k FROM s WHERE b < '{}')"


@pytest.mark.parametrize(
    ("sql", "source", "tuple_id", "steps"),
    [
        ("SELECT r.a FROM r JOIN s USING (k)", "r", 3, [("partner", True, [("s", 1)])]),
        ("SELECT r.a FROM r JOIN s USING (k)", "r", 4, [("partner", False, [])]),
        ("SELECT r.a FROM r LEFT JOIN s USING (k)", "r", 4, [("partner", True, [])]),
        ("SELECT r.a FROM r LEFT JOIN s USING (k)", "s", 4, [("partner", False, [])]),
        ("SELECT r.a FROM r LEFT JOIN s USING (k)", "s", 2, [("partner", True, [("r", 6)])]),
        (EXISTS.format("EXISTS"), "r", 3, [("partner", True, [("s", 1)])]),
        (EXISTS.format("EXISTS"), "s", 1, [("partner", True, [("r", 3)])]),
        (EXISTS.format("NOT EXISTS"), "r", 3, [("absence", False, [("s", 1)])]),
        (EXISTS.format("NOT EXISTS"), "r", 4, [("absence", True, [])]),
        (EXISTS.format("NOT EXISTS"), "s", 1, [("removal", True, [("r", 3)])]),
        (EXISTS.format("NOT EXISTS"), "s", 4, [("removal", True, [])]),
        (NOT_IN.format("e"), "r", 4, [("absence", True, [])]),
        (NOT_IN.format("f"), "r", 4, [("absence", False, [("s", 4)])]),
        ("SELECT r.a FROM r ASOF JOIN s ON r.k >= s.k", "r", 4, [("partner", True, [("s", 1)])]),
        ("SELECT r.a FROM r ASOF JOIN s ON r.k >= s.k", "s", 1, [("partner", True, [("r", 3)])]),
        ("SELECT k FROM r EXCEPT SELECT k FROM s", "r", 3, [("absence", False, [("s", None)])]),
        ("SELECT k FROM r EXCEPT SELECT k FROM s", "s", 1, [("removal", True, [("r", None)])]),
        ("SELECT k FROM r INTERSECT SELECT k FROM s", "r", 4, [("partner", False, [])]),
        ("WITH t AS (SELECT k, count(*) FROM r GROUP BY k) SELECT 1 FROM s JOIN t USING (k)", "r", 3, []),
        (
            "WITH t AS (SELECT k, count(*) FROM r GROUP BY k) SELECT 1 FROM s JOIN t USING (k)",
            "s",
            1,
            [("partner", True, [("t", None)])],
        ),
        (
            "SELECT r.a FROM r, s, u WHERE r.k = s.k AND s.k = u.k",
            "u",
            1,
            [("partner", True, [("r", 3)]), ("partner", True, [("s", 1)]), ("partner", True, [("r", 3), ("s", 1)])],
        ),
        (
            "SELECT r.a FROM r JOIN s USING (k) LEFT JOIN u ON u.k = r.k WHERE u.c IS NULL",
            "r",
            3,
            [("partner", True, [("s", 1)]), ("partner", True, [("u", 1)]), ("factor", False, [])],
        ),
    ],
)
def test_partners_are_named(soup: LocalPSoup, sql: str, source: str, tuple_id: int, steps: Partners) -> None:
    query = soup.register(sql)
    steps_of_tuple = soup.why(query, tuple_id, source=source).steps
    last = next(at for at, step in enumerate(steps_of_tuple) if step.kind == "arrival")
    assert [(step.kind, step.passed, [*step.partners]) for step in steps_of_tuple[last + 1 :]] == steps


ROW_BY_ROW = (
    "r JOIN s USING (k)",
    "r LEFT JOIN s USING (k) WHERE s.b IS NULL",
    "r FULL JOIN s ON r.k = s.k WHERE s.b IS NULL OR r.a > 9",
    "r FULL JOIN s ON r.k = s.k ANTI JOIN u ON u.k = s.k",
    "r ANTI JOIN s USING (k) WHERE a > 3",
    "r WHERE a < 12 AND k IN (SELECT k FROM s WHERE b > 'a')",
    "r WHERE k NOT IN (SELECT k FROM s WHERE s.b < 'c' AND s.k <= r.a)",
    "r JOIN s USING (k) WHERE EXISTS (SELECT 1 FROM u WHERE u.k >= r.k AND u.c > s.b)",
    "r, s, u WHERE r.k = s.k AND s.k = u.k AND r.a + s.k > u.k",
    "r CROSS JOIN (VALUES (3), (4)) v(n) WHERE r.k = v.n OR r.a = 19",
    "r WHERE a > (SELECT avg(k) FROM s)",
    "u RIGHT JOIN r ON u.k = r.k LEFT JOIN s ON s.k = u.k",
)


@pytest.mark.parametrize("rest", swept(ROW_BY_ROW, fast=range(0, 12, 3)))
def test_a_tuple_is_kept_out_just_if_no_row_shows_it(soup: LocalPSoup, rest: str) -> None:
    query = soup.register(f"SELECT r._id FROM {rest}")
    shown = {row["_id"] for row in soup.invoke(query).to_table().to_pylist()} - {None}
    assert {tuple_id for tuple_id in range(20) if soup.why(query, tuple_id, source="r").kept_out is None} == shown


def test_the_window_of_the_partner_counts(soup: LocalPSoup) -> None:
    query = soup.register("SELECT r._id FROM r [ROWS 20] ANTI JOIN s [ROWS 2] USING (k)")
    assert soup.why(query, 3, source="r").kept_out is None, "the partner has left its window"
    kept_out = soup.why(query, 9, source="r").kept_out
    assert kept_out is not None and kept_out.partners == (("s", 3),)


def test_the_source_is_named_if_there_are_several(soup: LocalPSoup) -> None:
    query, single = soup.register("SELECT x.a FROM r x, r y WHERE x.k = y.k"), soup.register("SELECT a FROM r")
    assert soup.why(query, 1, source="X").kept_out is None
    assert soup.why(single, 1).steps == soup.why(single, 1, source="r").steps
    for name, message in (("", "its sources are called x, y"), ("r", "has several sources"), ("z", "no source 'z'")):
        with pytest.raises(InvalidInput, match=message) as refused:
            soup.why(query, 1, source=name)
        assert refused.value.reason == "UNKNOWN_SOURCE"
    assert soup.why(soup.register("SELECT s.b FROM r JOIN s USING (k)"), 1, source="S").kept_out is None


def test_a_row_that_is_not_pushed_has_no_partners(soup: LocalPSoup) -> None:
    query = soup.register("SELECT r.a FROM r JOIN s USING (k) WHERE r.a > 100")
    row = pa.table({"k": pa.array([3], pa.int64()), "a": pa.array([1], pa.int64())})
    kept_out = soup.why(query, row, source="r").kept_out
    assert kept_out is not None and kept_out.text == "a >= 101"
    assert {step.kind for step in soup.why(query, row, source="r").steps} == {"factor", "window", "arrival"}
