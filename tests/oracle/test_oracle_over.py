"""Window functions: random ones over a stream, a join and groups, with QUALIFY and DISTINCT ON, equal DuckDB's."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup_testing.histories.window_functions import drawn
from psoup_testing.oracles.questions import again
from psoup_testing.suite.budget import scaled

ROWS = 150
CREATE = "CREATE STREAM s (k BIGINT, t TEXT, v BIGINT, p DECIMAL(9,2), d DOUBLE, b BOOLEAN)"


def _rows(random: Random) -> pa.Table:
    def some(values: list[Any]) -> list[Any]:
        return [random.choice(values) for _ in range(ROWS)]

    return pa.table(
        {
            "k": pa.array(some([1, 2, 3, None]), pa.int64()),
            "t": pa.array(some(["a", "bb", "", "é", None]), pa.string()),
            "v": pa.array(some([*range(-3, 6), None, 2**62]), pa.int64()),
            "p": pa.array(some([Decimal("1.25"), Decimal("-3.50"), Decimal("0.00"), None]), pa.decimal128(9, 2)),
            "d": pa.array(some([0.5, -2.25, 0.0, -0.0, 8.0, math.nan, None]), pa.float64()),
            "b": pa.array(some([True, False, None]), pa.bool_()),
        }
    )


class _Twins:
    """A stream in PSoup, and the same rows in DuckDB."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.soup = LocalPSoup(EngineConfig(chunk_rows=64))
        self.soup.execute(CREATE)
        self.rows = _rows(self.random)
        self.soup.push("s", self.rows)
        self.duck = duckdb.connect(config={"threads": 1})
        arrived = self.rows.append_column("_pos", pa.array(range(ROWS), pa.int64()))
        self.duck.register("arrived", arrived)
        self.duck.execute("CREATE TABLE s AS SELECT * FROM arrived")

    def check(self, ours: str, theirs: str) -> None:
        """Compare the rows of two statements, in their order."""
        answer = again(self.soup.invoke, self.soup.register(ours)).to_table()
        expected = self.duck.execute(theirs).fetchall()
        got = list(zip(*[column.to_pylist() for column in answer.columns], strict=True))
        assert len(got) == len(expected), f"{ours}\n{theirs}\n{got}\n{expected}"
        for row, duck_row in zip(got, expected, strict=True):
            same = len(row) == len(duck_row) and all(map(_same, row, duck_row))
            assert same, f"{ours}\n{theirs}\n{row}\n{duck_row}"


def _same(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, float) and isinstance(theirs, float):
        return (math.isnan(mine) and math.isnan(theirs)) or math.isclose(mine, theirs, rel_tol=1e-12, abs_tol=1e-12)
    return bool(mine == theirs)


@pytest.fixture(scope="module", params=range(scaled(8)))
def twins(request: pytest.FixtureRequest) -> Iterator[_Twins]:
    made = _Twins(request.param)
    yield made
    made.duck.close()


def _listed(random: Random, tie: str, count: int) -> tuple[str, str]:
    drawn_pairs = [drawn(random, tie) for _ in range(count)]
    ours = ", ".join(f"{function} AS f{at}" for at, (function, _) in enumerate(drawn_pairs))
    theirs = ", ".join(f"{function} AS f{at}" for at, (_, function) in enumerate(drawn_pairs))
    return ours, theirs


def test_functions_over_a_stream_are_those_of_duckdb(twins: _Twins) -> None:
    for _ in range(6):
        ours, theirs = _listed(twins.random, "_pos", 6)
        where = twins.random.choice(("", " WHERE v > 0"))
        twins.check(f"SELECT v, t, {ours} FROM s{where}", f"SELECT v, t, {theirs} FROM s{where} ORDER BY _pos")
        number = twins.random.choice(("row_number()", "rank()"))
        tie = ", _pos" if number == "row_number()" else ""
        over = "OVER (PARTITION BY k ORDER BY v DESC{})"
        last = twins.random.choice((" ORDER BY f0 DESC, f1", " ORDER BY 2"))
        cut = twins.random.choice(("", " LIMIT 7", " LIMIT 9 OFFSET 3"))
        twins.check(
            f"SELECT k, v, {ours} FROM s QUALIFY {number} {over.format('')} <= 3{last}{cut}",
            f"SELECT k, v, {theirs} FROM s QUALIFY {number} {over.format(tie)} <= 3{last}, _pos{cut}",
        )


