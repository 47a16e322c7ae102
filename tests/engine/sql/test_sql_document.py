"""`docs/sql.md`: every function is in its tables, and every example gives what it says, here and in DuckDB."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from psoup.errors import SqlError
from psoup.expressions.evaluate import Scope, evaluate, first_value
from psoup.expressions.functions import names
from psoup.local import LocalPSoup
from psoup.plan.hop import HOP
from psoup.plan.nodes import Project
from psoup.plan.over import WINDOW_FUNCTIONS
from psoup.sql import create_stream, standing_query
from psoup.sql.aggregates import AGGREGATES

TEXT = (Path(__file__).resolve().parents[3] / "docs" / "sql.md").read_text()
SPEC = create_stream("CREATE STREAM x (b BIGINT, t TEXT)")
ROW = re.compile(
    r"^\| `(?P<function>.+?)` \| (?P<words>.*?) \| `(?P<example>.+?)` \| `(?P<result>.*?)` \|$", re.MULTILINE
)
REFUSED = re.compile(r"^\| `(?P<refused>[^`]+)` \| (?P<instead>[^|]+) \|$", re.MULTILINE)
BEFORE, AFTER = TEXT.split("## Aggregates and groups")
OF_GROUPS, OF_WINDOWS = AFTER.split("## Window functions")
EXAMPLES, GROUPED, WINDOWED = (
    [(match["example"].replace("\\|", "|"), match["result"].replace("\\|", "|")) for match in ROW.finditer(part)]
    for part in (BEFORE, OF_GROUPS, OF_WINDOWS)
)
TUPLES = re.compile(r"^\| (?P<t>\S+) \| (?P<b>\d+) \| (?P<p>\S+) \|$", re.MULTILINE)
X = "(t TEXT, b BIGINT, p DECIMAL(9,2))"


def value(example: str) -> object:
    """What PSoup makes of a constant expression, as text."""
    query = standing_query(f"SELECT CAST(({example}) AS TEXT) AS v FROM x", lambda name: SPEC, ["x"])
    assert isinstance(query.plan, Project)
    column = evaluate(query.plan.outputs[0].expr, Scope((), 1))
    return "error" if column.error is not None and column.error[0] else first_value(column)


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    return connection


@pytest.mark.parametrize(("example", "result"), EXAMPLES, ids=[example for example, _ in EXAMPLES])
def test_an_example_gives_what_the_document_says(example: str, result: str, duck: duckdb.DuckDBPyConnection) -> None:
    shown = {"NULL": None}.get(result, result)
    assert value(example) == shown
    if result == "error":
        with pytest.raises(duckdb.Error):
            duck.execute(f"SELECT CAST(({example}) AS VARCHAR)").fetchone()
    else:
        assert duck.execute(f"SELECT CAST(({example}) AS VARCHAR)").fetchone() == (shown,)


def test_every_function_has_a_row() -> None:
    assert len(EXAMPLES) > 30
    written = {
        name for match in ROW.finditer(TEXT) for name in re.findall(r"\b[a-z][a-z_0-9]*(?=\()", match["function"])
    }
    assert set(names()) - {HOP} <= written, sorted(set(names()) - written)
    assert f"`{HOP}(t, slide, size)` is a key of GROUP BY" in OF_GROUPS  # it has no value outside of GROUP BY


@pytest.fixture(scope="module")
def groups() -> tuple[LocalPSoup, duckdb.DuckDBPyConnection]:
    """The tuples of the document, here and in DuckDB."""
    rows = [[None if value == "NULL" else value for value in match.groups()] for match in TUPLES.finditer(OF_GROUPS)]
    kinds = {"t": pa.string(), "b": pa.int64(), "p": pa.decimal128(9, 2)}
    columns = zip(kinds, zip(*rows, strict=True), strict=True)
    table = pa.table({name: pa.array(values, pa.string()).cast(kinds[name]) for name, values in columns})
    duck = duckdb.connect(config={"threads": 1})
    duck.register("tuples", table)
    duck.execute("CREATE TABLE x AS SELECT * FROM tuples")
    soup = LocalPSoup()
    soup.execute(f"CREATE STREAM x {X}")
    soup.push("x", table)
    return soup, duck


@pytest.mark.parametrize(("example", "result"), GROUPED, ids=[example for example, _ in GROUPED])
def test_an_example_of_groups_gives_what_the_document_says(
    example: str, result: str, groups: tuple[LocalPSoup, duckdb.DuckDBPyConnection]
) -> None:
    soup, duck = groups
    answer = soup.execute(f"SELECT CAST(({example}) AS TEXT) AS v FROM x")
    assert answer is not None and answer.to_table().to_pylist() == [{"v": result}]
    assert duck.execute(f"SELECT CAST(({example}) AS VARCHAR) FROM x").fetchall() == [(result,)]


@pytest.mark.parametrize(("example", "values"), WINDOWED, ids=[example for example, _ in WINDOWED])
def test_an_example_of_window_functions_gives_what_the_document_says(
    example: str, values: str, groups: tuple[LocalPSoup, duckdb.DuckDBPyConnection]
) -> None:
    soup, duck = groups
    shown = [None if value == "NULL" else value for value in values.split()]
    answer = soup.execute(f"SELECT CAST(({example}) AS TEXT) AS v FROM x")
    assert answer is not None and answer.to_table().column("v").to_pylist() == shown
    theirs = duck.execute(f"SELECT CAST(({example}) AS VARCHAR) FROM x ORDER BY rowid").fetchall()
    assert [value for (value,) in theirs] == shown


def test_every_window_function_has_a_row() -> None:
    written = {name for match in ROW.finditer(OF_WINDOWS) for name in re.findall(r"\b[a-z_]+(?=\()", match["function"])}
    assert written == WINDOW_FUNCTIONS


def test_every_aggregate_has_a_row() -> None:
    functions = {
        name for match in ROW.finditer(OF_GROUPS) for name in re.findall(r"\b[a-z_]+(?=\()", match["function"])
    }
    assert functions == set(AGGREGATES)


def test_what_is_refused_is_refused_by_name() -> None:
    """The table of what PSoup does not have: each is refused, and says what to do instead."""
    rows = list(REFUSED.finditer(TEXT))
    assert len(rows) > 5
    for match in rows:
        written = match["refused"].replace("\\|", "|")
        statement = written if written.startswith("SELECT") else f"SELECT {written} FROM x"
        with pytest.raises(SqlError):
            standing_query(statement, lambda name: SPEC, ["x"])
