"""The trees of composed statements, and the composed statements that are refused before binding."""

from __future__ import annotations

import pytest
from sqlglot import exp

from psoup.errors import NotSupported, SqlError
from psoup.sql.composed.refusals import TOKENS, begins_composed, refuse_composed, refuse_levels
from psoup.sql.composed.shapes import is_composed, join_words, operands, unwrapped
from psoup.sql.elsewhere.advice import advised
from psoup.sql.parser.compositions import COMMA, OPERATOR
from psoup.sql.parser.grammar import EXTENT
from psoup.sql.parser.guards import tokens_of
from psoup.sql.parser.parse_tree import parse
from psoup.sql.refusals import refuse_statement, refuse_tokens
from psoup.sql.source import StatementText


def checked(text: str) -> exp.Expr:
    """The tree of a statement that the parser and the refusals accept."""
    source = StatementText(text)
    tokens = tokens_of(source)
    if not begins_composed(tokens):
        refuse_statement(source, tokens, "SELECT")
    with advised(source, tokens, lambda name: None):
        refuse_tokens(source, tokens, TOKENS)
        refuse_levels(source, tokens)
        tree = unwrapped(parse(source, tokens))
        assert is_composed(tree) or tree.args.get("begin")
        refuse_composed(source, tree)
    return tree


def nested(form: str, inner: str, levels: int) -> str:
    """A statement with `form` around `inner` several times."""
    for _ in range(levels):
        inner = form.format(inner)
    return inner


NESTED = [
    "SELECT 1 FROM s WHERE EXISTS ({})",
    "SELECT a FROM s WHERE a NOT IN ({}) AND a > 1",
    "SELECT max(a) FROM s WHERE a > ({})",
    "SELECT a FROM ({}) t",
    "SELECT a FROM s LEFT JOIN ({}) t ON s.a = t.a",
]


@pytest.mark.parametrize("form", NESTED)
def test_twenty_levels_of_subselects_are_read(form: str) -> None:
    assert isinstance(checked(nested(form, "SELECT max(a) FROM s", 20)), exp.Select)
    with pytest.raises(SqlError, match="subselects nest deeper than 20 levels"):
        checked(nested(form, "SELECT max(a) FROM s", 21))


def test_only_statements_with_others_inside_and_partner_joins_are_composed() -> None:
    for plain in ("SELECT a FROM s, r", "SELECT a FROM s JOIN r USING (a) CROSS JOIN q WHERE a IN (1, 2)"):
        assert not is_composed(parse(StatementText(plain), tokens_of(StatementText(plain))))
    for join in ("LEFT", "RIGHT OUTER", "FULL", "SEMI", "ANTI", "ASOF", "ASOF LEFT", "NATURAL", "NATURAL LEFT"):
        on = "" if join.startswith("NATURAL") else "ON s.t >= r.t"
        tree = checked(f"SELECT a FROM s {join} JOIN r {on}, q")
        first, second = tree.args["joins"]
        assert join_words(first) == join.removesuffix(" OUTER")
        assert second.meta[COMMA] and COMMA not in first.meta


def test_conditions_and_queries_have_their_place() -> None:
    text = "SELECT a FROM s WHERE NOT EXISTS (SELECT 1 FROM q WHERE q.x = s.x AND q.y > 2) AND a IN (VALUES (1), (2))"
    tree = checked(text)
    extents = [text[slice(*node.meta[EXTENT])] for node in tree.find_all(exp.EQ, exp.GT, exp.Not, exp.In)]
    assert sorted(extents) == [
        "NOT EXISTS (SELECT 1 FROM q WHERE q.x = s.x AND q.y > 2)",
        "a IN (VALUES (1), (2))",
        "q.x = s.x",
        "q.y > 2",
    ]
    inner = tree.find(exp.Exists)
    assert inner is not None
    assert text[inner.meta["start"] :].startswith("EXISTS")
    assert text[inner.this.meta["start"] :].startswith("SELECT 1")
    assert isinstance(tree.find(exp.In).args["query"].this, exp.Values)


def test_begin_and_end_belong_to_the_whole_statement() -> None:
    union = checked("SELECT a FROM s UNION SELECT b FROM r INTERSECT SELECT c FROM q BEGIN (NOW - 5) END (NOW) LIMIT 3")
    assert isinstance(union, exp.Union) and isinstance(union.expression.this, exp.Intersect)
    assert union.args["begin"] and union.args["end"] and union.args["limit"]
    assert not any(select.args.get("begin") for select in operands(union))
    assert len(list(operands(union))) == 3
    assert union.meta[OPERATOR] == 16
    alone = checked("((SELECT a FROM s)) BEGIN (NOW - 5)")
    assert isinstance(alone, exp.Select) and alone.args["begin"]
    item = checked("WITH t(x) AS (SELECT a FROM s) SELECT x FROM t END (NOW - 1)")
    assert item.args["end"] and item.args["with_"].expressions[0].args["alias"].args["columns"]


