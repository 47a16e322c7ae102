"""Typing: the types that DuckDB gives, the conversions put in, and what is refused with what words."""

from __future__ import annotations

import itertools
import re

import pytest

from psoup.errors import InvalidInput
from psoup.expressions.functions import ALIASES, FUNCTIONS, cast, names, resolve
from psoup.expressions.render import render
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, decimal
from psoup_testing.oracles.expression_oracle import Oracle

TYPES = {
    "b": BIGINT,
    "d": DOUBLE,
    "m": decimal(9, 2),
    "w": decimal(18, 4),
    "t": TEXT,
    "s": TIMESTAMP,
    "y": DATE,
    "f": BOOLEAN,
}
REFS = {name: AttributeRef(kind, position, name) for position, (name, kind) in enumerate(TYPES.items())}
B, D, M, W, T, S, Y, F = REFS.values()
THREE = Literal(BIGINT, 3)


SHIFTED = 'CAST("y" AS TIMESTAMP) + INTERVAL 2 MONTHS - INTERVAL 5 MICROSECONDS'


def text(value: str) -> Literal:
    return Literal(TEXT, value)


def test_result_types_are_those_of_duckdb() -> None:
    """But DECIMAL has at most 18 digits, and exactly DuckDB's where both sides are attributes."""
    oracle = Oracle({name: (kind, [None]) for name, kind in TYPES.items()})
    calls: list[Expr] = []
    for name, function in FUNCTIONS.items():
        if name in ("case", "difference", "span_seconds"):
            continue
        for args in itertools.product(REFS.values(), repeat=max(function.least, 1)):
            try:
                calls.append(resolve(name, args))
            except InvalidInput:
                continue
    calls += [resolve("case", [F, one, two]) for one, two in itertools.product([B, D, M, W], repeat=2)]
    assert len(calls) > 300
    listed = ", ".join(f"typeof({render(call)})" for call in calls)
    found = oracle.connection.execute(f"SELECT {listed} FROM samples").fetchone()
    assert found is not None
    for call, theirs in zip(calls, found, strict=True):
        wider = "BIGINT" if getattr(call, "name", "") in ("sign", "ascii", "unicode") else theirs  # TINYINT, INTEGER
        assert str(call.type) == held_to_18_digits(wider), render(call)


def held_to_18_digits(name: str) -> str:
    match = re.fullmatch(r"DECIMAL\((\d+),(\d+)\)", name)
    if match is None:
        return "TEXT" if name == "VARCHAR" else name
    return f"DECIMAL({min(int(match[1]), 18)},{match[2]})"


@pytest.mark.parametrize(
    ("name", "args", "expected"),
    [
        ("div", [B, THREE], 'CAST("b" AS DOUBLE) / 3.0e0'),
        ("add", [M, THREE], '"m" + 3.00'),
        ("mul", [M, Literal(decimal(2, 1), 25)], '"m" * 2.5'),
        ("gt", [B, Literal(decimal(2, 1), 25)], '"b" > 2.5'),
        ("gt", [B, Literal(DOUBLE, 2.5)], '"b" > 2.5e0'),
        ("gt", [M, Literal(DOUBLE, 2.5)], 'CAST("m" AS DOUBLE) > 2.5e0'),
        ("eq", [B, text("12")], '"b" = 12'),
        ("eq", [text("1.256"), M], '1.26 = "m"'),
        ("lt", [S, text("2013-07-04 10:00")], "\"s\" < TIMESTAMP '2013-07-04 10:00:00'"),
        ("lt", [S, Y], '"s" < CAST("y" AS TIMESTAMP)'),
        ("lt", [S, Literal(DATE, 0)], "\"s\" < TIMESTAMP '1970-01-01 00:00:00'"),
        ("eq", [Y, T], '"y" = CAST("t" AS DATE)'),
        ("eq", [F, text("yes")], '"f" = TRUE'),
        ("and", [F, B], '"f" AND CAST("b" AS BOOLEAN)'),
        ("in", [B, THREE, text("4"), Literal(TEXT, None)], '"b" IN (3, 4, CAST(NULL AS BIGINT))'),
        ("in", [Y, Literal(DATE, 0), S], '("y" = DATE \'1970-01-01\') OR (CAST("y" AS TIMESTAMP) = "s")'),
        ("coalesce", [B, D, text("1.5")], 'coalesce(CAST("b" AS DOUBLE), "d", 1.5e0)'),
        ("concat_op", [T, B], '"t" || CAST("b" AS VARCHAR)'),
        ("floor", [B], 'floor(CAST("b" AS DOUBLE))'),
        ("add", [THREE, Y], '"y" + CAST(3 AS INTEGER)'),
        ("add_interval", [Y, Literal(BIGINT, 2), Literal(BIGINT, -5)], SHIFTED),
        ("extract", [text("Years"), S], "date_part('year', \"s\")"),
        ("greatest", [text("b"), text("a")], "greatest('b', 'a')"),
        ("nullif", [B, Literal(DOUBLE, 1.5)], 'nullif("b", 1.5e0)'),
        ("nullif", [M, D], 'CASE WHEN CAST("m" AS DOUBLE) = "d" THEN NULL ELSE "m" END'),
        ("round", [M, THREE], 'round("m", 3)'),
        ("not", [resolve("like", [T, text("a%")])], "NOT (\"t\" LIKE 'a%')"),
        ("mul", [resolve("add", [B, THREE]), Literal(BIGINT, -2)], '("b" + 3) * (-2)'),
        ("pow", [D, D], 'power("d", "d")'),
    ],
)
def test_conversions_are_explicit(name: str, args: list[Expr], expected: str) -> None:
    assert render(resolve(name, args)) == expected


