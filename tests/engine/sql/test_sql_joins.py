"""Statements over several streams: what goes to a side, what to the join, and what is refused."""

from __future__ import annotations

import pytest

from psoup.errors import InvalidInput, SqlError
from psoup.model import StreamSpec
from psoup.plan.nodes import Join, plan_text, walk
from psoup.plan.standing_query import Parameter, StandingQuery
from psoup.sql import create_stream, prepare, standing_query

STREAMS = {
    spec.name: spec
    for spec in map(
        create_stream,
        (
            "CREATE STREAM r (k BIGINT, a BIGINT, t TIMESTAMP) TIMESTAMP BY t",
            "CREATE STREAM s (k BIGINT, b DOUBLE, at TIMESTAMP) TIMESTAMP BY at",
            "CREATE STREAM u (k BIGINT, name TEXT, at TIMESTAMP) TIMESTAMP BY at",
            'CREATE STREAM "order" ("from" BIGINT, "x y" TEXT, at TIMESTAMP) TIMESTAMP BY at',
            "CREATE STREAM clocked (k BIGINT)",
        ),
    )
}


def lookup(name: str) -> StreamSpec | None:
    return STREAMS.get(name.lower())


def bind(text: str) -> StandingQuery:
    return standing_query(text, lookup, list(STREAMS))


def join_of(query: StandingQuery) -> Join:
    (join,) = [node for _, node in walk(query.plan) if isinstance(node, Join)]
    return join


def test_conditions_go_to_the_side_that_they_are_about_or_to_the_join() -> None:
    query = bind(
        "SELECT r.*, b FROM r, s WHERE r.k = s.k AND r.a > 3 AND (b < 2 OR b IS NULL) AND t <= at"
        " AND (a = 1 OR b = 2) BEGIN (NOW - 1 HOUR)"
    )
    assert [side.text for side in query.sides] == [
        "SELECT * FROM r WHERE (r.a > 3) BEGIN (NOW - 1 HOUR) END (NOW)",
        "SELECT * FROM s WHERE ((b < 2 OR b IS NULL)) BEGIN (NOW - 1 HOUR) END (NOW)",
    ]
    join = join_of(query)
    assert [key.text(("r", "s")) for key in join.keys] == ["r.k = s.k"]
    assert [band.text() for band in join.bands] == ["t <= 1.at"]
    assert len(join.rest) == 1
    assert [output.name for output in query.select] == ["k", "a", "t", "b"]
    assert query.streams == ("r", "s")


@pytest.mark.parametrize(
    "text",
    [
        "SELECT a, name FROM r JOIN u ON r.k = u.k AND a > 1 WHERE name LIKE 'x%'",
        "SELECT a, name FROM r AS r JOIN u ON (a > 1 AND r.k = u.k) WHERE name LIKE 'x%'",
        "SELECT a, name FROM r, u WHERE a > 1 AND (name LIKE 'x%' AND (u.k = r.k))",
        "SELECT a, name FROM r INNER JOIN u USING (k) WHERE name LIKE 'x%' AND a >= 2",
        "SELECT a, name FROM r CROSS JOIN u WHERE r.k = u.k AND -- the key\n name LIKE 'x%' AND a > 1",
    ],
)
def test_the_same_join_is_written_in_many_ways(text: str) -> None:
    query = bind(text)
    assert [side.clause for side in query.sides] == [
        "FROM r WHERE a >= 2",
        "FROM u WHERE starts_with(name, 'x')",
    ]
    assert len(join_of(query).keys) == 1


def test_a_side_is_a_statement_that_says_the_same() -> None:
    query = bind(
        'SELECT o.at FROM "order" o JOIN r AS "select" ON "select".k = o."from" AND o."x y" <> \'a" -- b\' AND NOT'
        ' o."from" BETWEEN 2 AND 4 WHERE a = 1 OR a = 2'
    )
    for side, selection in zip(query.sides, query.selections, strict=True):
        again = bind(side.text)
        assert (again.clause, again.factors) == (selection.clause, selection.factors)
    assert query.sides[1].clause == "FROM r WHERE (a >= 1 AND a < 3)"
    assert "x y" in query.sides[0].clause


@pytest.mark.seeded("an equality that follows from others is dropped")
def test_equalities_and_constants_follow_from_others() -> None:
    query = bind("SELECT a FROM r, s, u WHERE r.k = s.k AND s.k = u.k AND u.k = 5")
    assert {key.text() for key in join_of(query).keys if key.implied} == {"k = 2.k"}
    assert [side.clause for side in query.sides] == ["FROM r WHERE k = 5", "FROM s WHERE k = 5", "FROM u WHERE k = 5"]
    assert "Join r.k = s.k AND s.k = u.k (" in plan_text(query.plan)


