"""Columns of one name in subselects, WITH and set operations."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from psoup.errors import SqlError
from psoup.local import LocalPSoup

TABLES = {"t": {"a": [1, 2], "c": ["x", "y"]}, "u": {"a": [1, 2], "b": [5, 6]}}


@pytest.fixture(scope="module")
def both() -> tuple[LocalPSoup, duckdb.DuckDBPyConnection]:
    soup, duck = LocalPSoup(), duckdb.connect(config={"threads": 1})
    for name, columns in (("t", "(a BIGINT, c TEXT)"), ("u", "(a BIGINT, b BIGINT)")):
        table = pa.table(TABLES[name])
        soup.execute(f"CREATE STREAM {name} {columns}")
        soup.push(name, table)
        duck.register("given", table)
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return soup, duck


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM (SELECT a AS k, c AS K FROM t) x",
        "SELECT * FROM (SELECT a AS k, c AS k FROM t ORDER BY 1 LIMIT 5) x",
        "SELECT k_1, x.k_1 AS again FROM (SELECT a AS k, c AS k FROM t) x",
        "SELECT * FROM (SELECT * FROM t JOIN u ON t.a = u.a) x",
        "WITH w AS (SELECT * FROM t JOIN u ON t.a = u.a) SELECT *, a_1 + b AS s FROM w WHERE a_1 > 1",
        "SELECT a AS k, a + 1 AS k FROM t UNION ALL SELECT 7, 8 ORDER BY 2 DESC",
        "(SELECT a AS k, c AS k FROM t) ORDER BY 1 DESC LIMIT 1",
        "SELECT *, a FROM t ORDER BY a",
        "SELECT t.*, u.* FROM t LEFT JOIN u ON t.a = u.a AND b > 5 ORDER BY c",
    ],
)
def test_columns_have_the_names_of_duckdb(statement: str, both: tuple[LocalPSoup, duckdb.DuckDBPyConnection]) -> None:
    soup, duck = both
    theirs, answer = duck.execute(statement), soup.execute(statement)
    assert answer is not None
    table = answer.to_table()
    assert table.column_names == [column[0] for column in theirs.description]
    assert list(zip(*[column.to_pylist() for column in table.columns], strict=True)) == theirs.fetchall()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT k FROM (SELECT a AS k, c AS k FROM t) x",
        "SELECT x.K FROM (SELECT a AS k, c AS k FROM t LIMIT 5) x",
        "SELECT 1 FROM (SELECT a AS k, c AS k FROM t) x WHERE k = 1",
        "WITH w AS (SELECT * FROM t JOIN u ON t.a = u.a) SELECT a FROM w",
        "SELECT a AS k, a + 1 AS k FROM t UNION SELECT 7, 8 ORDER BY k",
        "SELECT t.a, u.a FROM t LEFT JOIN u ON t.a = u.a ORDER BY a",
    ],
)
def test_a_repeated_name_is_ambiguous(statement: str, both: tuple[LocalPSoup, duckdb.DuckDBPyConnection]) -> None:
    with pytest.raises(SqlError, match="ambiguous") as refused:
        both[0].execute(statement)
    assert refused.value.reason == "AMBIGUOUS_COLUMN"
