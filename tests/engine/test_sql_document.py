"""`docs/sql.md`: every function is in its tables, and every example gives what it says, here and in DuckDB."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

from psoup.errors import SqlError
from psoup.expressions.evaluate import Scope, evaluate, first_value
from psoup.expressions.functions import names
from psoup.plan.nodes import Project
from psoup.sql import create_stream, standing_query

TEXT = (Path(__file__).resolve().parents[2] / "docs" / "sql.md").read_text()
SPEC = create_stream("CREATE STREAM x (b BIGINT, t TEXT)")
ROW = re.compile(
    r"^\| `(?P<function>.+?)` \| (?P<words>.*?) \| `(?P<example>.+?)` \| `(?P<result>.*?)` \|$", re.MULTILINE
)
REFUSED = re.compile(r"^\| `(?P<refused>[^`]+)` \| (?P<instead>[^|]+) \|$", re.MULTILINE)
EXAMPLES = [(match["example"].replace("\\|", "|"), match["result"].replace("\\|", "|")) for match in ROW.finditer(TEXT)]


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
    assert set(names()) <= written, sorted(set(names()) - written)


def test_what_is_refused_is_refused_by_name() -> None:
    """The table of what PSoup does not have: each is refused, and says what to do instead."""
    rows = list(REFUSED.finditer(TEXT))
    assert len(rows) > 5
    for match in rows:
        written = match["refused"].replace("\\|", "|")
        statement = written if written.startswith("SELECT") else f"SELECT {written} FROM x"
        with pytest.raises(SqlError):
            standing_query(statement, lambda name: SPEC, ["x"])
