"""Set operations, subselects in FROM, WITH and VALUES: the plan of a statement, and the conditions of its sides."""

from __future__ import annotations

from typing import Any

import pytest

from psoup.errors import NotSupported, SqlError
from psoup.model import StreamSpec
from psoup.plan.nodes import Relation, Source, Values, walk
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, prepare, standing_query
from psoup.sql.templates.joins import JoinTemplate

STREAMS = {
    spec.name.lower(): spec
    for spec in map(
        create_stream,
        (
            "CREATE STREAM a (k BIGINT, x BIGINT NOT NULL, t TIMESTAMP)",
            "CREATE STREAM b (k BIGINT, y BIGINT NOT NULL, w TEXT)",
            "CREATE STREAM c (k BIGINT, z DOUBLE, d DECIMAL(6,2), f DATE)",
            "CREATE STREAM requests (client_id BIGINT, domain TEXT, url TEXT)",
            "CREATE STREAM domains (domain TEXT, type TEXT)",
        ),
    )
}


def lookup(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def bind(text: str) -> StandingQuery:
    return standing_query(text, lookup, list(STREAMS))


def shape(query: StandingQuery) -> str:
    """The plan in one line: the label of each node, the alias of a source, and the inputs in parentheses."""
    text, last = "", -1
    for depth, node in walk(query.plan):
        text += "(" * (depth - last) if depth > last else ")" * (last - depth) + ", "
        text += (node.alias or node.spec.name) if isinstance(node, Source) else node.label
        last = depth
    return text[1:] + ")" * last


def wheres(query: StandingQuery) -> list[str]:
    """The stream and the conditions of each side."""
    texts = [side.text.removeprefix("SELECT * FROM ") for side in query.sides]
    return [text.partition(" BEGIN")[0] for text in texts]


INLINED = [
    (  # a condition on a column of the subselect goes to the side, in the stream's own name
        "SELECT u.k2, y FROM (SELECT k AS k2 FROM a WHERE x > 3) u LEFT JOIN b ON u.k2 = b.k WHERE u.k2 > 7",
        "Project a.k AS k2, b.y AS y(LEFT JOIN a.k = b.k(a, b))",
        ['a WHERE ("k" > 7) AND (x > 3)', "b"],
    ),
    (  # a missing tuple makes x + 1 NULL, too
        "SELECT * FROM b LEFT JOIN (SELECT k, x + 1 AS z FROM a WHERE x > 3) u USING (k) WHERE k = 3",
        "Project b.k AS k, b.y AS y, b.w AS w, (a.x + 1) AS z(LEFT JOIN b.k = a.k(b, a))",
        ['b WHERE ("k" = 3)', "a WHERE (x > 3)"],
    ),
    (  # but not the constant 1
        "SELECT b.k, z FROM b LEFT JOIN (SELECT k, 1 AS z FROM a) u USING (k)",
        "Project b.k AS k, u.z AS z(LEFT JOIN b.k = u.k(b, Relation u(Project a.k AS k, 1 AS z(a))))",
        ["b", "a"],
    ),
    (
        "SELECT u.z FROM (SELECT k, coalesce(x, 1) AS z FROM a) u FULL JOIN b USING (k)",
        "Project u.z AS z(FULL JOIN u.k = b.k(Relation u(Project a.k AS k, coalesce(a.x, 1) AS z(a)), b))",
        ["a", "b"],
    ),
    (  # a condition on an expression of the subselect is a Filter
        "SELECT t.y FROM (SELECT b.k + 1 AS j, y FROM b, c WHERE b.k = c.k AND z > 1) t JOIN a ON t.j = a.k"
        " WHERE t.j > 5",
        "Project b.y AS y(Join b.k = c.k AND (b.k + 1) = a.k(Filter ((b.k + 1) > 5)(b), c, a))",
        ["b", "c WHERE (z > 1)", "a"],
    ),
    (
        "SELECT k FROM (SELECT x AS k FROM a) t JOIN b USING (k) WHERE k > 3",
        "Project a.x AS k(Join a.x = b.k(a, b))",
        ['a WHERE ("x" > 3)', "b"],
    ),
    (
        "WITH t AS (SELECT k, x FROM a WHERE x > 1), u(j, m) AS (SELECT k, max(x) FROM t GROUP BY k)"
        " SELECT t.k, m FROM t JOIN u ON t.k = u.j WHERE m > 2",
        "Project a.k AS k, u.m AS m(Join a.k = u.j(a, Filter (u.m > 2)(Relation u(Project a_2.k AS k, max(a_2.x) AS"
        ' "max(x)"(Aggregate max(a_2.x) BY a_2.k(a_2))))))',
        ["a WHERE (x > 1)", "a WHERE (x > 1)"],
    ),
    (
        "SELECT k FROM a WHERE EXISTS (WITH z AS (SELECT k AS j FROM b WHERE y > 1) SELECT 1 FROM z WHERE z.j = a.k)",
        "Project a.k AS k(SEMI JOIN a.k = b.k(a, b))",
        ["a", "b WHERE (y > 1)"],
    ),
]


@pytest.mark.parametrize(("text", "plan", "sides"), INLINED)
def test_a_subselect_that_only_selects_and_joins_is_inlined(text: str, plan: str, sides: list[str]) -> None:
    query = bind(text)
    assert shape(query) == plan
    assert wheres(query) == sides


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("SELECT t.k, n FROM (SELECT k, x + 1 AS n FROM a WHERE x > 3) t WHERE t.n > 5 AND t.k = 2", "k, x + 1 AS n"),
        ("SELECT k, n FROM (SELECT * FROM (SELECT k, x + 1 AS n FROM a WHERE x > 3) i WHERE i.k = 2) WHERE n > 5", ""),
        ("WITH a AS (SELECT * FROM a WHERE k = 2) SELECT k, x + 1 AS n FROM a WHERE x + 1 > 5 AND x > 3", ""),
        ("((SELECT k, x + 1 AS n FROM a WHERE x > 3 AND k = 2 AND x + 1 > 5))", ""),
    ],
)
def test_a_selection_of_a_selection_is_a_plain_query(text: str, plain: str) -> None:
    query = bind(text)
    expected = bind("SELECT k, x + 1 AS n FROM a WHERE x > 3 AND k = 2 AND x + 1 > 5")
    assert query.selections == expected.selections
    assert query.plan == expected.plan
    assert not query.sides


