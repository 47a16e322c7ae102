"""Prepared statements: a template bound to values is the query of the text with those constants."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from psoup.errors import InvalidInput, NotSupported, SqlError
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, StreamSpec, decimal
from psoup.plan.standing_query import StandingQuery
from psoup.sql import create_stream, prepare, standing_query
from psoup.sql.templates.template import Template
from psoup_testing.suite.budget import scaled

SPEC = create_stream(
    "CREATE STREAM s (sym TEXT, qty BIGINT, price DOUBLE, amount DECIMAL(10,2), at TIMESTAMP, day DATE, ok BOOLEAN)"
)
COLUMNS = ("sym", "qty", "price", "amount", "at", "day", "ok")


def lookup(name: str) -> StreamSpec | None:
    return SPEC if name.lower() == "s" else None


def template(where: str) -> Template:
    return prepare(f"SELECT * FROM s WHERE {where}", lookup)


def parsed(text: str) -> StandingQuery:
    return standing_query(text, lookup)


INTS = st.integers(-3, 3) | st.sampled_from([2**63 - 1, -(2**63), 2**53 + 1, 10**17])
FLOATS = st.sampled_from([0.0, -0.0, 1.5, -2.25, 1e300, 5e-324, math.inf, -math.inf, math.nan, 9007199254740993.0])
DECIMALS = st.sampled_from([Decimal("1.50"), Decimal("-0.005"), Decimal("3"), Decimal("12345678901234567.8")])
TOO_LONG = [Decimal("1.500000000000000000000"), Decimal("9223372036854775806.5"), Decimal("-1E-30"), Decimal("1E+30")]
LONG = st.sampled_from([2**63, -(10**40), *TOO_LONG, "9223372036854775806.5", "-1e-19"])
TIMES = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31))
TEXTS = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=4)
NUMBERS = INTS | FLOATS | DECIMALS | LONG | st.sampled_from(["7", "-1.5"])
VALUES = {
    "sym": TEXTS,
    "qty": NUMBERS,
    "price": NUMBERS,
    "amount": NUMBERS,
    "at": TIMES | TIMES.map(datetime.datetime.date) | st.just("2020-01-01 10:00:00"),
    "day": TIMES.map(datetime.datetime.date) | st.just("2020-01-01"),
    "ok": st.booleans() | st.just("true"),
}


@st.composite
def conditions(draw: st.DrawFn) -> tuple[str, list[object]]:
    """One condition on a column, and the values of its parameters."""
    column = draw(st.sampled_from(COLUMNS))
    value = VALUES[column] | st.none()
    form = draw(st.integers(0, 6))
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    if form == 0:
        return f"{column} BETWEEN ? AND ?", [draw(value), draw(value)]
    if form == 1:
        return f"{column} IN (?, ?, ?)", [draw(value) for _ in range(3)]
    if form == 2:
        return f"? {operator} {column}", [draw(value)]
    if form == 3:
        return draw(st.sampled_from(["qty > 0", "sym < 'b'", "(qty = 1 OR price > 2)", "amount IS NULL", "ok"])), []
    if form == 4 and column in ("qty", "price"):
        return f"{column} * 2 - ? {operator} -?", [draw(st.integers(-3, 3)), draw(st.integers(-3, 3))]
    if form == 5:
        return f"year({draw(st.sampled_from(['at', 'day']))}) {operator} ?", [draw(st.integers(1960, 2030))]
    return f"{column} {operator} ?", [draw(value)]


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(conditions(), min_size=1, max_size=4), st.data())
def test_a_bound_template_is_the_query_of_its_text(parts: list[tuple[str, list[object]]], data: st.DataObject) -> None:
    texts = [text for text, _ in parts]
    joiners = [data.draw(st.sampled_from([" AND ", " AND ", " OR "])) for _ in texts[1:]]
    where = texts[0] + "".join(joiner + text for joiner, text in zip(joiners, texts[1:], strict=True))
    values = [value for _, own in parts for value in own]
    query = template(where).bind(values)
    assert query == parsed(query.text)


@pytest.mark.parametrize(
    ("where", "values", "filled"),
    [
        ("sym = ? AND qty > ?", ("it's", 7), "sym = 'it''s' AND qty > 7"),
        ("sym = $1 OR sym = $1", ("a",), "sym = 'a' OR sym = 'a'"),
        ("qty > $2 AND sym = $1", ("a", 7), "qty > 7 AND sym = 'a'"),
        ("qty > $least", {"least": 3}, "qty > 3"),
        ("qty > $LEAST", {"$least": np.int64(3)}, "qty > 3"),
        ("amount = ?", (1.5,), "amount = 1.5"),
        ("price = ?", (1.5,), "price = 1.5e0"),
        ("price = ?", (math.nan,), "price = CAST('nan' AS DOUBLE)"),
        ("qty -? > 0", (-1,), "qty -(-1) > 0"),
        ("sym LIKE ?", ("a%",), "sym LIKE 'a%'"),
        ("ok = ?", (True,), "ok = TRUE"),
        ("qty = ?", (None,), "qty = NULL"),
        ("at > ?", (datetime.datetime(2020, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))),),
         "at > TIMESTAMP '2020-01-01 00:00:00'"),
        ("day = ?", (datetime.date(2020, 1, 1),), "day = DATE '2020-01-01'"),
        ("NOT (abs(qty) IN (?, 5))", (2,), "NOT (abs(qty) IN (2, 5))"),
        ("starts_with(sym, ?)", ("x",), "starts_with(sym, 'x')"),
        ("? = NULL", ("x",), "'x' = NULL"),
        ("(NULL) <> ?", (True,), "(NULL) <> TRUE"),
        ("NULL IN (?, ?)", ("x", "y"), "NULL IN ('x', 'y')"),
        ("? BETWEEN NULL AND sym", ("x",), "'x' BETWEEN NULL AND sym"),
        ("? = CASE WHEN ok THEN NULL END", ("x",), "'x' = CASE WHEN ok THEN NULL END"),
        ("CASE WHEN ok THEN NULL ELSE NULL END = ?", (True,), "CASE WHEN ok THEN NULL ELSE NULL END = TRUE"),
        ("? IN (CASE WHEN ok THEN NULL END, sym)", ("x",), "'x' IN (CASE WHEN ok THEN NULL END, sym)"),
    ],
)  # fmt: skip
def test_values_are_written_as_a_user_would(where: str, values: object, filled: str) -> None:
    query = template(where).bind(values)  # type: ignore[arg-type]
    assert query.text == f"SELECT * FROM s WHERE {filled}"
    assert query == parsed(query.text)


def test_types_come_from_where_a_parameter_stands() -> None:
    where = "sym = ? AND ? < qty AND price + ? > 1 AND amount IN (1, ?) AND at < ? AND ? AND sym LIKE ? AND abs(?) > 1"
    expected = (TEXT, BIGINT, DOUBLE, decimal(10, 2), TIMESTAMP, BOOLEAN, TEXT, None)
    assert template(where).types == expected
    assert template("day - ? > ?").types == (BIGINT, DATE)
    assert template("? = NULL AND ? BETWEEN NULL AND sym AND qty + ? > 1").types == (None, TEXT, BIGINT)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((1, 2), "parameter 1 of query 17 is 1, a whole number, but TEXT is expected"),
        (("a", "b"), "parameter 2 of query 17 is 'b', a text, but BIGINT is expected"),
        (("a", True), "parameter 2 of query 17 is True, a BOOLEAN, but BIGINT is expected"),
        (("a", b"x"), "parameter 2 of query 17 is b'x', bytes, but BIGINT is expected"),
        (("a", 10**309), "parameter 2 of query 17 is 1000"),
        (("a", Decimal("1e-1101")), "parameter 2 of query 17 is 1E-1101, whose digits reach too far from the point"),
        (("a", Decimal("1e999999999")), "parameter 2 of query 17 is 1E+999999999, whose digits reach too far"),
        (("a", Decimal("inf")), "parameter 2 of query 17 is Infinity, which is not a DECIMAL"),
        (("a",), "query 17: 1 parameter is given, but the statement takes 2"),
        (("a", 1, 2), "query 17: 3 parameters are given, but the statement takes 2"),
        ({"a": 1}, "query 17: the parameters are written ?, so they have no names"),
        ("ab", "query 17: parameters are a list or a mapping, not str"),
    ],
)
def test_a_wrong_parameter_is_named_with_its_query(values: object, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        template("sym = ? AND qty > ?").bind(values, 17)  # type: ignore[arg-type]
    assert refused.value.message.startswith(message)
    assert refused.value.facts["query"] == "17"
    assert refused.value.reason in ("PARAMETER_TYPE", "PARAMETER_COUNT")


def test_names_are_checked() -> None:
    found = template("sym = $sym AND qty > $least")
    assert found.names == ("sym", "least")
    with pytest.raises(InvalidInput, match=r"parameter \$least is missing; the statement takes \$sym, \$least"):
        found.bind({"sym": "a"})
    with pytest.raises(InvalidInput, match=r"there is no parameter \$more"):
        found.bind({"sym": "a", "least": 1, "more": 2})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT ? FROM s", "a parameter outside of WHERE, HAVING and QUALIFY is not supported"),
        ("SELECT * FROM s WHERE qty = ? AND sym = $1", "parameters are written in two ways"),
        ("SELECT * FROM s WHERE qty = $2", "there is $2, but no $1"),
        ("SELECT * FROM s WHERE nme = ?", "has no column 'nme'"),
        ("SELECT * FROM ? WHERE qty = 1", "FROM other than streams"),
        ("SELECT * FROM s WHERE qty = ? LIMIT ?", "LIMIT needs a whole number"),
    ],
)
def test_a_template_is_refused_with_its_place(text: str, message: str) -> None:
    with pytest.raises(SqlError) as refused:
        prepare(text, lookup)
    assert message in refused.value.problem


def test_a_statement_without_values_has_no_parameters() -> None:
    for text in ("?", "$1", "$qty"):
        with pytest.raises(NotSupported, match="a parameter without a value") as refused:
            parsed(f"SELECT * FROM s WHERE qty = {text}")
        assert "--param" in refused.value.hint


def test_no_value_becomes_more_than_a_constant() -> None:
    query = template("sym = ? AND qty > 1").bind(("' OR 1 = 1 --",))
    assert query.clause == "FROM s WHERE qty >= 2 AND sym = ''' OR 1 = 1 --'"
    for bad in ("a\0b", "\ud800"):
        with pytest.raises(InvalidInput, match="parameter 1"):
            template("sym = ?").bind((bad,))


def test_a_statement_grown_too_long_is_refused() -> None:
    with pytest.raises(InvalidInput, match="longer than 65,536 bytes"):
        template("sym = ?").bind(("x" * 70_000,))
