"""PARTITION BY in brackets: the plans that statements get, and the refusals, each with its place and the way out."""

from __future__ import annotations

import pytest

from psoup.errors import SqlError
from psoup.model import WindowClause
from psoup.plan.nodes import LastRows, Node, plan_text, walk
from psoup.plan.patterns import Pattern
from psoup.plan.updates import plan_updates
from psoup.sql import create_stream, prepare, standing_query
from psoup.sql.last_rows import MOST_KEYS

SPECS = {
    spec.name: spec
    for spec in (
        create_stream("CREATE STREAM s (k BIGINT, j TEXT, price DOUBLE)"),
        create_stream("CREATE STREAM r (k BIGINT, v BIGINT)"),
        create_stream("CREATE TABLE t (k BIGINT PRIMARY KEY, v BIGINT)"),
    )
}
PER_KEY = "the window of the last rows of each key is [PARTITION BY k ROWS 10]"


def _bound(sql: str) -> Node:
    return standing_query(sql, lambda name: SPECS.get(name.lower())).plan


@pytest.mark.parametrize(
    ("sql", "plan"),
    [
        (
            "select k from s [partition by K rows 10]",
            "Project k (LastRows PARTITION BY k ROWS 10 (Source s BEGIN (START) END (NOW)))",
        ),
        (
            "SELECT j FROM s x [PARTITION BY x.k, (j), k ROWS 2 PRECEDING] WHERE price > 3",
            "Project j (LastRows PARTITION BY k, j ROWS 2 (Source s BEGIN (START) END (NOW)))",
        ),
        (
            "SELECT count(*) FROM s [PARTITION BY _time ROWS 1]",
            "Project count(*) (Aggregate count(*) (LastRows PARTITION BY _time ROWS 1 (Source s BEGIN (START) END"
            " (NOW))))",
        ),
        (
            "SELECT a.j FROM s a [PARTITION BY k ROWS 3], r [ROWS 5] b WHERE a.k = b.k",
            "Project a.j AS j (Join a.k = b.k (LastRows PARTITION BY k ROWS 3 (Source s AS a BEGIN (START) END (NOW)),"
            " Source r AS b BEGIN (NOW - 5 ROWS) END (NOW)))",
        ),
        (
            "SELECT a.j FROM s a LEFT JOIN r b [PARTITION BY b.k ROWS 1] ON a.k = b.k",
            "Project a.j AS j (LEFT JOIN a.k = b.k (Source s AS a BEGIN (START) END (NOW), LastRows PARTITION BY k"
            " ROWS 1 (Source r AS b BEGIN (START) END (NOW))))",
        ),
        (
            "SELECT n FROM (SELECT k AS n FROM s [PARTITION BY j ROWS 2] WHERE price > 1) x WHERE n > 3",
            "Project n (LastRows PARTITION BY j ROWS 2 (Source s BEGIN (START) END (NOW)))",
        ),
    ],
)
def test_a_window_of_keys_is_a_node_above_its_source(sql: str, plan: str) -> None:
    bound = _bound(sql)
    assert plan_text(bound).replace("k AS n", "n") == plan
    updates = plan_updates(bound)
    assert [updates[id(node)].pattern for _, node in walk(bound) if isinstance(node, LastRows)] == [Pattern.STRICT]


def test_the_text_of_a_window_can_be_parsed_again() -> None:
    (window,) = [node.input.window_text for _, node in walk(_bound('SELECT k FROM s [PARTITION BY "K",J ROWS 007]'))
                 if isinstance(node, LastRows)]  # fmt: skip
    assert window == "PARTITION BY k, j ROWS 7"
    assert _bound(f"SELECT k FROM s [{window}]") == _bound("SELECT k FROM s [PARTITION BY k, j ROWS 7]")
    assert _bound("SELECT k FROM s [PARTITION BY j, k ROWS 7]") != _bound(f"SELECT k FROM s [{window}]")


def test_where_stays_with_the_source_so_that_its_clause_is_shared() -> None:
    queries = [
        standing_query(f"SELECT k FROM s{window} WHERE price > 3", SPECS.get)
        for window in ("", " [PARTITION BY k ROWS 1]", " [PARTITION BY j ROWS 9]")
    ]
    assert len({query.clause for query in queries}) == 1
    assert len({plan_text(query.plan) for query in queries}) == 3
    assert [query.window for query in queries] == [WindowClause()] * 3


def test_constants_of_where_may_be_parameters() -> None:
    prepared = prepare("SELECT k FROM s [PARTITION BY k ROWS 2] WHERE price > ?", SPECS.get)
    query = prepared.bind((3.0,))
    assert query.plan == _bound("SELECT k FROM s [PARTITION BY k ROWS 2] WHERE price > 3")
    assert query.sources[0].partition is not None


def test_where_in_brackets_is_the_clause_of_the_source_and_where_after_it_a_filter() -> None:
    alone = standing_query("SELECT k FROM s [PARTITION BY k ROWS 2 WHERE price > 3]", SPECS.get)
    assert plan_text(alone.plan) == (
        "Project k (LastRows PARTITION BY k ROWS 2 WHERE … (Source s BEGIN (START) END (NOW)))"
    )
    assert alone.clause == standing_query("SELECT k FROM s WHERE price > 3", SPECS.get).clause
    both = standing_query("SELECT k FROM s [ROWS 2 WHERE price > 3] WHERE k = 7", SPECS.get)
    assert plan_text(both.plan) == (
        "Project s.k AS k (Filter (s.k = 7) (LastRows ROWS 2 WHERE … (Source s AS s BEGIN (START) END (NOW))))"
    )
    assert [side.clause for side in both.sides] == [alone.clause]