UNITED = [
    (
        "SELECT k FROM a UNION SELECT y FROM b",
        "Project union.k AS k(Relation union(Union(Project a.k AS k(a), Project b.y AS y(b))))",
    ),
    (
        "SELECT k FROM a EXCEPT ALL SELECT k FROM b INTERSECT SELECT k FROM c ORDER BY 1 DESC LIMIT 3",
        "Limit 3(Sort except.k DESC(Project except.k AS k(Relation except(Except ALL(Project a.k AS k(a),"
        " Intersect(Project b.k AS k(b), Project c.k AS k(c)))))))",
    ),
    (  # what a SELECT orders and cuts is not changed by the cast
        "(SELECT k FROM a ORDER BY x LIMIT 3) UNION ALL SELECT DISTINCT z FROM c",
        "Project union.k AS k(Relation union(Union ALL(Project CAST(operand.k AS DOUBLE) AS k(Relation operand("
        "Limit 3(Sort a.x(Project a.k AS k(a))))), Distinct(Project c.z AS z(c)))))",
    ),
    (
        "SELECT k, NULL AS n FROM a UNION SELECT NULL, w FROM b",
        "Project union.k AS k, union.n AS n(Relation union(Union(Project a.k AS k, CAST(NULL AS TEXT) AS n(a),"
        " Project CAST(NULL AS BIGINT) AS NULL, b.w AS w(b))))",
    ),
    (
        "SELECT k FROM a WHERE k IN (SELECT k FROM b UNION SELECT 5)",
        "Project a.k AS k(SEMI JOIN a.k = subselect.k(a, Relation subselect(Union(Project b.k AS k(b),"
        ' Project select."5" AS "5"(Relation select(Values (5)))))))',
    ),
    (
        "SELECT u.k FROM (SELECT k FROM a UNION SELECT k FROM b) u WHERE k > 3",
        "Project u.k AS k(Filter (u.k > 3)(Relation u(Union(Project a.k AS k(a), Project b.k AS k(b)))))",
    ),
]


