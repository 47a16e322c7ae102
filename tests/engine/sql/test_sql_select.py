"""The SELECT list, ORDER BY, LIMIT, DISTINCT and FROM of a standing query."""

from __future__ import annotations

import gc
from collections import Counter
from contextlib import suppress

import pytest
from sqlglot import exp

from psoup.errors import NotSupported, SqlError
from psoup.expressions.tree import AttributeRef, Call, Literal, Now
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, StreamSpec, decimal
from psoup.plan.nodes import Distinct, Limit, OrderKey, Output, Project, Sort, Source, plan_text, walk
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, standing_query
from psoup_testing.suite.sweeps import swept

SPEC = create_stream("CREATE STREAM Trades (price DECIMAL(8,2), vol BIGINT, sym TEXT, x DOUBLE, t TIMESTAMP, d DATE)")
PRICE = AttributeRef(decimal(8, 2), 0, "price")
VOL = AttributeRef(BIGINT, 1, "vol")
SYM = AttributeRef(TEXT, 2, "sym")


def lookup(name: str) -> StreamSpec | None:
    return SPEC if name.lower() == "trades" else None


def bind(text: str) -> StandingQuery:
    return standing_query(text, lookup, ("Trades", "Quotes"))


def test_columns_keep_the_declared_name_and_star_is_expanded() -> None:
    query = bind('select VOL, Sym AS s, "price" from trades')
    assert query.select == (Output("vol", VOL), Output("s", SYM), Output("price", PRICE))
    assert query.stream == "Trades"
    assert [output.name for output in bind("SELECT * FROM trades").select] == list(SPEC.schema.names)
    assert bind("SELECT t.* FROM trades t").select == bind("SELECT * FROM trades").select
    assert [o.name for o in bind("SELECT _id, *, _time FROM trades").select] == ["_id", *SPEC.schema.names, "_time"]


def test_pseudo_columns() -> None:
    query = bind("SELECT _ID, _time, _id + 1 AS next FROM trades ORDER BY _time DESC, _id")
    assert query.select[0] == Output("_id", AttributeRef(BIGINT, -1, "_id"))
    assert query.select[1] == Output("_time", AttributeRef(TIMESTAMP, -2, "_time"))
    assert [key.expr for key in query.plan.order][:2] == [query.select[1].expr, query.select[0].expr]


def test_unnamed_expressions_are_named_by_their_text() -> None:
    query = bind("SELECT vol  +\n 1, upper(sym), count FROM trades".replace(", count", ", 'a  b'"))
    assert [output.name for output in query.select] == ["vol + 1", "upper(sym)", "'a b'"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("1", BIGINT),
        ("2.50", decimal(3, 2)),
        (".5", decimal(2, 1)),
        ("1_000", BIGINT),
        ("1e3", DOUBLE),
        ("-9223372036854775808", BIGINT),
        ("9223372036854775808", DOUBLE),
        ("'x'", TEXT),
        ("TRUE", BOOLEAN),
        ("TIMESTAMP '2013-01-01'", TIMESTAMP),
        ("DATE '2013-01-01'", DATE),
        ("vol + 1", BIGINT),
        ("vol / 2", DOUBLE),
        ("vol // 2", BIGINT),
        ("vol % 2", BIGINT),
        ("-x", DOUBLE),
        ("sym || vol", TEXT),
        ("price > 3 AND x > 1", BOOLEAN),
        ("CAST(vol AS DECIMAL(10,1))", decimal(10, 1)),
        ("vol::TEXT", TEXT),
        ("TRY_CAST(sym AS DOUBLE)", DOUBLE),
        ("CASE WHEN vol > 1 THEN 1 ELSE 2.5 END", decimal(2, 1)),
        ("CASE sym WHEN 'a' THEN 1 WHEN 'b' THEN 2 END", BIGINT),
        ("coalesce(sym, 'none')", TEXT),
        ("ifnull(vol, 0)", BIGINT),
        ("nullif(vol, 0)", BIGINT),
        ("greatest(vol, 2, 3)", BIGINT),
        ("abs(x)", DOUBLE),
        ("round(x, 2)", DOUBLE),
        ("floor(price)", decimal(8, 0)),
        ("ceil(x)", DOUBLE),
        ("ceiling(x)", DOUBLE),
        ("sqrt(vol)", DOUBLE),
        ("power(vol, 2)", DOUBLE),
        ("pow(vol, 2)", DOUBLE),
        ("lower(sym)", TEXT),
        ("length(sym)", BIGINT),
        ("substr(sym, 1, 2)", TEXT),
        ("substring(sym FROM 2 FOR 1)", TEXT),
        ("substring(sym, 2)", TEXT),
        ("trim(sym)", TEXT),
        ("trim(BOTH 'x' FROM sym)", TEXT),
        ("trim(sym, 'x')", TEXT),
        ("ltrim(sym)", TEXT),
        ("concat(sym, vol, NULL)", TEXT),
        ("starts_with(sym, 'a')", BOOLEAN),
        ("contains(sym, 'a')", BOOLEAN),
        ("replace(sym, 'a', 'b')", TEXT),
        ("extract(year FROM t)", BIGINT),
        ("extract(epoch FROM t)", DOUBLE),
        ("date_part('hour', t)", BIGINT),
        ("date_trunc('month', t)", TIMESTAMP),
        ("t + INTERVAL '1' DAY", TIMESTAMP),
        ("t - INTERVAL '2 hours'", TIMESTAMP),
        ("INTERVAL 1 MONTH + d", TIMESTAMP),
        ("d + 1", DATE),
        ("d - DATE '2013-01-01'", BIGINT),
        ("now()", TIMESTAMP),
        ("current_timestamp", TIMESTAMP),
        ("NOW", TIMESTAMP),
        ("sym LIKE 'a%'", BOOLEAN),
        ("vol IS NULL", BOOLEAN),
        ("vol IN (1, 2)", BOOLEAN),
        ("NULL", BIGINT),
    ],
)
def test_types_of_expressions(expression: str, expected: DataType) -> None:
    (output,) = bind(f"SELECT {expression} AS c FROM trades").select
    assert output.type == expected