def test_where_in_brackets_of_a_window_of_time_is_a_condition_like_others() -> None:
    inside = standing_query("SELECT k FROM s x [RANGE 1 HOUR WHERE x.price > 3] WHERE k = 7", SPECS.get)
    after = standing_query("SELECT k FROM s x [RANGE 1 HOUR] WHERE k = 7 AND x.price > 3", SPECS.get)
    assert (inside.plan, inside.clause) == (after.plan, after.clause)


def test_where_in_brackets_may_have_parameters() -> None:
    prepared = prepare("SELECT k FROM s [ROWS 2 WHERE price > ?] WHERE k = ?", SPECS.get)
    query = prepared.bind((3.0, 7))
    whole = standing_query("SELECT k FROM s [ROWS 2 WHERE price > 3.0] WHERE k = 7", SPECS.get)
    assert (query.plan, query.sides[0].clause) == (whole.plan, whole.sides[0].clause)


def test_the_number_of_rows_is_a_constant() -> None:
    with pytest.raises(SqlError, match="ROWS needs a number") as raised:
        prepare("SELECT k FROM s [PARTITION BY k ROWS ?]", SPECS.get)
    assert raised.value.column == 38


MANY = ", ".join(["k"] * (MOST_KEYS + 1))


@pytest.mark.parametrize(
    ("window", "at", "problem", "hint"),
    [
        ("PARTITION BY k ROWS 0", "0", "PARTITION BY … ROWS n: 0 ROWS is not a window", "count at least 1 ROW"),
        ("PARTITION BY k ROWS 1.5", "1.5", "PARTITION BY … ROWS n: 1.5 ROWS is not a whole number of rows", ""),
        ("PARTITION BY k ROWS 9999999999", "999", "PARTITION BY … ROWS 9999999999 is more than 2,147,483,647 rows", ""),
        ("PARTITION BY k ROWS -1", "-1", "a duration or a number of rows cannot be negative", ""),
        ("PARTITION BY k ROWS UNBOUNDED", "UNB", f"ROWS needs a number: {PER_KEY}", ""),
        ("PARTITION BY k ROWS", "]", f"ROWS needs a number: {PER_KEY}", ""),
        ("PARTITION BY k", "]", "PARTITION BY in brackets needs ROWS and a number", PER_KEY),
        ("PARTITION BY k RANGE 1 HOUR", "RANGE", "PARTITION BY takes ROWS, not RANGE", PER_KEY),
        ("PARTITION BY z ROWS 1", "z", "stream 's' has no column 'z'", "its columns are k, j, price"),
        ("PARTITION BY prise ROWS 1", "prise", "stream 's' has no column 'prise'", "did you mean 'price'?"),
        ("PARTITION BY y.k ROWS 1", "y", "'y' is not in FROM; the stream is called 's' here", ""),
        (
            "PARTITION BY k + 1 ROWS 1",
            "k",
            "an expression in PARTITION BY of a window is not supported",
            "push the value",
        ),
        ("PARTITION BY now() ROWS 1", "now", "an expression in PARTITION BY of a window is not supported", "push"),
        ("ROWS 1 WHERE", "]", "WHERE needs a condition", "[ROWS 50 WHERE price > 10]"),
        ("WHERE k > 1 ROWS 1", "WHERE", "WHERE is the last part of a window in brackets", "[ROWS 50 WHERE price > 10]"),
        ("ROWS 1 WHERE z > 1", "z", "stream 's' has no column 'z'", "its columns are k, j, price"),
        ("BEGIN (NOW - 5 ROWS) END (NOW - 1 ROWS) WHERE k > 1", "[", "does not end at NOW is not supported", "ROWS 50"),
        ("ROWS 1 PARTITION BY k", "PARTITION", "expected ] after the window", "[PARTITION BY k ROWS 10]"),
        (f"PARTITION BY {MANY} ROWS 1", "k", "PARTITION BY has 17 keys, more than 16", "fewer columns"),
    ],
)
def test_a_wrong_window_is_refused_at_its_place(window: str, at: str, problem: str, hint: str) -> None:
    sql = f"SELECT k FROM s [{window}]"
    with pytest.raises(SqlError) as raised:
        _bound(sql)
    assert problem in str(raised.value)
    assert hint in raised.value.hint
    assert sql[raised.value.column - 1 :].startswith(at)


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("SELECT k FROM t [PARTITION BY k ROWS 1]", "'t' is a table, which has no window"),
        ("SELECT k FROM s [PARTITION BY k ROWS 1] BEGIN (NOW - 1)", "BEGIN or END do not go together"),
        ("SELECT k FROM (SELECT k FROM s) x [PARTITION BY k ROWS 1]", "(PARTITION BY) of a subselect is not supported"),
        ("SELECT a FROM s AS x(a, b) [PARTITION BY b ROWS 1]", "beside new names for columns is not supported"),
        ("SELECT k FROM s [ROWS 1] x [PARTITION BY k ROWS 1]", "a source has one window"),
        ("SELECT k FROM (SELECT k FROM s) x [RANGE 1 HOUR WHERE k > 1]", "WHERE in the window of a subselect"),
        ("SELECT a FROM s AS x(a, b) [ROWS 1 WHERE b > 1]", "WHERE of a window beside new names for columns"),
        ("SELECT k FROM t [ROWS 1 WHERE k > 1]", "'t' is a table, which has no window"),
        ("SELECT k FROM s [ROWS 1 WHERE EXISTS (SELECT 1 FROM r)]", "EXISTS in SELECT is not supported"),
    ],
)
def test_a_window_of_keys_is_of_one_stream(sql: str, problem: str) -> None:
    with pytest.raises(SqlError) as raised:
        _bound(sql)
    assert problem in str(raised.value)