@pytest.mark.parametrize(("text", "plan"), UNITED)
def test_a_set_operation_is_a_relation(text: str, plan: str) -> None:
    assert shape(bind(text)) == plan


@pytest.mark.parametrize(
    ("left", "right", "kind"),
    [
        ("k FROM a", "d FROM c", "DECIMAL(38,2)"),
        ("d FROM c", "2.125 FROM c", "DECIMAL(7,3)"),
        ("k FROM a", "z FROM c", "DOUBLE"),
        ("d FROM c", "z FROM c", "DOUBLE"),
        ("k > 1 FROM a", "k FROM a", "BIGINT"),
        ("w FROM b", "k FROM a", "TEXT"),
        ("k FROM a", "'5' FROM a", "TEXT"),
        ("f FROM c", "t FROM a", "TIMESTAMP"),
        ("f FROM c", "w FROM b", "TEXT"),
        ("NULL FROM c", "f FROM c", "DATE"),
        ("sum(k) FROM a", "k FROM a", "DECIMAL(38,0)"),
    ],
)
def test_columns_of_two_queries_get_duckdbs_type(left: str, right: str, kind: str) -> None:
    for text in (f"SELECT {left} UNION ALL SELECT {right}", f"SELECT {right} EXCEPT SELECT {left}"):
        query = bind(text)
        assert str(query.select[0].type) == kind
        (relation,) = [node for _, node in walk(query.plan) if isinstance(node, Relation) and node.alias != "operand"]
        assert [str(part.schema[0].type) for part in relation.input.inputs] == [kind, kind]


def test_values_are_a_relation_of_constants() -> None:
    query = bind("SELECT a.k, n FROM a JOIN (VALUES (1, 2.5), (NULL, 3)) v(j, n) ON a.k = v.j")
    (values,) = [node for _, node in walk(query.plan) if isinstance(node, Values)]
    assert [[cell.value for cell in row] for row in values.rows] == [[1, 25], [None, 30]]
    assert [str(output.type) for output in values.outputs] == ["BIGINT", "DECIMAL(2,1)"]
    assert [output.name for output in query.select] == ["k", "n"]


def test_the_third_query_of_streams_section_2_1_is_a_join_of_two_sides() -> None:
    query = bind(
        "Select T.URL From (Select client_id, URL From Requests S, Domains R Where S.domain = R.domain"
        " And R.type = 'commerce') T Where T.client_id Between 1 And 1000"
    )
    assert shape(query) == "Project S.url AS url(Join S.domain = R.domain(S, R))"
    assert wheres(query) == [
        'requests AS S WHERE ("client_id" Between 1 And 1000)',
        "domains AS R WHERE (R.type = 'commerce')",
    ]