def test_constants_are_folded_and_now_is_not() -> None:
    assert bind("SELECT 1 + 2 * 3 AS c FROM trades").select[0].expr == Literal(BIGINT, 7)
    assert bind("SELECT upper('a') || 'b' AS c FROM trades").select[0].expr == Literal(TEXT, "Ab")
    assert bind("SELECT NOW AS c FROM trades").select[0].expr == Now(TIMESTAMP)
    assert isinstance(bind("SELECT 1 // 0 AS c FROM trades").select[0].expr, Call)


def test_order_by_names_aliases_positions_and_expressions() -> None:
    query = bind("SELECT vol AS v, price FROM trades ORDER BY v DESC, 2, sym NULLS FIRST, x + 1 DESC NULLS FIRST")
    x = AttributeRef(DOUBLE, 3, "x")
    assert query.plan.order[:3] == (OrderKey(VOL, descending=True), OrderKey(PRICE), OrderKey(SYM, nulls_first=True))
    last = OrderKey(Call(DOUBLE, "add", (x, Literal(DOUBLE, 1.0))), descending=True, nulls_first=True)
    assert query.plan.order[3] == last


def test_an_alias_goes_before_an_attribute_in_order_by_only() -> None:
    query = bind("SELECT price AS vol FROM trades WHERE vol > 1 ORDER BY vol, vol + 1")
    assert query.plan.order[0].expr == PRICE
    assert query.clause == "FROM Trades WHERE vol >= 2"
    assert bind("SELECT price AS cost FROM trades ORDER BY cost + 1").plan.order[0].expr.type == decimal(9, 2)


def test_a_name_may_repeat() -> None:
    assert [output.name for output in bind("SELECT vol, VOL, 1 AS Vol FROM trades").select] == ["vol", "vol", "Vol"]
    assert [output.name for output in bind("SELECT vol+1, vol+1 FROM trades").select] == ["vol+1", "vol+1"]
    assert bind("SELECT *, vol FROM trades ORDER BY vol").plan.order[0].expr == VOL
    assert bind("SELECT price, vol AS price FROM trades ORDER BY 2").plan.order[0].expr == VOL
    assert bind("SELECT DISTINCT price, vol AS price FROM trades ORDER BY vol").plan.order[0].expr == VOL
    grouped = bind("SELECT price, vol AS price FROM trades GROUP BY ALL ORDER BY ALL")
    assert len(grouped.plan.order) == 4


def test_limit_and_distinct() -> None:
    query = bind("SELECT DISTINCT vol, vol + 1 AS w FROM trades ORDER BY vol + 1, w, 1 LIMIT 0")
    assert [type(node) for _, node in walk(query.plan)] == [Limit, Sort, Distinct, Project, Source]
    assert isinstance(query.plan, Limit) and query.plan.rows == 0
    assert [type(node) for _, node in walk(bind("SELECT vol FROM trades").plan)] == [Project, Source]


