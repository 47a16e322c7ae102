"""Outer joins, EXISTS, IN and scalar subselects: the plan of a statement, and the conditions of its sides."""

from __future__ import annotations

import pytest

from psoup.errors import NotSupported, SqlError
from psoup.model import StreamSpec
from psoup.plan.nodes import Source, walk
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, prepare, standing_query

STREAMS = {
    spec.name: spec
    for spec in map(
        create_stream,
        (
            "CREATE STREAM a (k BIGINT, x BIGINT NOT NULL, t TIMESTAMP)",
            "CREATE STREAM b (k BIGINT, y BIGINT NOT NULL, w TEXT)",
            "CREATE STREAM c (k BIGINT, z DOUBLE)",
            "CREATE STREAM timed (k BIGINT, at TIMESTAMP) TIMESTAMP BY at",
        ),
    )
}


def lookup(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def bind(text: str) -> StandingQuery:
    return standing_query(text, lookup, list(STREAMS))


def plan_of(query: StandingQuery) -> str:
    """The plan below its Project, in one line: the label of each node, with its inputs in parentheses."""
    lines = [(depth, "" if isinstance(node, Source) else node.label, node) for depth, node in walk(query.plan)]
    (_, _, top), *below = lines
    assert top.label.startswith("Project")
    text, last = "", 0
    for depth, label, node in below:
        shown = node.alias if isinstance(node, Source) else label
        text += "(" * (depth - last) if depth > last else ")" * (last - depth) + ", " * bool(text)
        text += shown
        last = depth
    return text[1:] + ")" * (last - 1)


def wheres(query: StandingQuery) -> list[str]:
    """The stream and the conditions of each side."""
    texts = [side.text.removeprefix("SELECT * FROM ") for side in query.sides]
    return [text.partition(" BEGIN")[0] for text in texts]


@pytest.mark.parametrize(
    ("rest", "plan", "sides"),
    [
        # ON of the kept source decides about partners; ON of the other one is a condition of its side
        (
            "LEFT JOIN b ON a.k = b.k AND b.y > 3 AND a.x = 1",
            "LEFT JOIN a.k = b.k AND (a.x = 1)(a, b)",
            ["a", "b WHERE (b.y > 3)"],
        ),
        (
            "RIGHT JOIN b ON a.k = b.k AND b.y > 3 AND a.x = 1",
            "RIGHT JOIN a.k = b.k AND (b.y > 3)(a, b)",
            ["a WHERE (a.x = 1)", "b"],
        ),
        (
            "FULL JOIN b ON a.k = b.k AND b.y > 3 AND a.x = 1",
            "FULL JOIN a.k = b.k AND (b.y > 3) AND (a.x = 1)(a, b)",
            ["a", "b"],
        ),
        # WHERE of the kept source goes to its side; WHERE of the other one is a Filter
        (
            "LEFT JOIN b ON a.k = b.k WHERE a.x > 5 AND b.w IS NULL",
            "Filter (b.w IS NULL)(LEFT JOIN a.k = b.k(a, b))",
            ["a WHERE (a.x > 5)", "b"],
        ),
        (
            "FULL JOIN b ON a.k = b.k WHERE coalesce(a.x, 6) > 5",
            "Filter (coalesce(a.x, 6) > 5)(FULL JOIN a.k = b.k(a, b))",
            ["a", "b"],
        ),
        # WHERE that NULL cannot satisfy takes away the rows with a missing tuple
        ("LEFT JOIN b ON a.k = b.k WHERE b.y > 2", "Join a.k = b.k(a, b)", ["a", "b WHERE (b.y > 2)"]),
        ("RIGHT JOIN b ON a.k = b.k WHERE a.x + 1 > 2", "Join a.k = b.k(a, b)", ["a WHERE (a.x + 1 > 2)", "b"]),
        ("FULL JOIN b ON a.k = b.k WHERE a.x = 1", "LEFT JOIN a.k = b.k(a, b)", ["a WHERE (a.x = 1)", "b"]),
        (
            "FULL JOIN b ON a.k = b.k WHERE NOT b.w IS NULL",
            "RIGHT JOIN a.k = b.k(a, b)",
            ["a", "b WHERE (NOT b.w IS NULL)"],
        ),
        ("FULL JOIN b ON a.k = b.k WHERE a.x = b.y", "Join a.k = b.k AND a.x = b.y(a, b)", ["a", "b"]),
        (
            "LEFT JOIN b ON a.k = b.k WHERE b.y > 2 OR a.x = 1",
            "Filter ((b.y > 2) OR (a.x = 1))(LEFT JOIN a.k = b.k(a, b))",
            ["a", "b"],
        ),
        (
            "LEFT JOIN b ON a.k = b.k LEFT JOIN c ON b.y = c.k WHERE c.z > 1",
            "Join a.k = b.k AND b.y = c.k(a, b, c)",
            ["a", "b", "c WHERE (c.z > 1)"],
        ),
        # a comma joins what stands before and after it
        (
            ", b RIGHT JOIN c ON b.k = c.k WHERE a.k = c.k",
            "Join a.k = c.k(a, RIGHT JOIN b.k = c.k(b, c))",
            ["a", "b", "c"],
        ),
        ("NATURAL LEFT JOIN b", "LEFT JOIN a.k = b.k(a, b)", ["a", "b"]),
        ("SEMI JOIN b USING (k)", "SEMI JOIN a.k = b.k(a, b)", ["a", "b"]),
        ("ANTI JOIN b ON a.k = b.k AND a.x > 1", "ANTI JOIN a.k = b.k AND (a.x > 1)(a, b)", ["a", "b"]),
        (
            "ASOF LEFT JOIN b ON a.k = b.k AND a.x >= b.y",
            "ASOF LEFT JOIN a.k = b.k AND a.x >= b.y(a, b)",
            ["a", "b"],
        ),
    ],
)
def test_each_condition_of_a_join_has_its_place(rest: str, plan: str, sides: list[str]) -> None:
    query = bind(f"SELECT a.x FROM a {rest}")
    assert (plan_of(query), wheres(query)) == (plan, sides)


@pytest.mark.parametrize(
    ("condition", "plan", "sides"),
    [
        (
            "EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND y > 2 AND x < 3)",
            "SEMI JOIN a.k = b.k(a, b)",
            ["a WHERE (x < 3)", "b WHERE (y > 2)"],
        ),
        (
            "NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND y > 2 AND x < 3)",
            "ANTI JOIN a.k = b.k AND (a.x < 3)(a, b)",
            ["a", "b WHERE (y > 2)"],
        ),
        ("x IN (SELECT y FROM b WHERE w = 'q')", "SEMI JOIN a.x = b.y(a, b)", ["a", "b WHERE (w = 'q')"]),
        (
            "x NOT IN (SELECT y FROM b WHERE b.k < a.k)",
            "NOT IN a.x = b.y AND a.k > b.k(a, b)",
            ["a", "b"],
        ),
        (
            "NOT (x IN (SELECT y + 1 FROM b))",
            "NOT IN a.x = (b.y + 1)(a, b)",
            ["a", "b"],
        ),
        (
            "EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND EXISTS (SELECT 1 FROM c WHERE c.k = a.k AND z > y))",
            "SEMI JOIN a.k = b.k AND a.k = c.k(a, Join c.z > b.y(b, c))",
            ["a", "b", "c"],
        ),
        (
            "x > (SELECT avg(y) FROM b WHERE w = 'q')",
            'Join a.x > subselect."avg(y)"(a, Relation subselect(Project avg(b.y) AS "avg(y)"(Aggregate avg(b.y)(b))))',
            ["a", "b WHERE (w = 'q')"],
        ),
        (
            "x IN (SELECT max(y) FROM b GROUP BY w)",
            'SEMI JOIN a.x = subselect."max(y)"(a, Relation subselect'
            '(Project max(b.y) AS "max(y)"(Aggregate max(b.y) BY b.w(b))))',
            ["a", "b"],
        ),
    ],
)
def test_subselects_of_where_become_joins(condition: str, plan: str, sides: list[str]) -> None:
    query = bind(f"SELECT a.x FROM a WHERE {condition}")
    assert (plan_of(query), wheres(query)) == (plan, sides)


def test_a_column_of_using_is_that_of_the_source_whose_rows_are_kept() -> None:
    left, right, full = (
        bind(f"SELECT k FROM a {side} JOIN b USING (k)").plan.label for side in ("LEFT", "RIGHT", "FULL")
    )
    assert (left, right, full) == ("Project a.k AS k", "Project b.k AS k", "Project coalesce(a.k, b.k) AS k")


def test_star_has_a_column_of_using_once() -> None:
    names = [output.name for output in bind("SELECT * FROM a FULL JOIN b USING (k)").select]
    assert names == ["k", "x", "t", "y", "w"]


def test_a_column_of_a_missing_tuple_may_be_null() -> None:
    """A count of a column that is NOT NULL counts rows, but not those in which the tuple is missing."""
    aggregates = [node.label for _, node in walk(bind("SELECT count(y), count(x) FROM a LEFT JOIN b USING (k)").plan)]
    assert "Aggregate count(b.y), count(*)" in aggregates


def test_each_use_of_a_stream_is_a_side_with_a_name_of_its_own() -> None:
    query = bind("SELECT x FROM a WHERE k IN (SELECT k FROM b) AND x NOT IN (SELECT y FROM b [ROWS 5])")
    assert [source.alias for source in query.sources] == ["a", "b", "b_2"]
    assert [side.text.partition("BEGIN ")[2] for side in query.sides] == [
        "(START) END (NOW)",
        "(START) END (NOW)",
        "(NOW - 5 ROWS) END (NOW)",
    ]


def test_one_window_holds_for_all_sources() -> None:
    query = bind("SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k) BEGIN (NOW - 5 MINUTES)")
    assert len({source.window for source in query.sources}) == 1


def test_parameters_stand_anywhere_in_where() -> None:
    template = prepare(
        "SELECT x FROM a WHERE x > ? AND EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND y < ?)", lookup, list(STREAMS)
    )
    assert wheres(template.bind((5, 7))) == ["a WHERE (x > 5)", "b WHERE (y < 7)"]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.q)", SqlError, "a has no column 'q'"),
        ("SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = d.k)", SqlError, "'d' is not in FROM"),
        ("SELECT x FROM a WHERE EXISTS (SELECT nope FROM b)", SqlError, "none of b, a has a column 'nope'"),
        ("SELECT x FROM a WHERE x = 1 OR EXISTS (SELECT 1 FROM b)", NotSupported, "EXISTS under OR"),
        ("SELECT x FROM a WHERE x = 1 OR x IN (SELECT y FROM b)", NotSupported, r"IN \(SELECT …\) under OR"),
        ("SELECT EXISTS (SELECT 1 FROM b) FROM a", NotSupported, "EXISTS"),
        ("SELECT x FROM a WHERE x IN (SELECT y, k FROM b)", SqlError, "the subselect of IN has one column"),
        ("SELECT x FROM a WHERE x > (SELECT y FROM b)", NotSupported, "a subselect of several rows"),
        ("SELECT x FROM a LEFT JOIN b", SqlError, "LEFT JOIN needs ON or USING"),
        ("SELECT x FROM a NATURAL JOIN timed t2 JOIN b ON TRUE", SqlError, "have no NOW in common"),
        ("SELECT x FROM a LEFT JOIN b USING (w)", SqlError, "'a' has no such column"),
        ("SELECT k FROM a LEFT JOIN b ON a.k = b.k", SqlError, "'k' is a column of a and of b"),
        ("SELECT x FROM a ASOF JOIN b ON a.k = b.k", SqlError, "ASOF JOIN needs an inequality"),
        ("SELECT x FROM a LEFT JOIN a ON TRUE", SqlError, "two sources of FROM are called 'a'"),
        (
            "SELECT x FROM a WHERE EXISTS (SELECT 1 FROM b WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = a.k))",
            NotSupported,
            "two levels up",
        ),
        (
            "SELECT x FROM a LEFT JOIN b [ROWS 5] USING (k) BEGIN (NOW - 5 MINUTES)",
            SqlError,
            "a window in brackets and BEGIN or END do not go together",
        ),
    ],
)
def test_what_cannot_be_bound_is_named(text: str, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        bind(text)