def test_a_window_in_brackets_after_a_subselect_is_that_of_its_sources() -> None:
    query = bind("SELECT t.k FROM (SELECT a.k FROM a, b WHERE a.k = b.k) t [RANGE 1 HOUR], c [NOW] WHERE t.k = c.k")
    assert [str(source.window.begin.offset // 1_000_000) for source in query.sources] == ["3600", "3600", "0"]
    item = bind("WITH t AS (SELECT k FROM a) SELECT t.k FROM t [RANGE 5 SECONDS] JOIN b [UNBOUNDED] USING (k)")
    assert [source.window.begin.offset for source in item.sources] == [5_000_000, 0]
    whole = bind("SELECT k FROM a UNION SELECT k FROM b BEGIN (NOW - 7) END (NOW)")
    assert {source.window.begin.offset for source in whole.sources} == {7_000_000}


def test_parameters_stand_in_any_select() -> None:
    text = (
        "WITH t AS (SELECT k AS j FROM a WHERE x > ?) SELECT j FROM t WHERE j < ? UNION ALL"
        " SELECT y FROM b LEFT JOIN c USING (k) WHERE coalesce(z, ?) > 1 AND w = ?"
    )
    template = prepare(text, lookup)
    values = (5, 7, 2.5, "it's")
    expected = text
    for constant in ("5", "7", "2.5e0", "'it''s'"):
        expected = expected.replace("?", constant, 1)
    assert template.bind(values) == bind(expected)
    assert wheres(template.bind(values))[:2] == ['a WHERE ("k" < 7) AND (x > 5)', "b WHERE (w = 'it''s')"]


REFUSED = [
    ("SELECT k, x FROM a UNION SELECT k FROM b", "COLUMN_COUNT", "UNION of 2 columns with 1"),
    ("SELECT k FROM a UNION SELECT f FROM c", "TYPE_MISMATCH", "column 1 is BIGINT in one SELECT and DATE"),
    ("SELECT k FROM a UNION SELECT k FROM b ORDER BY x", "UNKNOWN_COLUMN", "the result has no column 'x'"),
    ("SELECT * FROM (SELECT k FROM a) t(i, j)", "COLUMN_COUNT", "the list has 2 names, and the subselect 1 columns"),
    ("SELECT t.k FROM (SELECT k FROM a) t(z)", "UNKNOWN_COLUMN", "t has no column 'k'"),
    ("SELECT t.k FROM (SELECT k FROM b WHERE b.k = a.k) t, a", "UNKNOWN_COLUMN", "'a' is not in FROM"),
    ("SELECT t.k FROM (SELECT k FROM a) t, (SELECT k FROM b) T", "DUPLICATE_SOURCE", "two sources of FROM are called"),
    ("SELECT a.x FROM a JOIN (b JOIN c ON b.k = c.k) USING (k)", "AMBIGUOUS_COLUMN", "2 columns of the join in"),
    ("SELECT * FROM (VALUES (1), (2)) v", "SQL", "the statement reads no stream"),
    ("SELECT a.k FROM a, (VALUES (1), (2, 3)) v", "SQL", "different numbers of values"),
    ("SELECT a.k FROM a, (VALUES (1), (k)) v", "SQL", "VALUES has constants only"),
    ("SELECT a.k FROM a, (VALUES (1), ('x')) v", "INVALID_VALUE", "'x'"),
    ("SELECT k FROM a UNION SELECT now()", "SQL", "a SELECT without FROM has constants only"),
    ("SELECT k FROM a UNION SELECT 1 WHERE 1 > 2", "SQL", "FROM is missing"),
    ("SELECT t.k FROM (SELECT k FROM a [NOW]) t [RANGE 1 HOUR]", "TWO_WINDOWS", "a window of its own"),
    ("SELECT t.k FROM (SELECT k FROM a) t [RANGE 1 HOUR] BEGIN (NOW - 5)", "TWO_WINDOWS", "do not go together"),
    (
        "SELECT x.k FROM a x, a y, (SELECT q.k FROM a q, a r, a s) z, (SELECT q.k FROM a q, a r, a s, a t) w",
        "TOO_MANY_SOURCES",
        "name 9 sources, more than 8",
    ),
    ("SELECT k FROM a" + " UNION SELECT q.k FROM a q, a r, a s" * 6, "TOO_MANY_SOURCES", "more than 16 sources"),
    (
        "WITH p AS (SELECT q.k FROM a q, a r), o AS (SELECT q.k FROM p q, p r),"
        " n AS (SELECT DISTINCT q.k FROM o q, o r) SELECT l.k FROM n l, n m, n i",
        "TOO_MANY_SOURCES",
        "16 sources",
    ),
]


@pytest.mark.parametrize(("text", "reason", "problem"), REFUSED)
def test_what_is_wrong_names_its_place(text: str, reason: str, problem: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text)
    assert caught.value.reason == reason, str(caught.value)
    assert problem in caught.value.message


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("WITH t AS (SELECT k FROM t) SELECT k FROM t", "an item of WITH that reads itself"),
        ("WITH t AS (SELECT k FROM u), u AS (SELECT k FROM a) SELECT k FROM t", "or a later item"),
        ("SELECT t.k FROM (SELECT k FROM a) t [ROWS 5]", "a window of rows of a subselect"),
        (
            "SELECT k FROM a WHERE x > (SELECT avg(y) FROM b WHERE b.k > a.k)",
            "a subselect as a value that reads a source outside of it other than by equalities",
        ),
        ("SELECT k FROM a WHERE x > (SELECT avg(y + x) FROM b WHERE b.k = a.k)", "outside of it in its SELECT list"),
        ("SELECT a.k FROM a, (SELECT y FROM b WHERE b.k = a.k) t", "a subselect in FROM that reads a source outside"),
        (
            "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM (SELECT y FROM b WHERE b.k = a.k) t)",
            "a subselect in FROM that reads a source outside",
        ),
        ("SELECT k FROM a WHERE k IN (SELECT k FROM b WHERE y = x UNION SELECT 1)", "IN with a computed subselect"),
        (
            "SELECT k FROM a WHERE EXISTS (SELECT 1 FROM b WHERE y = x LIMIT 0)",
            "EXISTS or IN with a computed subselect",
        ),
    ],
)
def test_what_is_not_supported_has_a_name(text: str, feature: str) -> None:
    with pytest.raises(NotSupported, match=feature):
        bind(text)