def test_the_text_is_kept() -> None:
    text = "SELECT vol  FROM trades -- all of it\n;"
    assert bind(text).text == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("SELECT vol, 1 AS Vol FROM trades ORDER BY VOL", "2 columns of the SELECT list are called 'VOL'"),
        ("SELECT vol, price AS Vol FROM trades ORDER BY vol", "2 columns of the SELECT list are called 'vol'"),
        ("SELECT price AS w, vol AS w FROM trades ORDER BY w + 1", "called 'w', so the name is ambiguous"),
        ("SELECT price AS w, vol AS w FROM trades GROUP BY w", "called 'w', so the name is ambiguous"),
        ("SELECT sym, min(vol) w, max(vol) w FROM trades GROUP BY sym HAVING w > 1", "the name is ambiguous"),
        ("SELECT vol AS _id FROM trades", "'_id' is reserved"),
        ("SELECT DISTINCT vol FROM trades ORDER BY price", "SELECT DISTINCT can only be ordered"),
        ("SELECT vol FROM trades ORDER BY 2", "no column 2"),
        ("SELECT vol FROM trades ORDER BY 0", "no column 0"),
        ("SELECT vol FROM trades ORDER BY 'a'", "orders nothing"),
        ("SELECT vol FROM trades LIMIT 1.5", "LIMIT needs a whole number"),
        ("SELECT vol FROM trades LIMIT -1", "LIMIT must not be negative"),
        ("SELECT vol FROM trades OFFSET 1 - 2", "OFFSET must not be negative"),
        ("SELECT vol FROM trades LIMIT vol", "LIMIT needs a whole number"),
        ("SELECT vol FROM trades LIMIT now()", "LIMIT needs a whole number"),
        ("SELECT vol FROM trades LIMIT 99999999999999999999", "LIMIT needs a whole number of at most 19 digits"),
        ("SELECT vol FROM trades LIMIT 1, 2", "LIMIT takes one number"),
        ("SELECT * EXCLUDE (nope) FROM trades", "* has no column 'nope' for EXCLUDE"),
        ("SELECT * EXCLUDE (vol, VOL) FROM trades", "'VOL' is named twice after *"),
        ("SELECT * EXCLUDE (vol) REPLACE (1 AS vol) FROM trades", "'vol' is named twice after *"),
        ("SELECT * REPLACE (1 AS nope) FROM trades", "* has no column 'nope' for REPLACE"),
        ("SELECT vol FROM trades LIMIT", "missing"),
        ("SELECT vol", "FROM is missing"),
        ("SELECT FROM trades", "SELECT list is empty"),
        ("SELECT upper(*) FROM trades", "* outside the SELECT list is not supported"),
        ("SELECT trades.vol FROM trades t", "the stream is called 't' here"),
        ("SELECT x.trades.vol FROM trades", "at most two parts"),
        ("SELECT vol FROM trades WHERE _id > 3", "_id in WHERE is not supported"),
        ("SELECT vol FROM trades WHERE t > now()", "NOW in WHERE is not supported"),
        ("SELECT vol FROM trades WHERE t > NOW", "NOW in WHERE is not supported"),
        ("SELECT now(3) FROM trades", "takes no arguments"),
        ("SELECT vol AS v FROM trades WHERE v > 3", "no column 'v'"),
    ],
)
def test_refused(text: str, says: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text)
    assert says in caught.value.problem