def test_windows_in_brackets_stand_before_or_after_the_name_of_a_subselect() -> None:
    tree = checked("SELECT a FROM (SELECT a FROM s) [RANGE 1 HOUR] t JOIN (SELECT b FROM r) u [NOW] ON t.a = u.b")
    first, second = tree.args["from_"].this, tree.args["joins"][0].this
    assert first.args["window"] is not None and second.args["alias"].args["window"] is not None


UNSUPPORTED = [
    ("SELECT a FROM s OUTER JOIN r ON s.a = r.a", "OUTER JOIN"),
    ("SELECT a FROM s ASOF RIGHT JOIN r ON s.t >= r.t", "ASOF RIGHT JOIN"),
    ("SELECT a FROM s POSITIONAL JOIN r", "POSITIONAL JOIN"),
    ("SELECT a FROM s WHERE a = 1 OR EXISTS (SELECT 1 FROM r)", "EXISTS under OR"),
    ("SELECT a FROM s WHERE NOT (a = 1 AND a IN (SELECT x FROM r))", r"IN \(SELECT …\) under NOT \(… AND …\)"),
    ("SELECT a, EXISTS (SELECT 1 FROM r) FROM s", "EXISTS in SELECT"),
    ("SELECT a FROM s JOIN q ON a IN (SELECT x FROM r)", r"IN \(SELECT …\) in ON"),
    ("SELECT a FROM s GROUP BY a HAVING EXISTS (SELECT 1 FROM r)", "EXISTS in HAVING"),
    ("SELECT a FROM s WHERE if(EXISTS (SELECT 1 FROM r), true, false)", "EXISTS in an expression"),
    ("SELECT a FROM s WHERE x > (SELECT x FROM s LIMIT 1)", "a subselect of several rows or columns as a value"),
    ("SELECT a FROM s WHERE x > (SELECT avg(x) FROM s GROUP BY k)", "a subselect of several rows"),
    ("SELECT a FROM s UNION SELECT a FROM s ORDER BY (SELECT avg(a) FROM s)", "a subselect in ORDER BY"),
    ("SELECT array(SELECT 1 FROM r) FROM s", "a subselect as an argument of a function"),
    ("SELECT a FROM s BEGIN (NOW - 5) UNION SELECT b FROM r", "BEGIN in a SELECT before UNION"),
    ("SELECT * FROM (SELECT a FROM s BEGIN (NOW - 5)) t", "BEGIN in a subselect"),
    ("WITH t AS (SELECT a FROM s END (NOW)) SELECT a FROM t", "END in a subselect"),
    ("SELECT a FROM s WHERE EXISTS (SELECT 1 FROM r BEGIN (NOW - 5))", "BEGIN in a subselect"),
    ("WITH RECURSIVE t AS (SELECT 1) SELECT * FROM t", "WITH RECURSIVE"),
    ("SELECT a FROM s EXCEPT ALL BY NAME SELECT b FROM r", "EXCEPT BY NAME"),
    ("SELECT a FROM s WHERE a > ANY (SELECT b FROM r)", "ANY"),
    ("SELECT a FROM s, LATERAL (SELECT b FROM r) t", "LATERAL"),
    ("SELECT a.k FROM (a JOIN b ON a.k = b.k) [NOW] JOIN c ON a.k = c.k", "a window of a join"),
]


@pytest.mark.parametrize(("text", "feature"), UNSUPPORTED)
def test_what_is_not_supported_is_refused_by_name(text: str, feature: str) -> None:
    with pytest.raises(NotSupported, match=f"{feature}.* not supported"):
        checked(text)


WRONG = [
    ("SELECT a FROM s LEFT JOIN r", "LEFT JOIN needs ON or USING"),
    ("SELECT a FROM s ASOF JOIN r ON s.t = r.t", "ASOF JOIN needs an inequality"),
    ("SELECT a FROM s ORDER BY a UNION SELECT b FROM r", "ORDER BY stands before UNION"),
    ("SELECT a FROM s UNION SELECT b FROM r LIMIT 3 EXCEPT SELECT c FROM q", "LIMIT stands before UNION"),
    ("SELECT a FROM s UNION", "a SELECT is missing at the end of the statement"),
    ("SELECT a FROM (s UNION SELECT b FROM r) t", "UNION needs a SELECT on both sides"),
    ("WITH t AS (SELECT a FROM s) t EXCEPT SELECT b FROM r", "EXCEPT needs a SELECT on both sides"),
    ("SELECT a FROM s UNION SELECT AND FROM [ 1 ) SELECT SELECT k FROM s", "NOW|window|bracket|closes|list"),
    ("SELECT a FROM s" + " UNION SELECT a FROM s" * 8, "a set operation has at most 8 SELECTs, not 9"),
    ("WITH t AS (DROP STREAM s) SELECT * FROM t", "'t' is not a SELECT"),
    ("WITH t AS (SELECT 1), T AS (SELECT 2) SELECT * FROM t", "WITH names 'T' twice"),
    ("SELECT a FROM s WHERE EXISTS (1)", r"EXISTS needs a SELECT in parentheses"),
]


@pytest.mark.parametrize(("text", "problem"), WRONG)
def test_what_is_wrong_is_refused_with_its_place(text: str, problem: str) -> None:
    with pytest.raises(SqlError, match=problem):
        checked(text)
