"""Features of other systems, as their test suites have them: each refusal names the feature that is not supported."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.sql import create_stream, prepare, standing_query

STREAMS = {
    "t": create_stream("CREATE STREAM t (a BIGINT, b BIGINT, c TEXT, d DOUBLE, ts TIMESTAMP)"),
    "s": create_stream("CREATE STREAM s (a BIGINT, b BIGINT, c TEXT)"),
}
REFUSED = r"""
SELECT * FROM range(10)   ->   the table function range() is not supported
SELECT a FROM read_csv('file.csv')   ->   the table function read_csv() is not supported
SELECT a FROM read_parquet(['a', 'b'])   ->   a list or a struct is not supported
SELECT a FROM t, [1, 2] x   ->   a list or a struct is not supported
SELECT a FROM t JOIN range(3) r(i) ON t.a = r.i   ->   the table function range() is not supported
SELECT a FROM unnest([1]) AS t(a)   ->   UNNEST is not supported
SELECT unnest(c) FROM t   ->   UNNEST is not supported
SELECT generate_series(1, 10)   ->   FROM is missing
SELECT [1, 2, 3] FROM t   ->   a list or a struct is not supported
SELECT {'a': 1, 'b': 2} FROM t   ->   a list or a struct is not supported
SELECT struct_pack(x := 1, y := 2) FROM t   ->   an argument by name is not supported
SELECT ROW(1, 2) FROM t   ->   row() is not supported
SELECT (a, b) FROM t   ->   a row of several values is not supported
SELECT MAP([1], [2]) FROM t   ->   a list or a struct is not supported
SELECT c[1:2] FROM t   ->   a list or a struct is not supported
SELECT a FROM t WHERE c[1] = 'x'   ->   a list or a struct is not supported
SELECT a FROM t WHERE a IN [1, 2]   ->   a list or a struct is not supported
SELECT a::INT[] FROM t   ->   a list or a struct is not supported
SELECT CAST(a AS STRUCT(x INT, y INT)) FROM t   ->   a type with fields is not supported
SELECT CAST(a AS MAP(INT, INT)) FROM t   ->   the type MAP(INT, INT) is not supported
SELECT a::HUGEINT FROM t   ->   the type HUGEINT is not supported
SELECT c::ENUM('a', 'b') FROM t   ->   the type ENUM('a', 'b') is not supported
SELECT a::foo.bar FROM t   ->   the type foo.bar is not supported
SELECT list_filter(c, x -> x > 1) FROM t   ->   a lambda (x -> …) is not supported
SELECT list_filter(c, lambda x: x > 1) FROM t   ->   a lambda (lambda x: …) is not supported
SELECT list_reduce(c, (x, y) -> x + y) FROM t   ->   a lambda (x -> …) is not supported
SELECT list_sort(c) FROM t   ->   list_sort(), a function of lists, is not supported
SELECT struct_extract(c, 'a') FROM t   ->   struct_extract(), a function of structs and maps, is not supported
SELECT json_object(c, 'a') FROM t   ->   json_object(), a function of JSON, is not supported
SELECT c -> '$.a' FROM t   ->   a JSON operator is not supported
SELECT c #>> '{a}' FROM t   ->   a JSON operator is not supported
PIVOT t ON c USING sum(a)   ->   the statement PIVOT is not supported
SELECT * FROM t PIVOT (sum(a) FOR c IN ('x', 'y'))   ->   PIVOT is not supported
SELECT a, b, sum(d) FROM t GROUP BY GROUPING SETS ((a), (b), ())   ->   GROUPING SETS is not supported
SELECT a, sum(d) FROM t GROUP BY ROLLUP (a)   ->   ROLLUP is not supported
SELECT a, sum(d) FROM t GROUP BY CUBE (a, b)   ->   CUBE is not supported
SELECT a, grouping_id(a) FROM t GROUP BY a   ->   grouping_id() is not supported
SELECT c FROM t ORDER BY c COLLATE NOCASE   ->   COLLATE is not supported
SELECT CAST(a AS VARCHAR COLLATE NOCASE) FROM t   ->   COLLATE is not supported
SELECT INTERVAL 1 YEAR FROM t   ->   an INTERVAL as a value is not supported
SELECT ts + INTERVAL (a) DAY FROM t   ->   an INTERVAL needs a constant and one unit, as in INTERVAL '15' MINUTE
SELECT ts - INTERVAL '1-2' YEAR TO MONTH FROM t   ->   an INTERVAL from one unit TO another is not supported
SELECT TIME '10:00:00' FROM t   ->   the type TIME is not supported
SELECT UUID '00000000-0000-0000-0000-000000000000' FROM t   ->   the type UUID is not supported
SELECT X'AA' FROM t   ->   a binary constant (X'…') is not supported
SELECT B'0101' FROM t   ->   a constant of bits (B'…') is not supported
SELECT U&'x' FROM t   ->   a text of Unicode escapes (U&'…') is not supported
WITH RECURSIVE r(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM r) SELECT * FROM r   ->   WITH RECURSIVE is not supported
SELECT * FROM t TABLESAMPLE reservoir(10)   ->   TABLESAMPLE is not supported
SELECT * FROM t USING SAMPLE 10 ROWS   ->   USING SAMPLE is not supported
SELECT * FROM t POSITIONAL JOIN s   ->   POSITIONAL JOIN is not supported
SELECT t.a FROM t ANY JOIN s USING (a)   ->   ANY JOIN is not supported
SELECT a FROM t WHERE (a, b) < (3, 4)   ->   a row of several values here is not supported
SELECT sum(a) FILTER (WHERE sum(b) > 1) FROM t   ->   the aggregate sum in FILTER is not supported
SELECT abs(a) FILTER (WHERE a > 1) FROM t   ->   FILTER belongs to an aggregate
SELECT array_agg(a) FILTER (WHERE a > 1) FROM t   ->   the aggregate or window function array_agg is not supported
SELECT count(*) FILTER WHERE a > 1 FROM t   ->   FILTER without parentheses is not supported
SELECT max(a) KEEP (DENSE_RANK FIRST ORDER BY b) FROM t   ->   KEEP is not supported
SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY a) FROM t   ->   WITHIN GROUP is not supported
SELECT sum(a ORDER BY b LIMIT 2) FROM t   ->   LIMIT in a function is not supported
SELECT first(a) IGNORE NULLS FROM t   ->   IGNORE NULLS is not supported
SELECT COLUMNS(*) FROM t   ->   COLUMNS(…) is not supported
SELECT min(COLUMNS('a.*')) FROM t   ->   COLUMNS(…) is not supported
SELECT * RENAME (a AS z) FROM t   ->   * with RENAME is not supported
SELECT b: a + 1 FROM t   ->   a name before its expression (name: x) is not supported
SELECT a FROM t LIMIT 10%   ->   LIMIT with PERCENT or WITH TIES is not supported
SELECT a FROM t ORDER BY a USING >   ->   USING in ORDER BY is not supported
SELECT a ** 2 FROM t   ->   the operator ** is not supported
SELECT a ^ 2 FROM t   ->   the operator ^ (use power) is not supported
SELECT c ^@ 'x' FROM t   ->   the operator ^@ is not supported
SELECT a FROM t WHERE c @> 'x'   ->   the operator @> is not supported
SELECT a <-> b FROM t   ->   the operator <-> is not supported
SELECT a FROM t WHERE c MATCH 'a'   ->   the operator MATCH is not supported
SELECT a FROM t WHERE c GLOB 'a*'   ->   GLOB is not supported
SELECT OVERLAY(c PLACING 'x' FROM 1 FOR 2) FROM t   ->   OVERLAY … PLACING is not supported
SELECT TRY(a / 0) FROM t   ->   try() is not supported
SELECT t FROM t   ->   the row of 't' as a value is not supported
SELECT count(t) FROM t   ->   the row of 't' as a value is not supported
SELECT y FROM t AS x(y INT, z INT)   ->   a type with fields is not supported
SELECT a FROM main.t   ->   a stream's name of several parts is not supported
SELECT a FROM t AT (VERSION => 1)   ->   AT (VERSION …) is not supported
SELECT a FROM t FOR UPDATE   ->   FOR UPDATE is not supported
SELECT a FROM t INDEXED BY i   ->   INDEXED BY is not supported
SELECT AS STRUCT a FROM t   ->   SELECT AS STRUCT, or AS VALUE is not supported
SELECT random() FROM t   ->   random(), which changes by itself, is not supported
SELECT a FROM t; SELECT b FROM t   ->   one statement at a time, please
"""
"""Statements, each with the message of its refusal."""


@pytest.mark.parametrize("line", REFUSED.strip().splitlines())
def test_a_refusal_names_the_feature(line: str) -> None:
    statement, message = line.split("   ->   ")
    with pytest.raises(SqlError) as refused:
        standing_query(statement, lambda name: STREAMS.get(name.lower()), ["t", "s"])
    assert refused.value.problem == message


def test_a_parameter_may_have_a_cast() -> None:
    query = prepare("SELECT a FROM t WHERE a = ?::BIGINT + 1", lambda name: STREAMS.get(name.lower())).bind(("41",))
    assert query.clause == "FROM t WHERE a = 42"