@pytest.mark.parametrize(
    ("text", "feature"),
    [
        ("SELECT vol FROM trades POSITIONAL JOIN trades", "JOIN"),
        ("SELECT (SELECT 1) FROM trades", "subselect"),
        ("SELECT vol FROM trades WHERE vol > ANY (SELECT 1)", "ANY"),
        ("SELECT vol FROM trades EXCEPT BY NAME SELECT vol FROM trades", "EXCEPT"),
        ("WITH RECURSIVE w AS (SELECT 1) SELECT * FROM w", "WITH"),
        ("SELECT vol FROM trades TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
        ("SELECT vol FROM trades FOR UPDATE", "FOR UPDATE"),
        ("SELECT vol INTO other FROM trades", "INTO"),
        ("SELECT vol FROM trades WHERE vol = ?", "parameter"),
        ("SELECT vol FROM trades WHERE vol = $1", "parameter"),
        ("SELECT vol FROM trades WHERE vol = :v", "parameter"),
        ("SELECT random() FROM trades", "random"),
        ("SELECT vol FROM trades WHERE random() > 0.5", "random"),
        ("SELECT uuid() FROM trades", "uuid"),
        ("SELECT current_date FROM trades", "current_date"),
        ("SELECT [vol, 1] FROM trades", "list"),
        ("SELECT {'a': vol} FROM trades", "list or a struct"),
        ("SELECT (vol, x) FROM trades", "row of several values"),
        ("SELECT vol FROM trades WHERE sym COLLATE nocase = 'a'", "COLLATE"),
        ("SELECT vol ^ 2 FROM trades", "operator ^"),
        ("SELECT t AT TIME ZONE 'CET' FROM trades", "the zone 'CET'"),
        ("SELECT INTERVAL '1' DAY FROM trades", "INTERVAL"),
        ("SELECT vol FROM db.trades", "several parts"),
        ("SELECT vol FROM range(3)", "the table function range()"),
        ("SELECT x -> 'a' FROM trades", "JSON"),
        ("SELECT list_transform(x, y -> y) FROM trades", "a lambda"),
        ("SELECT sym.a.b FROM trades", ""),
        ("INSERT INTO trades VALUES (1)", "INSERT"),
        ("UPDATE trades SET vol = 1", "UPDATE"),
        ("DELETE FROM trades", "DELETE"),
        ("DROP TABLE trades", ""),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("VALUES (1)", "VALUES"),
    ],
)
def test_not_supported_is_refused_by_name(text: str, feature: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text)
    if feature:
        assert isinstance(caught.value, NotSupported), caught.value
        assert feature in caught.value.problem
        assert caught.value.reason == "NOT_SUPPORTED"


NAMES = """
date time timestamp text index comment key value type level rank desc row rows year month day hour minute second
format first last top position left right range filter window language default current schema table column view user
count sum min max start now time_hour origin status state source number float string sequence set show update delete
partition over full session lock tag final cache natural
"""
RESERVED = "begin end limit offset case when and or not in is null true select from where all interval"


@pytest.mark.parametrize("name", swept(NAMES.split(), fast=range(0, 66, 3)))
def test_words_of_other_dialects_are_ordinary_names(name: str) -> None:
    spec = create_stream(f"CREATE STREAM s ({name} INT, other INT)")
    text = f"SELECT {name}, s.{name} + 1 AS c FROM s WHERE {name} > 3 AND abs({name}) < 9 ORDER BY {name} DESC"
    query = standing_query(text, lambda _: spec)
    assert query.select[0] == Output(name, AttributeRef(BIGINT, 0, name))
    assert query.plan.order[0] == OrderKey(AttributeRef(BIGINT, 0, name), descending=True)
    assert standing_query(f"SELECT other AS {name} FROM s", lambda _: spec).select[0].name == name


def test_reserved_words_are_names_when_quoted() -> None:
    quoted = [f'"{word}"' for word in RESERVED.split()]
    spec = create_stream(f"CREATE STREAM s ({', '.join(name + ' INT' for name in quoted)})")
    listed = ", ".join(quoted)
    query = standing_query(f"SELECT {listed} FROM s ORDER BY {listed}", lambda _: spec)
    assert [output.name for output in query.select] == RESERVED.split()


def test_a_syntax_tree_goes_without_the_collector() -> None:
    """Thousands of statements that each leave a tree of cycles would have it hold all threads again and again."""
    texts = [
        "SELECT vol + 1 AS y FROM Trades WHERE vol = 1 AND sym LIKE 'x%' ORDER BY vol LIMIT 3",
        "SELECT vol FROM Trades WHERE vol + sym > 1",
    ]
    gc.collect()
    gc.disable()
    try:
        before = _trees()
        for text in texts:
            with suppress(SqlError):
                standing_query(text, lookup)
        assert _trees() == before
    finally:
        gc.enable()


def _trees() -> int:
    # isinstance would ask an object for its class, which a weak proxy of one that is gone does not have.
    kinds = Counter(map(type, gc.get_objects()))
    return sum(count for kind, count in kinds.items() if issubclass(kind, exp.Expr))


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("SELECT * EXCLUDE (vol) FROM trades", "SELECT {without} FROM trades"),
        ("SELECT * EXCLUDE vol REPLACE (upper(sym) AS sym) FROM trades", "SELECT {replaced} FROM trades"),
        ("SELECT t.* EXCLUDE (vol), vol FROM trades t", "SELECT {without}, vol FROM trades t"),
        ("SELECT vol, sym, FROM trades ORDER BY ALL DESC", "SELECT vol, sym FROM trades ORDER BY vol DESC, sym DESC"),
        ("SELECT vol FROM trades WHERE vol IN (1, 2,)", "SELECT vol FROM trades WHERE vol IN (1, 2)"),
        ("SELECT vol FROM trades LIMIT 2 * 5 OFFSET 1 + 1", "SELECT vol FROM trades LIMIT 10 OFFSET 2"),
        ("SELECT vol FROM trades LIMIT NULL OFFSET 0", "SELECT vol FROM trades"),
    ],
)
def test_short_forms_are_what_they_stand_for(short: str, long: str) -> None:
    names = [output.name for output in bind("SELECT * FROM trades").plan.schema if output.name != "vol"]
    without = ", ".join(names)
    replaced = ", ".join(f"upper({name}) AS {name}" if name == "sym" else name for name in names)
    assert plan_text(bind(short).plan) == plan_text(bind(long.format(without=without, replaced=replaced)).plan)