JOIN = "FROM s x JOIN s y ON x.k = y.k AND x.v < y.v"


def test_functions_over_a_join_are_those_of_duckdb(twins: _Twins) -> None:
    tie = "x._pos, y._pos"
    windows = (
        (
            "row_number() OVER (PARTITION BY x.t ORDER BY y.v)",
            f"row_number() OVER (PARTITION BY x.t ORDER BY y.v, {tie})",
        ),
        ("sum(x.v - y.v) OVER (ORDER BY x.p)",) * 2,
        ("lag(y.t) OVER (PARTITION BY x.k)", f"lag(y.t) OVER (PARTITION BY x.k ORDER BY {tie})"),
        (
            "max(x.d + y.d) OVER (PARTITION BY y.b ORDER BY x.v DESC ROWS 2 PRECEDING)",
            f"max(x.d + y.d) OVER (PARTITION BY y.b ORDER BY x.v DESC, {tie} ROWS 2 PRECEDING)",
        ),
    )
    ours, theirs = (", ".join(functions) for functions in zip(*windows, strict=True))
    twins.check(f"SELECT x.v, y.t, {ours} {JOIN}", f"SELECT x.v, y.t, {theirs} {JOIN} ORDER BY {tie}")
    twins.check(
        f"SELECT x.v AS a, y.v AS b {JOIN} QUALIFY {windows[0][0]} = 1 ORDER BY b",
        f"SELECT x.v AS a, y.v AS b {JOIN} QUALIFY {windows[0][1]} = 1 ORDER BY b, {tie}",
    )


GROUPS = (
    "SELECT k, sum(p) AS s, rank() OVER (ORDER BY sum(p) DESC) AS r FROM s GROUP BY k ORDER BY k",
    "SELECT k, b, count(*) AS n, sum(count(*)) OVER (PARTITION BY k) AS w FROM s GROUP BY k, b ORDER BY k, b",
    "SELECT t, avg(sum(p)) OVER (ORDER BY t ROWS 1 PRECEDING) AS m FROM s GROUP BY t HAVING count(*) > 2 ORDER BY t",
    "SELECT t FROM s GROUP BY t QUALIFY dense_rank() OVER (ORDER BY count(*)) = 1 ORDER BY t",
    "SELECT t, count(*) AS n FROM s GROUP BY t QUALIFY max(n) OVER () = n ORDER BY t",
    "SELECT sum(v) AS s, row_number() OVER () AS r, count(*) OVER () AS c FROM s",
    "SELECT DISTINCT k, count(*) OVER (PARTITION BY k) AS n FROM s ORDER BY k",
    "SELECT k, lag(sum(v), 1, 0) OVER w AS a, sum(sum(v)) OVER (w ROWS UNBOUNDED PRECEDING) AS c FROM s GROUP BY k"
    " WINDOW w AS (ORDER BY k) ORDER BY k",
    "SELECT DISTINCT ON (k) k, sum(p) AS s, t FROM s GROUP BY k, t ORDER BY k, s DESC, t",
)


@pytest.mark.parametrize("sql", GROUPS)
def test_functions_over_groups_are_those_of_duckdb(twins: _Twins, sql: str) -> None:
    twins.check(sql, sql)


FIRSTS = (
    ("SELECT DISTINCT ON (k) k, v, t FROM s ORDER BY k, v DESC", ", _pos"),
    ("SELECT DISTINCT ON (k, b) v, t FROM s ORDER BY t", ", _pos"),
    ("SELECT DISTINCT ON (1) t AS x, v FROM s ORDER BY x, v", ", _pos"),
    ("SELECT DISTINCT ON (v % 2) v FROM s WHERE v > 0 ORDER BY v LIMIT 1", ""),
    ("SELECT DISTINCT ON (t) k, v FROM s", " ORDER BY _pos"),
    ("SELECT DISTINCT ON (k) k, row_number() OVER (ORDER BY v, d, t, p, b) AS n FROM s ORDER BY n DESC", ", _pos"),
)


@pytest.mark.parametrize(("sql", "tie"), FIRSTS)
def test_the_first_row_of_each_key_is_that_of_duckdb(twins: _Twins, sql: str, tie: str) -> None:
    theirs = sql.replace(" LIMIT", f"{tie} LIMIT") if " LIMIT" in sql else f"{sql}{tie}"
    twins.check(sql, theirs)
