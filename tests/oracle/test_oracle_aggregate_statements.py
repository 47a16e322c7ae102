"""Statements with aggregates, written by hand for what random ones seldom say: each answer is DuckDB's."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from psoup.config import EngineConfig
from psoup.local import LocalPSoup
from psoup_testing.histories.histories import EAGER
from psoup_testing.oracles.questions import TIMES
from psoup_testing.suite.kept_structures import KEPT
from psoup_testing.suite.sweeps import swept

COLUMNS = '(sym TEXT, qty BIGINT, price DECIMAL(9,2), rate DOUBLE, bought BOOLEAN, seen TIMESTAMP, "day" DATE)'
KINDS = [pa.string(), pa.int64(), pa.decimal128(9, 2), pa.float64(), pa.bool_(), pa.timestamp("us"), pa.date32()]
NAMES = ["sym", "qty", "price", "rate", "bought", "seen", "day"]
OTHER = {"sym": ["a", "b", "d", None, "a"], "w": [1, 2, 3, 4, 5]}

STATEMENTS = """
SELECT sym, count(*) AS n, sum(qty) AS s FROM t GROUP BY sym ORDER BY sym
SELECT qty % 3 AS k, count(DISTINCT sym), sum(DISTINCT qty), avg(price) FROM t GROUP BY k ORDER BY k
SELECT sym, bought, max(price) FROM t GROUP BY ALL ORDER BY ALL
SELECT sym, sum(price) AS p FROM t GROUP BY 1 HAVING p > 100 ORDER BY p DESC, sym LIMIT 2
SELECT sym, day, count(*) AS n FROM t GROUP BY (sym, day) HAVING count(*) > 20 AND sym IS NOT NULL ORDER BY n DESC, 1, 2
SELECT DISTINCT count(*) > 70 AS big FROM t GROUP BY sym ORDER BY big
SELECT rate, count(*) FROM t GROUP BY rate ORDER BY rate
SELECT time_bucket(INTERVAL '15' MINUTE, seen) AS b, count(*), min(qty) FROM t GROUP BY b ORDER BY b
SELECT sum(qty) FILTER (WHERE bought) AS a, count(*) FILTER (WHERE price > 1 AND bought IS NOT TRUE) AS c FROM t
SELECT qty % 3 AS k, sum(qty) / (count(*) - count(*)) AS a, sum(10 // (qty % 3)) AS b FROM t GROUP BY k ORDER BY k
SELECT sum(qty) // (count(*) - count(*)) AS a, max(10 % (qty % 3)) AS b, count(10 // (qty % 2)) AS c FROM t
SELECT sum(qty) * 3 - sum(qty) AS a, sum(qty) // 7 AS b, sum(qty) % 11 AS c, -sum(price) AS d FROM t
SELECT sum(price) / 3 AS e, abs(sum(price)) AS f, round(sum(price), 1) AS g, count_if(qty > 2) AS h FROM t
SELECT sym, CASE WHEN sum(qty) > 0 THEN 1 ELSE 0 END AS x, coalesce(sum(price), 0) AS y FROM t GROUP BY 1 ORDER BY 1
SELECT t.sym, u.w, count(*) AS n, sum(t.qty) AS s FROM t JOIN u ON t.sym = u.sym GROUP BY t.sym, u.w ORDER BY 1, 2
SELECT u.w, max(t.day) AS d FROM t, u WHERE t.sym = u.sym AND t.qty > 2 GROUP BY u.w HAVING count(*) > 5 ORDER BY d, w
SELECT count(*) AS n, max(u.w) FILTER (WHERE t.bought) AS m FROM t JOIN u USING (sym)
SELECT 1 AS one FROM t HAVING count(*) > 10
SELECT count(*) AS n FROM t HAVING sum(qty) IS NULL
SELECT upper(sym) AS s, length(upper(sym)) AS l, count(*) FROM t GROUP BY upper(sym) ORDER BY 1
SELECT sym FROM t GROUP BY sym ORDER BY count(*) DESC, sym
SELECT sym FROM t GROUP BY sym, qty ORDER BY sym, qty LIMIT 3 OFFSET 2
SELECT bool_and(bought) AS a, bool_or(bought) AS b, min(sym) AS c, max(bought) AS d, median(qty) AS e FROM t
SELECT quantile_disc(sym, 0.3) AS f, quantile_cont(rate, 0.9) AS g, median(seen) AS d FROM t
SELECT quantile_disc(seen, 0.5) AS e FROM t
SELECT arg_min(price, seen) AS a, arg_max(qty, seen) AS b FROM t WHERE qty IS NOT NULL AND price IS NOT NULL
SELECT count(*) AS n, sum(qty) AS s, min(sym) AS m, avg(rate) AS a FROM t WHERE qty = 12345
SELECT sym, count(*) FROM t WHERE qty = 12345 GROUP BY sym
SELECT sum(qty) > 2e0 AS a, sum(qty) BETWEEN 1 AND 100 AS b, sum(price) IN (1, 2) AS c FROM t GROUP BY day ORDER BY ALL
SELECT day, CAST(sum(price) AS BIGINT) AS d, CAST(sum(qty) AS TEXT) AS e FROM t GROUP BY day ORDER BY day
SELECT max(price) - min(price) AS x, sum(CASE WHEN bought THEN 1 ELSE 0 END) AS y, sum(bought) AS z FROM t
SELECT count(*) AS n, day FROM t GROUP BY day HAVING n > (70) ORDER BY n, day
SELECT -qty AS qty, count(*) AS n FROM t GROUP BY qty HAVING qty > 2 ORDER BY n, qty
SELECT * FROM u GROUP BY ALL ORDER BY ALL
SELECT count(*) AS n FROM t GROUP BY ()
SELECT bit_and(qty) AS a, bit_or(qty) AS b, bit_xor(qty) AS c, bit_xor(DISTINCT qty) AS d FROM t
SELECT sym, bit_and(qty) AS a, bit_or(qty) FILTER (WHERE bought) AS b, bit_xor(qty) AS c FROM t GROUP BY 1 ORDER BY 1
SELECT bit_and(qty) AS a, bit_or(qty) AS b, string_agg(sym) AS c, first(sym ORDER BY qty) AS d FROM t WHERE qty = 12345
SELECT string_agg(sym) AS a, string_agg(qty, ', ') AS b, group_concat(sym, '') AS c, listagg(sym, NULL) AS d FROM t
SELECT sym, string_agg(qty, '|' ORDER BY qty DESC) AS a, string_agg(price, 'é') AS b FROM t GROUP BY sym ORDER BY sym
SELECT bought AS k, string_agg(DISTINCT qty, ';' ORDER BY qty NULLS FIRST) AS a FROM t GROUP BY k ORDER BY k
SELECT bought AS k, string_agg(sym, '' ORDER BY price DESC NULLS FIRST, sym) AS a FROM t GROUP BY k ORDER BY k
SELECT string_agg(DISTINCT sym, ',' ORDER BY sym DESC) AS a, string_agg(sym, ',' ORDER BY rate, sym) AS b FROM t
SELECT string_agg(upper(sym), ',' ORDER BY day DESC, length(sym), sym) FILTER (WHERE qty > 2) AS a FROM t
SELECT first(price ORDER BY qty, price) AS a, last(price ORDER BY qty NULLS FIRST, price NULLS FIRST) AS b FROM t
SELECT sym, any_value(qty ORDER BY price DESC, qty) AS a, first(qty ORDER BY price, qty) FROM t GROUP BY 1 ORDER BY 1
SELECT arg_min(sym, qty ORDER BY sym DESC) AS a, arg_max(qty, bought ORDER BY qty NULLS FIRST) AS b FROM t
SELECT sum(qty ORDER BY sym) AS a, count(DISTINCT sym ORDER BY sym) AS b, median(qty ORDER BY rate) AS c FROM t
SELECT u.w, string_agg(t.qty, ',' ORDER BY t.qty) AS a FROM t JOIN u ON t.sym = u.sym GROUP BY u.w ORDER BY u.w
SELECT count(*) AS n FROM t GROUP BY 'x'
SELECT count(*) AS n FROM t WHERE qty = 12345 GROUP BY 'x'
SELECT count(*) AS n FROM t WHERE qty = 12345 GROUP BY ()
SELECT 'x' AS k, sum(qty) AS s FROM t GROUP BY NULL, 1 + 1
SELECT 'x' AS k, count(*) AS n FROM t WHERE qty = 12345 GROUP BY ALL
SELECT 'x' AS k, count(*) AS n FROM t GROUP BY k HAVING n > 5
SELECT 1 AS one FROM t GROUP BY ALL
SELECT 'x' AS k, sym, count(*) AS n FROM t GROUP BY k, sym, true ORDER BY sym
FROM t SELECT sym, count(*) AS n GROUP BY sym ORDER BY sym
(SELECT count(*) AS n FROM t)
((FROM u ORDER BY w)); -- the end
FROM u SELECT w WHERE w > 2 ORDER BY w DESC; /* the end */ ;
FROM t JOIN u ON t.sym = u.sym SELECT count(*) AS n WHERE t.qty > 2
FROM t, u SELECT max(w) AS w WHERE t.sym = u.sym
SELECT sym, sym, qty AS SYM FROM t GROUP BY ALL ORDER BY ALL
SELECT *, w FROM u ORDER BY w
SELECT * FROM u a JOIN u b ON a.w = b.w ORDER BY a.w
SELECT stddev_pop(rate) > 1e9 AS a, variance(price) > 1 AS b, stddev(qty) IS NULL AS c FROM t
""".strip().splitlines()


@pytest.fixture(scope="module")
def both() -> tuple[LocalPSoup, duckdb.DuckDBPyConnection]:
    r, soup, duck = (
        random.Random(5),
        LocalPSoup(EngineConfig(chunk_rows=64, shape=EAGER)),
        duckdb.connect(config={"threads": 1}),
    )
    duck.execute("SET error_on_division_by_zero = false")  # NULL, as here
    start, day = dt.datetime(2026, 1, 1), dt.date(2026, 1, 1)
    pools: list[list[Any]] = [
        ["a", "b", "c", None],
        [1, 2, 3, 2**62, -(2**62), None, 7],
        [Decimal("1.50"), Decimal("-2.25"), None, Decimal("9999999.99")],
        [0.5, -0.0, 0.0, 2.25, None, 1e10],
        [True, False, None],
    ]
    rows = [[r.choice(pool) for pool in pools] for _ in range(300)]
    for second, row in enumerate(r.sample(range(9_000), len(rows))):  # all different: arg_min has no ties
        rows[second] += [start + dt.timedelta(seconds=row), day + dt.timedelta(days=row % 4)]
    trades = pa.table(
        [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), KINDS, strict=True)], NAMES
    )
    for name, columns, table in (("t", COLUMNS, trades), ("u", "(sym TEXT, w BIGINT)", pa.table(OTHER))):
        soup.execute(f"CREATE STREAM {name} {columns}")
        soup.push(name, table)
        duck.register("given", table)
        duck.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    return soup, duck


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) or isinstance(theirs, float):
        return ours is not None and theirs is not None and math.isclose(ours, theirs, rel_tol=1e-12)
    return bool((ours.replace(tzinfo=None) if isinstance(ours, dt.datetime) else ours) == theirs)


@pytest.mark.parametrize("statement", swept(STATEMENTS, fast=range(0, 67, 3)))
def test_an_answer_is_that_of_duckdb(statement: str, both: tuple[LocalPSoup, duckdb.DuckDBPyConnection]) -> None:
    soup, duck = both
    theirs = duck.execute(statement).fetchall()
    for _ in range(TIMES):
        with KEPT.compared():
            answer = soup.execute(statement)
            assert answer is not None
            table = answer.to_table()
            ours = list(zip(*[column.to_pylist() for column in table.columns], strict=True))
            assert len(ours) == len(theirs)
            for mine, row in zip(ours, theirs, strict=True):
                assert all(map(same, mine, row)), (mine, row)
    if "GROUP" not in statement:
        query = soup.register(statement)
        for _ in range(TIMES):
            assert soup.invoke(query).to_table() == table