@pytest.mark.parametrize(
    ("name", "args", "words"),
    [
        ("add", [T, THREE], r"\+ needs numbers, not TEXT \+ BIGINT; use CAST"),
        ("add", [F, F], r"BOOLEAN \+ BOOLEAN"),
        ("add", [S, THREE], "TIMESTAMP"),
        ("sub", [S, S], "interval"),
        ("sub", [S, Y], "interval"),
        ("eq", [T, B], "cannot compare TEXT with BIGINT"),
        ("eq", [S, B], "cannot compare TIMESTAMP with BIGINT"),
        ("and", [F, S], "AND needs a condition"),
        ("not", [T], "NOT needs a condition"),
        ("case", [F, B, T], "CASE mixes values of types BIGINT, TEXT"),
        ("case", [F, B], "CASE|at least 3"),
        ("case", [F, B, F, B], "a condition for every value"),
        ("coalesce", [S, B], "coalesce mixes"),
        ("lower", [B], "lower needs TEXT, not BIGINT"),
        ("substr", [T, D], "substr needs BIGINT"),
        ("length", [Y], "length needs TEXT"),
        ("like", [B, text("a")], "LIKE needs TEXT"),
        ("like", [T, text("a"), text("ab")], "one ASCII character"),
        ("like", [T, text("a"), text("é")], "one ASCII character"),
        ("like", [T, text("a$"), text("$")], "ends with its escape"),
        ("like", [T, text("$$$"), text("$")], "ends with its escape"),
        ("like", [T, text("a"), T], "ESCAPE must be a constant"),
        ("like", [T, text("%a" * 600)], "at most 1000 characters"),
        ("trim", [T, T], "must be a constant"),
        ("round", [M, B], "constant number of digits"),
        ("round", [T], "round needs a number"),
        ("mul", [Literal(decimal(10, 10), 1), Literal(decimal(10, 10), 1)], "20 decimal places"),
        ("extract", [text("fortnight"), S], "no part 'fortnight'; it has year"),
        ("extract", [T, S], "must be a constant"),
        ("extract", [text("year"), T], "extract needs a TIMESTAMP or DATE"),
        ("date_trunc", [text("epoch"), S], "no part"),
        ("add_interval", [S, B, THREE], "INTERVAL must be a constant"),
        ("add_interval", [S, Literal(BIGINT, 10**9), THREE], "reaches further"),
        ("sqrt", [], "takes 1 argument, not 0"),
        ("replace", [T, T], "takes 3 arguments, not 2"),
        ("round", [M, THREE, THREE], "takes 1 to 2 arguments"),
        ("concat", [], "at least 1 argument"),
        ("frobnicate", [B], "no function frobnicate"),
    ],
)
def test_what_does_not_fit_is_refused(name: str, args: list[Expr], words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        resolve(name, args)


@pytest.mark.parametrize(("source", "target"), [(B, DATE), (S, BIGINT), (F, TIMESTAMP), (D, DATE), (Y, BOOLEAN)])
def test_casts_that_nobody_can_mean_are_refused(source: Expr, target: DataType) -> None:
    with pytest.raises(InvalidInput, match=f"cannot cast {source.type} to {target}"):
        cast(source, target)


def test_null_takes_any_type() -> None:
    null = Literal(TEXT, None)
    assert resolve("eq", [B, null]).args[1] == Literal(BIGINT, None)  # type: ignore[union-attr]
    assert resolve("add", [M, null]).type.scale == 2
    assert resolve("coalesce", [null, D]).type == DOUBLE
    assert resolve("case", [F, null, Y]).type == DATE
    assert resolve("like", [T, text("a"), null]) == Literal(BOOLEAN, None)
    assert cast(null, TIMESTAMP) == Literal(TIMESTAMP, None)
    assert resolve("extract", [text("year"), null]).type == BIGINT


def test_and_or_are_flat_and_casts_to_the_same_type_vanish() -> None:
    nested = resolve("and", [resolve("and", [F, F]), resolve("or", [F, F])])
    assert isinstance(nested, Call)
    assert [arg for arg in nested.args if arg == F] == [F, F]
    assert len(nested.args) == 3
    assert cast(B, BIGINT) is B


def test_names_are_what_users_may_call() -> None:
    assert {"round", "coalesce", "date_trunc", "substring", "pow"} <= set(names())
    assert not {"and", "add", "cast", "add_interval", "concat_op"} & set(names())
    assert set(ALIASES.values()) <= set(FUNCTIONS)
    assert list(names()) == sorted(names())
