"""WHERE to boolean factors: a table of texts and the clauses that they become, and the shape of their terms."""

from __future__ import annotations

import pytest

from psoup.expressions.tree import AttributeRef, Call, Literal
from psoup.model import BIGINT, BOOLEAN, TEXT, StreamSpec
from psoup.plan.factors import Factor, Interval, Term
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, standing_query
from psoup.sql.where.factors import like_prefix

SPEC = create_stream(
    "CREATE STREAM s (a BIGINT, b BIGINT, x DOUBLE, p DECIMAL(6,2), q DECIMAL(6,2), n TEXT, f BOOLEAN, "
    "t TIMESTAMP, u TIMESTAMP, d DATE)"
)


def lookup(name: str) -> StreamSpec | None:
    return SPEC if name.lower() == "s" else None


def bind(where: str) -> StandingQuery:
    return standing_query(f"SELECT a FROM s WHERE {where}", lookup)


A = AttributeRef(BIGINT, 0, "a")
B = AttributeRef(BIGINT, 1, "b")
N = AttributeRef(TEXT, 5, "n")
F = AttributeRef(BOOLEAN, 6, "f")


@pytest.mark.parametrize(
    ("where", "clause"),
    [
        # One attribute against a constant; conjuncts of one attribute meet in one factor.
        ("a > 3", "a >= 4"),
        ("3 < a", "a >= 4"),
        ("NOT a <= 3", "a >= 4"),
        ("A >= 4.0", "a >= 4"),
        ("a > 3 AND a < 10", "(a >= 4 AND a < 10)"),
        ("a > 3 AND a < 4", "FALSE"),
        ("a BETWEEN 2 AND 5", "(a >= 2 AND a < 6)"),
        ("a NOT BETWEEN 2 AND 5", "(a < 2 OR a >= 6)"),
        ("a BETWEEN 5 AND 2", "FALSE"),
        ("a IN (3, 1, 2, 9)", "((a >= 1 AND a < 4) OR a = 9)"),
        ("a = 1 OR a = 9 OR a = 1", "a IN (1, 9)"),
        ("a <> 3", "(a < 3 OR a >= 4)"),
        ("a NOT IN (3, 5)", "(a < 3 OR a >= 6 OR a = 4)"),
        ("a IN (1, NULL)", "a = 1"),
        ("a NOT IN (1, NULL)", "FALSE"),
        ("a IN (b, 3)", "(a = 3 OR difference(a, b) = 0)"),
        ("a = NULL", "FALSE"),
        ("NOT a = NULL", "FALSE"),
        ("a > 3 OR a <= 3", "a IS NOT NULL"),
        ("a > 3 OR a <= 3 OR a IS NULL", ""),
        ("a IS NULL AND a = 3", "FALSE"),
        ("a IS NOT NULL AND a = 3", "a = 3"),
        ("NOT (a IS NULL)", "a IS NOT NULL"),
        # Constants move into the column's domain exactly.
        ("a > 2.5", "a >= 3"),
        ("a < 2.5", "a < 3"),
        ("a = 2.5", "FALSE"),
        ("a <> 2.5", "a IS NOT NULL"),
        ("a >= 2.5e0", "a >= 3"),
        ("a > 9223372036854775807", "FALSE"),
        ("a >= 9223372036854775808", "FALSE"),
        ("a < 9223372036854775808", "a IS NOT NULL"),
        ("a > -9223372036854775808", "a >= -9223372036854775807"),
        ("a >= -9223372036854775808", "a IS NOT NULL"),
        ("a < CAST('nan' AS DOUBLE)", "a IS NOT NULL"),
        ("a > CAST('inf' AS DOUBLE)", "FALSE"),
        ("p > 2.505", "p >= 2.51"),
        ("p = 2.5", "p = 2.50"),
        ("p = 2.505", "FALSE"),
        ("p > 2", "p >= 2.01"),
        ("p < 100000", "p < 100000.00"),
        ("x = 0.1", "x = 0.1e0"),
        ("x > 9007199254740993", "x >= 9007199254740994.0e0"),
        ("x = 9007199254740993", "FALSE"),
        ("x = -0.0", "x = 0.0e0"),
        ("x >= CAST('nan' AS DOUBLE)", "x >= CAST('nan' AS DOUBLE)"),
        ("x <= CAST('nan' AS DOUBLE)", "x IS NOT NULL"),
        ("x > CAST('nan' AS DOUBLE)", "FALSE"),
        ("t >= '2013-07-01'", "t >= TIMESTAMP '2013-07-01 00:00:00'"),
        ("t > DATE '2013-07-01'", "t >= TIMESTAMP '2013-07-01 00:00:00.000001'"),
        ("d > DATE '2013-07-01'", "d >= DATE '2013-07-02'"),
        ("_time < TIMESTAMP '2013-07-01'", "_time < TIMESTAMP '2013-07-01 00:00:00'"),
        # Text: order of bytes, prefixes.
        ("n = 'ab'", "n = 'ab'"),
        ("n = ''", "n = ''"),
        ("n > 'ab'", "n > 'ab'"),
        ("n <= 'ab'", "n <= 'ab'"),
        ("n >= ''", "n IS NOT NULL"),
        ("n < ''", "FALSE"),
        ("n = 'it''s'", "n = 'it''s'"),
        ("n LIKE 'ab'", "n = 'ab'"),
        ("n LIKE 'ab%'", "starts_with(n, 'ab')"),
        ("n LIKE 'é%%'", "starts_with(n, 'é')"),
        ("n LIKE '%'", "n IS NOT NULL"),
        ("n LIKE ''", "n = ''"),
        ("n LIKE 'a!%%' ESCAPE '!'", "starts_with(n, 'a%')"),
        ("n LIKE 'a!%' ESCAPE '!'", "n = 'a%'"),
        ("a IS DISTINCT FROM 3", "(a < 3 OR a >= 4 OR a IS NULL)"),
        ("a IS NOT DISTINCT FROM 3", "a = 3"),
        ("a IS NOT DISTINCT FROM NULL", "a IS NULL"),
        ("NULL IS DISTINCT FROM a", "a IS NOT NULL"),
        ("(a > 3) IS TRUE", "a >= 4"),
        ("(a > 3) IS NOT TRUE", "(NOT (a > 3) OR (a > 3) IS NULL)"),
        ("year(t) = 2013", "(t >= TIMESTAMP '2013-01-01 00:00:00' AND t < TIMESTAMP '2014-01-01 00:00:00')"),
        ("year(d) > 2013", "d >= DATE '2014-01-01'"),
        ("NOT year(t) <= 2012.5", "t >= TIMESTAMP '2013-01-01 00:00:00'"),
        ("year(t) > 9223372036854775806", "FALSE"),
        ("t::DATE > DATE '2013-07-01'", "t >= TIMESTAMP '2013-07-02 00:00:00'"),
        ("n ILIKE 'Ab%'", "starts_with(lower(n), 'ab')"),
        ("n ILIKE 'Ab'", "lower(n) = 'ab'"),
        ("n NOT LIKE 'ab%'", "(n < 'ab' OR n >= 'ac')"),
        ("n LIKE NULL", "FALSE"),
        ("n LIKE 'ab%' AND n > 'abc'", "(n > 'abc' AND n < 'ac')"),
        ("n LIKE 'a_%'", "(n LIKE 'a_%')"),
        ("n NOT LIKE '%b'", "NOT (n LIKE '%b')"),
        # BOOLEAN columns are leaves.
        ("f", "f"),
        ("NOT f", "NOT f"),
        ("f = TRUE", "f"),
        ("f <> TRUE", "NOT f"),
        ("f > FALSE", "f"),
        ("f IN (TRUE, FALSE)", "f IS NOT NULL"),
        ("f IS NULL", "f IS NULL"),
        ("(a > 3) = TRUE", "a >= 4"),
        ("(a > 3) = FALSE", "a < 4"),
        ("(a > 3) IS NULL", "(a > 3) IS NULL"),
        # Derived attributes.
        ("a + b > 3", "(a + b) >= 4"),
        ("2 * a = b", "difference((2 * a), b) = 0"),
        ("length(n) BETWEEN 1 AND 3", "(length(n) >= 1 AND length(n) < 4)"),
        ("upper(n) LIKE 'A%'", "starts_with(upper(n), 'A')"),
        ("CAST(a AS TEXT) = '5'", "CAST(a AS TEXT) = '5'"),
        ("a", "CAST(a AS BOOLEAN)"),
        ("extract(hour FROM t) = 5", "extract('hour', t) = 5"),
        ("CASE WHEN f THEN a ELSE b END > 3", "case(f, a, b) >= 4"),
        ("x > sqrt(x)", "(x > sqrt(x))"),
        # Attribute against attribute.
        ("a > b", "difference(a, b) >= 1"),
        ("b < a", "difference(a, b) >= 1"),
        ("a <= b", "difference(a, b) < 1"),
        ("p >= q + 0.5", "difference(p, q) >= 50"),
        ("a < b - 5", "b >= -9223372036854775803 AND difference(a, b) < -5"),
        ("p > a", "(p > a)"),
        ("d = d + 1", "(d >= DATE KEY -2147483647 AND d < DATE KEY 2147483646) AND difference(d, d) = 1"),
        ("t > u + INTERVAL '1' MONTH", "difference(add_interval(u, 1, 0), t) < 0"),
        # AND, OR, NOT.
        ("a > 3 AND b > 3", "a >= 4 AND b >= 4"),
        ("b > 3 AND a > 3 AND b > 3", "a >= 4 AND b >= 4"),
        ("a = 1 OR b = 2", "(a = 1 OR b = 2)"),
        ("NOT (a = 1 OR b = 2)", "(a < 1 OR a >= 2) AND (b < 2 OR b >= 3)"),
        ("NOT (a > 1 AND b > 2)", "(a < 2 OR b < 3)"),
        ("(a = 1 AND f) OR (a = 3 AND NOT f)", "(NOT f OR a = 1) AND (a = 3 OR f) AND a IN (1, 3) AND f IS NOT NULL"),
        ("a = 1 OR (b = 2 AND f)", "(a = 1 OR b = 2) AND (a = 1 OR f)"),
        ("a IS NULL OR (a IS NOT NULL AND b = 2)", "(a IS NULL OR b = 2)"),
        ("a = 1 OR TRUE", ""),
        ("a = 1 OR FALSE", "a = 1"),
        ("a = 1 OR NULL", "a = 1"),
        ("a = 1 AND NULL", "FALSE"),
        ("TRUE", ""),
        ("1 = 2", "FALSE"),
        ("NULL", "FALSE"),
        ("1 // 0 = 1", "(1 // 0) = 1"),
    ],
)  # fmt: skip
def test_clauses(where: str, clause: str) -> None:
    query = bind(where)
    assert query.clause == (f"FROM s WHERE {clause}" if clause else "FROM s")
    assert bind(f"({where})").clause == query.clause


