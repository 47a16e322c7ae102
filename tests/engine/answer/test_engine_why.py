"""Reasons why a tuple is in an answer: each verdict equals DuckDB's, and the first negative one decides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from psoup.answer.tuples.why import Why
from psoup.config import EngineConfig
from psoup.errors import NotFound, OutOfRange
from psoup.local import LocalPSoup
from psoup.work.clock import VirtualClock
from psoup_testing.suite.sweeps import in_parts, swept

BASE = 1_700_000_000_000_000
ROWS = [
    {"m": BASE + 1_000_000 * number, "a": a, "t": t, "d": d, "b": b}
    for number, (a, t, d, b) in enumerate(
        itertools.product([None, -1, 0, 3, 7], [None, "", "x'y", "Axe"], [None, 1.5, float("nan")], [True])
    )
] + [{"m": BASE + 60_000_000, "a": 9, "t": "x", "d": 2.0, "b": b} for b in (False, None)]
FACTORS = [
    "a > 2", "a IN (0, 7)", "a IS NULL", "a <> 3", "a + 1 > 3", "10 / a > 2", "a BETWEEN -1 AND 3 OR t = 'x'",
    "t LIKE 'x%'", "t LIKE '%x%'", "upper(t) = 'AXE'", "t >= 'x'", "t IS NOT NULL", "d < 2", "d > 2", "d = 1.5", "b",
    "NOT b", "length(t) + a > 3 OR d IS NULL", "CAST(t AS BIGINT) = 1",
]  # fmt: skip
WINDOWS = ["", "BEGIN (NOW - 20 SECONDS) END (NOW - 5 SECONDS)", "BEGIN (NOW - 9 ROWS)", "BEGIN (START) END (NOW)"]


@pytest.fixture(scope="module")
def soup() -> LocalPSoup:
    soup = LocalPSoup(EngineConfig(chunk_rows=64), VirtualClock(BASE + 60_000_000))
    columns = "m TIMESTAMP, a BIGINT, t TEXT, d DOUBLE, b BOOLEAN"
    soup.execute(f"CREATE STREAM s ({columns}) TIMESTAMP BY m RETENTION 50 SECONDS")
    soup.push("s", table(ROWS))
    return soup


@pytest.fixture(scope="module")
def oracle() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as connection:
        connection.execute(
            "CREATE TABLE s (_id BIGINT, _time TIMESTAMP, m TIMESTAMP, a BIGINT, t TEXT, d DOUBLE, b BOOLEAN)"
        )
        for number, row in enumerate(ROWS):
            connection.execute(
                "INSERT INTO s SELECT ?, make_timestamp(?), make_timestamp(?), ?, ?, ?, ?",
                [number, row["m"], *row.values()],
            )
        yield connection


def table(rows: list[dict[str, object]]) -> pa.Table:
    types = [pa.timestamp("us"), pa.int64(), pa.string(), pa.float64(), pa.bool_()]
    fields = [pa.field(name, kind) for name, kind in zip(ROWS[0], types, strict=True)]
    return pa.Table.from_pylist(rows, pa.schema(fields))


def check(found: Why, oracle: duckdb.DuckDBPyConnection, number: int) -> None:
    """Every condition that SQL can say, asked of this tuple."""
    for step in found.steps:
        if step.kind == "arrival":
            continue
        said = oracle.execute(f"SELECT coalesce(TRY({step.text}), FALSE) FROM s WHERE _id = {number}").fetchone()
        assert said == (step.passed,), f"{step} of tuple {number}: {said}"
        for text, value in step.values if step.kind == "factor" else ():
            if value == "error":
                continue
            same = f"SELECT TRY({text}) IS NOT DISTINCT FROM {value} FROM s WHERE _id = {number}"
            assert oracle.execute(same).fetchone() == (True,), f"{text} is {value} of tuple {number}"


@pytest.mark.parametrize("window", swept(WINDOWS, fast=(1,)))
@in_parts(3)
def test_each_verdict_holds_as_sql(
    soup: LocalPSoup, oracle: duckdb.DuckDBPyConnection, window: str, part: slice
) -> None:
    kept = 0
    for number, where in list(enumerate([*FACTORS, " AND ".join(f"({one})" for one in FACTORS[::4])]))[part]:
        query = soup.register(f"SELECT _id FROM s WHERE {where} {window}")
        answer = set(soup.invoke(query).to_table().column("_id").to_pylist())
        for tuple_id in range(number % 5, len(ROWS), 5):
            found = soup.why(query, tuple_id)
            assert (found.kept_out is None) == (tuple_id in answer), f"{where} {window}: {found}"
            check(found, oracle, tuple_id)
            kept += found.kept_out is None
    assert kept > 10 // 3


def test_a_computed_condition_shows_the_columns_that_it_reads(soup: LocalPSoup) -> None:
    step = soup.why(soup.register("SELECT a FROM s WHERE length(t) + a > 3 OR d IS NULL"), 40).steps[0]
    assert [text for text, _ in step.values] == ["(length(t) + a)", "d", "t", "a"]


def test_what_is_not_kept_any_more_and_what_never_was(soup: LocalPSoup) -> None:
    query = soup.register("SELECT a FROM s WHERE a > 2")
    gone = soup.why(query, 3).kept_out
    assert gone is not None
    assert (gone.kind, gone.values) == ("retention", (("_id", "3"),))
    with pytest.raises(OutOfRange, match="IDs count from 0"):
        soup.why(query, -1)
    with pytest.raises(OutOfRange, match="the next one to come is 62"):
        soup.why(query, 62)
    with pytest.raises(NotFound):
        soup.why(10**6, 3)


def test_a_row_that_is_not_pushed(soup: LocalPSoup) -> None:
    """The late rule and the rule of rows that are ahead; the window as of now."""
    query = soup.register("SELECT a FROM s WHERE a > 2 AND t = 'x' BEGIN (NOW - 10 SECONDS)")
    now = BASE + 60_000_000
    row = {"m": now, "a": 3, "t": "x", "d": None, "b": None}
    assert soup.why(query, table([row])).kept_out is None
    kinds = {
        kind: soup.why(query, table([{**row, **change}])).kept_out
        for kind, change in {
            "t = 'x'": {"t": "y"},
            "a >= 3": {"a": None},
            "_time": {"m": now - 10_000_001},
            "it is too late": {"m": now - 1},
            "it is too far ahead": {"m": now + 10**12},
        }.items()
    }
    for text, step in kinds.items():
        assert step is not None
        assert step.text.startswith(text) or (step.kind == "window" and "ahead" in text), step
    assert len(soup.why(query, table([{**row, "m": now - 1}])).steps) == 4


def test_the_answer_as_of_an_earlier_time(soup: LocalPSoup) -> None:
    query = soup.register("SELECT _id FROM s WHERE a >= 3 BEGIN (NOW - 10 SECONDS)")
    then = BASE + 45_000_000
    answer = set(soup.invoke(query, as_of=then).to_table().column("_id").to_pylist())
    assert answer
    for tuple_id in range(12, 60):
        assert (soup.why(query, tuple_id, as_of=then).kept_out is None) == (tuple_id in answer)