def test_items_of_with_that_double_at_each_step_end_soon() -> None:
    steps = ["t0 AS (VALUES (1), (2))"]
    steps += [f"t{at} AS (SELECT p.col0 FROM t{at - 1} p, t{at - 1} q)" for at in range(1, 19)]
    with pytest.raises(SqlError) as caught:
        bind(f"WITH {', '.join(steps)} SELECT a.k FROM a, t18")
    assert caught.value.reason == "TOO_MANY_SOURCES"
    chain = ["t0 AS (SELECT k FROM a)", *(f"t{at} AS (SELECT k FROM t{at - 1})" for at in range(1, 40))]
    with pytest.raises(SqlError, match="nest deeper than 20 levels"):
        bind(f"WITH {', '.join(chain)} SELECT k FROM t39")


@pytest.mark.parametrize(
    ("text", "values", "joined"),
    [
        (
            "WITH t AS (SELECT k AS j FROM a WHERE x > $low) SELECT j FROM t WHERE j < $high UNION ALL"
            " SELECT y FROM b WHERE w = $w AND k NOT IN (SELECT k FROM a WHERE x = $low)",
            [(5, 7, "it's"), (-1, 0, "b"), (3, None, None), ("4", 8, "c")],
            True,
        ),
        ("SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND b.y > ? WHERE a.x = ?", [(1, 2), (None, 3)], True),
        ("SELECT a.k FROM a LEFT JOIN b ON a.k = b.k AND a.x > ? WHERE b.y IS NULL", [(1,), (7,)], False),
        ("SELECT g.k FROM (SELECT k, count(*) AS n FROM a WHERE x > ? GROUP BY k) g WHERE n > ?", [(1, 2)], False),
        ("WITH t AS (SELECT k, y FROM b WHERE y > ?) SELECT t.k FROM t FULL JOIN t u USING (k)", [(4,), (5,)], True),
        ("WITH t AS (SELECT k, x + 1 AS z FROM a WHERE x > ?) SELECT k FROM t WHERE z = ?", [(4, 5), (5, 9)], False),
    ],
)
def test_sides_are_templates_if_all_parameters_are_in_their_conditions(
    text: str, values: list[tuple[Any, ...]], joined: bool
) -> None:
    template = prepare(text, lookup)
    assert isinstance(template, JoinTemplate) == joined
    for row in values:
        query = template.bind(row)
        again = bind(query.text)
        assert query.selections == again.selections
        assert [side.text for side in query.sides] == [side.text for side in again.sides]
        assert query.plan == again.plan