def test_terms_of_columns_and_text() -> None:
    assert bind("a > 3").factors == (Factor((Term(A, (Interval(4, None),)),)),)
    assert bind("a <> 3 OR b IS NULL").factors == (
        Factor((Term(A, (Interval(None, 3), Interval(4, None))), Term(B, (), nulls=True))),
    )
    assert bind("n LIKE 'ab%' OR n = 'x'").factors == (
        Factor((Term(N, (Interval(b"ab", b"ac"), Interval(b"x", b"x\0"))),)),
    )


def test_nothing_and_everything() -> None:
    assert bind("TRUE").factors == ()
    assert standing_query("SELECT a FROM s", lookup).factors == ()
    assert bind("a = 1 AND a = 2").factors == (Factor(()),)


def test_opaque_factors_are_boolean_attributes_that_must_be_true() -> None:
    pattern = Call(BOOLEAN, "like", (N, Literal(TEXT, "%b")))
    assert bind("n LIKE '%b'").factors == (Factor((Term(pattern, (Interval(1, 2),)),)),)
    assert bind("n NOT LIKE '%b'").factors == (Factor((Term(pattern, (Interval(0, 1),)),)),)
    assert bind("f").factors == (Factor((Term(F, (Interval(1, 2),)),)),)


def test_terms_of_a_factor_have_different_attributes() -> None:
    for factor in bind("(a = 1 OR b = 2 OR a > 7) AND (f OR n LIKE 'x%' OR f IS NULL)").factors:
        attributes = [term.attribute for term in factor.terms]
        assert len(set(attributes)) == len(attributes)


