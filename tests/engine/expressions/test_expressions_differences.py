"""Intended differences between PSoup and DuckDB: each one of `functions`, with both values."""

from __future__ import annotations

import pytest

from psoup.errors import InvalidInput
from psoup.expressions.functions import cast, constant, resolve
from psoup.expressions.tree import Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, decimal
from psoup_testing.oracles.expression_oracle import Oracle, canonical


def both(oracle: Oracle, expr: Expr) -> tuple[list[object], list[object]]:
    return canonical(oracle.mine(expr)), canonical(oracle.theirs([expr])[0])


def test_bigint_and_double_are_compared_exactly() -> None:
    oracle = Oracle({"b": (BIGINT, [2**53 + 1, 2**63 - 1]), "d": (DOUBLE, [2.0**53, 2.0**63])})
    assert both(oracle, resolve("eq", [oracle.ref("b"), oracle.ref("d")])) == ([False, False], [True, True])
    assert both(oracle, resolve("gt", [oracle.ref("b"), oracle.ref("d")])) == ([True, False], [False, False])


def test_a_decimal_has_at_most_18_digits() -> None:
    oracle = Oracle({"w": (decimal(18, 2), [10**18 - 1, 5])})
    total = resolve("add", [oracle.ref("w"), oracle.ref("w")])
    assert total.type == decimal(18, 2)
    found = oracle.mine(total)
    assert found.error is not None
    assert (found.error.tolist(), found.values.tolist()) == ([True, False], [0, 10])
    (theirs,) = oracle.connection.sql('SELECT "w" + "w" FROM samples ORDER BY row_number LIMIT 1').fetchall()[0]
    assert str(theirs) == "19999999999999999.98"


def test_integer_constants_are_bigint() -> None:
    two_billion = Literal(BIGINT, 2_000_000_000)
    assert constant(resolve("add", [two_billion, two_billion])) == Literal(BIGINT, 4_000_000_000)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2020-01-01T10:00:00+01", "2020-01-01 09:00:00"),
        ("2020-01-01 10:00:00-01:30", "2020-01-01 11:30:00"),
        ("2020-01-01 10:00-0130", "2020-01-01 11:30:00"),
        ("2020-01-01 10:00:00.5+01:30:15", "2020-01-01 08:29:45.5"),
        ("2020-01-01 10:00:00 utc", "2020-01-01 10:00:00"),
        ("2020-01-01 10:00:00+24:00", "2019-12-31 10:00:00"),
    ],
)
def test_offsets_count_as_for_timestamptz(text: str, shown: str) -> None:
    value = cast(Literal(TEXT, text), TIMESTAMP)
    assert constant(cast(value, TEXT)) == Literal(TEXT, shown)
    oracle = Oracle({"t": (TEXT, [text])})
    sql = "SELECT CAST(CAST(CAST(t AS TIMESTAMPTZ) AS TIMESTAMP) AS VARCHAR) FROM samples"
    assert oracle.connection.sql(sql).fetchall() == [(shown,)]


@pytest.mark.parametrize("text", ["infinity", "-infinity", "2020-01-01 10:00 Europe/Paris", "2020-01-01 10:00:00 x"])
def test_no_infinite_times_and_no_zones_by_name(text: str) -> None:
    with pytest.raises(InvalidInput):
        cast(Literal(TEXT, text), TIMESTAMP)


def test_hexadecimal_and_binary_numbers_are_not_read() -> None:
    oracle = Oracle({"t": (TEXT, ["0x1F", "0b11"])})
    assert both(oracle, cast(oracle.ref("t"), BIGINT)) == ([None, None], [31, 3])


def test_numbers_with_an_exponent_convert_if_their_value_fits() -> None:
    oracle = Oracle({"t": (TEXT, ["51318304587290608178e-1", "1e-1"])})
    assert both(oracle, cast(oracle.ref("t"), BIGINT)) == ([5131830458729060818, 0], [None, 0])
    assert both(oracle, cast(oracle.ref("t"), decimal(2, 2))) == ([None, 10], [None, None])


def test_true_is_one_and_needs_a_digit_before_the_point() -> None:
    oracle = Oracle({"f": (BOOLEAN, [True, False])})
    assert both(oracle, cast(oracle.ref("f"), decimal(2, 2))) == ([None, 0], [1, 0])


def test_null_rounded_away_stays_null() -> None:
    oracle = Oracle({"m": (decimal(9, 2), [None, 5])})
    assert both(oracle, resolve("round", [oracle.ref("m"), Literal(BIGINT, -9)])) == ([None, 0], [0, 0])


def test_dates_too_far_for_a_timestamp_are_errors_also_against_constants() -> None:
    oracle = Oracle({"y": (DATE, [10**8 * 2, 0])})
    later = resolve("gt", [oracle.ref("y"), Literal(TIMESTAMP, 0)])
    assert both(oracle, later) == ([None, False], [True, False])


def test_in_is_true_on_a_match_whatever_the_other_items_are() -> None:
    oracle = Oracle({"y": (DATE, [0]), "t": (TEXT, ["no date"])})
    found = resolve("in", [oracle.ref("y"), Literal(DATE, 0), oracle.ref("t")])
    assert both(oracle, found) == ([True], [None])


def test_days_may_be_added_from_a_bigint_attribute() -> None:
    oracle = Oracle({"y": (DATE, [0]), "b": (BIGINT, [7])})
    assert canonical(oracle.mine(resolve("add", [oracle.ref("y"), oracle.ref("b")]))) == [7]


def test_a_nan_has_no_sign() -> None:
    oracle = Oracle({"d": (DOUBLE, [-1.0])})
    shown = cast(resolve("sqrt", [oracle.ref("d")]), TEXT)
    assert oracle.mine(shown).to_list() == ["nan"]
    assert oracle.theirs([shown])[0].to_list() == ["-nan"]


def test_no_text_is_longer_than_a_value_may_be() -> None:
    """1 MiB, whatever makes it; DuckDB makes any that memory holds."""
    oracle = Oracle({"t": (TEXT, ["x" * 1024, "y" * 1024])})
    many = resolve("replace", [oracle.ref("t"), Literal(TEXT, "x"), Literal(TEXT, "z" * 1025)])
    assert both(oracle, resolve("length", [many])) == ([None, 1024], [1024 * 1025, 1024])
    assert oracle.mine(many).error is not None