def test_a_self_join_has_two_sides_of_one_stream() -> None:
    query = bind("SELECT x.a, y.a AS later FROM r x, r y WHERE x.k = y.k AND x.t < y.t AND y.a > 0")
    assert [side.clause for side in query.sides] == ["FROM r", "FROM r WHERE a >= 1"]
    assert query.streams == ("r",)
    assert [source.alias for source in query.sources] == ["x", "y"]


@pytest.mark.parametrize(
    ("brackets", "window"),
    [
        ("[RANGE 1 HOUR]", "BEGIN (NOW - 1 HOUR) END (NOW)"),
        ("[RANGE 1 HOUR PRECEDING]", "BEGIN (NOW - 1 HOUR) END (NOW)"),
        ("[ROWS 100]", "BEGIN (NOW - 100 ROWS) END (NOW)"),
        ("[ROWS 100 PRECEDING]", "BEGIN (NOW - 100 ROWS) END (NOW)"),
        ("[NOW]", "BEGIN (NOW) END (NOW)"),
        ("[UNBOUNDED]", "BEGIN (START) END (NOW)"),
        ("[RANGE UNBOUNDED PRECEDING]", "BEGIN (START) END (NOW)"),
        ("[BEGIN (NOW - 60) END (NOW - 30)]", "BEGIN (NOW - 1 MINUTE) END (NOW - 30 SECONDS)"),
    ],
)
def test_each_source_may_have_a_window_in_brackets(brackets: str, window: str) -> None:
    for text in (f"SELECT a FROM s, r {brackets} AS x", f"SELECT a FROM s, r x {brackets}"):
        query = bind(f"{text} WHERE s.k = x.k")
        assert query.sides[0].text == "SELECT * FROM s BEGIN (START) END (NOW)"
        assert query.sides[1].text == f"SELECT * FROM r AS x {window}"
    assert bind(f"SELECT a FROM r {brackets}").window == bind(f"SELECT a FROM r {window}").window


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("SELECT * FROM r, s WHERE r.k = s.k ORDER BY k", "AMBIGUOUS_COLUMN", "2 columns of the SELECT list"),
        ("SELECT k FROM r, s WHERE r.k = s.k", "AMBIGUOUS_COLUMN", "'k' is a column of r and of s"),
        ("SELECT _time FROM r, s WHERE r.k = s.k", "AMBIGUOUS_COLUMN", "say whose: r._time"),
        ("SELECT a FROM r, s WHERE z.k = s.k", "UNKNOWN_COLUMN", "the sources are called r, s"),
        ("SELECT a FROM r, s WHERE r.k = s.kk", "UNKNOWN_COLUMN", "stream 's' has no column 'kk'"),
        ("SELECT nme FROM r, u WHERE r.k = u.k", "UNKNOWN_COLUMN", "did you mean 'name'?"),
        ("SELECT a FROM r, r WHERE a = 1", "DUPLICATE_SOURCE", "name one with AS"),
        ("SELECT r.a FROM r, s, u, r b, r c, r d, r e, r f, r g", "TOO_MANY_SOURCES", "9 sources, more than 8"),
        ("SELECT a FROM r [NOW], s WHERE r.k = s.k BEGIN (NOW)", "TWO_WINDOWS", "in brackets, or all of them one"),
        ("SELECT a FROM r [NOW] x [NOW], s WHERE x.k = s.k", "TWO_WINDOWS", "a source has one window"),
        ("SELECT a FROM r, clocked WHERE r.k = clocked.k", "MIXED_TIME_DOMAINS", "no NOW in common"),
        ("SELECT a FROM r JOIN s USING (a)", "UNKNOWN_COLUMN", "USING (a): 's' has no such column"),
        ("SELECT a FROM r, s JOIN u USING (k)", "AMBIGUOUS_COLUMN", "write ON, and say whose"),
        ("SELECT a FROM r, nope WHERE r.k = nope.k", "UNKNOWN_STREAM", "there is no stream or table 'nope'"),
        ("SELECT a FROM r, u WHERE r.k = u.name", "TYPE_MISMATCH", "cannot compare BIGINT with TEXT"),
        ("SELECT a FROM r, s WHERE r.k = s.k AND s._id > 1", "NOT_SUPPORTED", "_id in WHERE"),
        ("SELECT a FROM r [RANGE 5 ROWS], s WHERE r.k = s.k", "SQL", "write [ROWS 100]"),
        ("SELECT a FROM r [ROWS 5 MINUTES], s WHERE r.k = s.k", "SQL", "ROWS needs a number alone"),
        ("SELECT a FROM r [RANGE], s WHERE r.k = s.k", "SQL", "RANGE needs a duration"),
        ("SELECT a FROM r [NOW, s WHERE r.k = s.k", "SQL", "expected ] after the window"),
        ("SELECT a FROM r [1 HOUR], s WHERE r.k = s.k", "SQL", "of a source is [RANGE 1 HOUR]"),
        ("SELECT a FROM r, s WHERE r.k = s.k AND a[1] = 2", "NOT_SUPPORTED", "a list or a struct is not supported"),
        ("SELECT a FROM r [NOW - 1 HOUR], s WHERE r.k = s.k", "SQL", "a window in brackets is [RANGE 1 HOUR]"),
        ("SELECT a FROM r (RANGE 1 HOUR), s WHERE r.k = s.k", "SQL", "in brackets: [RANGE 1 HOUR]"),
        ("SELECT r.a FROM r x, s WHERE x.k = s.k", "UNKNOWN_COLUMN", "FROM calls r by the name x: write x.a"),
        ("SELECT x.k, s.k FROM r x, s WHERE x.k = s.k ORDER BY k", "AMBIGUOUS_COLUMN", "name one with AS"),
        ("SELECT x.k w, s.b w FROM r x, s WHERE x.k = s.k GROUP BY w", "AMBIGUOUS_COLUMN", "called 'w'"),
        ("SELECT name FROM u JOIN s USING (name)", "UNKNOWN_COLUMN", "its columns are k, b, at; other"),
        ("SELECT a FROM r STRAIGHT_JOIN s ON r.k = s.k", "NOT_SUPPORTED", "the joins are [INNER], CROSS, LEFT"),
        ("SELECT a FROM r JOIN s USING (k) USING (k)", "SQL", "each JOIN has one ON, or one USING"),
        ("SELECT a FROM r INNER s ON r.k = s.k", "SQL", "write INNER JOIN"),
        ("SELECT a FROM r, s WHERE r.k = s.k AND s.at < r.t + 1 HOUR", "SQL", "is INTERVAL 1 HOUR"),
        ("SELECT a FROM r, s WHERE r.k = s.k AND s.at < r.t + '1 hour'", "TYPE_MISMATCH", "to a time is an INTERVAL"),
    ],
)
def test_a_join_is_refused_with_the_way_out(text: str, reason: str, message: str) -> None:
    with pytest.raises(SqlError) as refused:
        bind(text)
    assert message in str(refused.value)
    assert refused.value.reason == reason