def test_a_conjunct_too_large_for_cnf_becomes_opaque() -> None:
    small = " OR ".join(f"(a = {i} AND b = {i} AND x = {i})" for i in range(2))
    large = " OR ".join(f"(a = {i} AND b = {i} AND x = {i})" for i in range(9))
    assert len(bind(small).factors) > 1
    (factor,) = bind(large).factors
    assert [term.intervals for term in factor.terms] == [(Interval(1, 2),)]
    assert factor.terms[0].attribute.type == BOOLEAN


def test_long_disjunctions_of_one_attribute_stay_intervals() -> None:
    (factor,) = bind(" OR ".join(f"a = {i}" for i in range(0, 2_000, 2))).factors
    assert len(factor.terms[0].intervals) == 1_000
    (factor,) = bind("a IN (" + ", ".join(str(i) for i in range(2_000)) + ")").factors
    assert factor.terms[0].intervals == (Interval(0, 2_000),)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT a FROM s WHERE a > 3 AND b = 2",
            "select b from S x where X.B = 2 and 4 <= x.a limit 3 begin (now - 5)",
        ),
        ("SELECT a FROM s WHERE n IN ('x', 'y')", "SELECT a FROM s WHERE n = 'y' OR n = 'x' ORDER BY a"),
        ("SELECT a FROM s WHERE a + b > 3", "SELECT a FROM s WHERE 3 < a  +  b /* the sum */"),
        ("SELECT a FROM s", "SELECT b FROM s WHERE 1 = 1"),
    ],
)
def test_the_clause_does_not_see_case_order_aliases_and_spelling(one: str, other: str) -> None:
    assert standing_query(one, lookup).clause == standing_query(other, lookup).clause


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("p = 2.50", "p = 2.5e0"),
        ("n = 'A'", "n = 'a'"),
        ("a = 1", "a <> 1"),
        ("upper(n) = 'A'", "lower(n) = 'A'"),
        ("CAST(a AS DOUBLE) = 1", "a = 1"),
        ("coalesce(a, 1) = 1", "coalesce(a, 2) = 1"),
        ("coalesce(p, 1.0) = 1", "coalesce(p, 1.00) = CAST(a AS DECIMAL(6,2))"),
        ("CAST(a AS DECIMAL(5,1)) = 1", "CAST(a AS DECIMAL(6,1)) = 1"),
    ],
)
def test_different_clauses_have_different_texts(one: str, other: str) -> None:
    assert bind(one).factors != bind(other).factors
    assert bind(one).clause != bind(other).clause


@pytest.mark.parametrize(
    ("pattern", "escape", "expected"),
    [
        ("", "", ("", False)),
        ("abc", "", ("abc", False)),
        ("ab%", "", ("ab", True)),
        ("ab%%", "", ("ab", True)),
        ("%", "", ("", True)),
        ("ab%c", "", None),
        ("%ab", "", None),
        ("a_", "", None),
        ("a\\%", "", ("a\\", True)),
        ("a\\%", "\\", ("a%", False)),
        ("a!_!!%", "!", ("a_!", True)),
        ("a%%b", "%", ("a%b", False)),
        ("a%%", "%", ("a%", False)),
        ("a!", "!", None),
    ],
)
def test_like_prefix(pattern: str, escape: str, expected: tuple[str, bool] | None) -> None:
    assert like_prefix(pattern, escape) == expected