def test_many_conditions_over_several_sources_are_refused() -> None:
    text = "SELECT a FROM r, s WHERE r.k = s.k" + "".join(f" AND r.a + s.b <> {i}" for i in range(64))
    with pytest.raises(SqlError, match="more than 64 conditions are over several sources"):
        bind(text)


def test_few_rows_of_a_cross_join_may_be_asked_for() -> None:
    assert join_of(bind("SELECT a FROM r CROSS JOIN s LIMIT 10000")).keys == ()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("SELECT a, b FROM r, s WHERE r.k = s.k AND a > ? AND b < ? LIMIT 3", (5, 2.5)),
        ("SELECT a, b FROM r, s WHERE r.k = s.k AND a > $low AND (b < $high OR b > $low)", {"low": -5, "high": 2}),
        ("SELECT a, name FROM r JOIN u ON r.k = u.k AND r.k = ? AND name LIKE ? BEGIN (NOW - 60)", (-7, "x%'")),
        ("SELECT a, name FROM r JOIN u USING (k) WHERE name IN (?, ?) AND k = 9", ("p", "q?")),
        ("SELECT a, b FROM r, s WHERE r.k = s.k AND a + b > ? AND t >= ?", (1, "2020-01-01 00:00:00")),
        ("SELECT a, b FROM r, s WHERE r.k = s.k AND (a = ? OR b = ?)", (1, 2)),
        ("SELECT a, b FROM r, s WHERE r.k = s.k AND a = ?", (None,)),
    ],
)
def test_a_template_makes_what_its_text_says(text: str, values: tuple[Parameter, ...] | dict[str, Parameter]) -> None:
    prepared = prepare(text, lookup)
    query = prepared.bind(values)
    assert query == bind(query.text)
    assert query.plan is not None
    assert {source.spec.name for source in prepared.sources} == set(query.streams)


def test_a_wrong_value_of_a_join_is_named() -> None:
    prepared = prepare("SELECT a, b FROM r, s WHERE r.k = s.k AND a > ? AND b < ?", lookup)
    with pytest.raises(InvalidInput, match="parameter 2 of query 4 is 'x'"):
        prepared.bind((1, "x"), 4)
    with pytest.raises(InvalidInput, match="query 4: 1 parameter is given"):
        prepared.bind([1], 4)
