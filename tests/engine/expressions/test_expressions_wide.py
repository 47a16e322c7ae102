"""Expressions over sums, exact numbers of up to 38 digits: DuckDB's values and types, and what is refused."""

from __future__ import annotations

import re
from decimal import Decimal, localcontext
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from psoup.errors import InvalidInput
from psoup.execution.rows.sort_keys import distinct_rows, sorted_rows
from psoup.expressions.evaluate import Scope, constant, evaluate
from psoup.expressions.functions import cast, resolve
from psoup.expressions.render import render
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DOUBLE, TEXT, DataType, decimal, wide
from psoup.plan.canonical import expr_text
from psoup.plan.nodes import OrderKey
from psoup.values.columns import Column, concat_columns
from psoup.values.from_arrow import column_from_arrow
from psoup.values.limbs import LIMBS, integers, limbs
from psoup.work.read_budget import UNBOUNDED
from psoup_testing.suite.sweeps import swept

MOST = 10**38 - 1
WIDE_NUMBERS = [0, 1, -1, 7, -13, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64, 3 * 10**20, -(10**19), None]
COLUMNS: dict[str, tuple[DataType, list[Any]]] = {
    "h": (wide(0), [None if n is None else Decimal(n) for n in WIDE_NUMBERS]),
    "k": (wide(0), [Decimal(n) for n in (3, -2, 1, 2, 5, 2, 10, 7, 3, 2**40, 17, 2**62, 1)]),
    "c": (wide(2), [None if n is None else Decimal(n).scaleb(-2) for n in WIDE_NUMBERS]),
    "b": (BIGINT, [0, 1, -1, 3, -2, 2**63 - 1, 2**40, -(2**63), 5, None, 7, -1, 1]),
    "m": (decimal(9, 3), [Decimal(n).scaleb(-3) for n in (0, 10, -10, 70, -130, 1, 5, -999_999_999, 500, 1, 2, 3, 4)]),
    "d": (DOUBLE, [0.0, 1.0, -0.5, 7.0, float("nan"), 2.0**63, 2.0**63, -(2.0**63), 0.01, 2.0**64, 3e20, -1e19, 1.0]),
    "f": (BOOLEAN, [True, False, None, True, True, False, True, True, False, True, False, True, True]),
}
REFS = {name: AttributeRef(kind, place, name) for place, (name, (kind, _)) in enumerate(COLUMNS.items())}
ROWS = len(WIDE_NUMBERS)


def array(kind: DataType, values: list[Any]) -> pa.Array:
    return pa.array(values, pa.decimal128(kind.precision, kind.scale) if kind.precision else None)


def column(name: str) -> Column:
    kind, values = COLUMNS[name]
    return column_from_arrow(name, kind, array(kind, values))


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect(config={"threads": 1})
    arrays = {name: array(kind, values) for name, (kind, values) in COLUMNS.items()}
    connection.register("given", pa.table(arrays))
    connection.execute("CREATE TABLE t AS SELECT * REPLACE (h::HUGEINT AS h, k::HUGEINT AS k) FROM given")
    return connection


def values(expr: Expr) -> Column:
    return evaluate(expr, Scope([column(name) for name in COLUMNS], ROWS))


def of(name: str, *args: str | Expr) -> Expr:
    return resolve(name, [REFS[arg] if isinstance(arg, str) else arg for arg in args])


ARITHMETIC = [
    (name, a, b) for name in ("add", "sub", "mul") for a, b in ("hk", "hb", "bh", "ch", "cm", "mc", "cc", "hd")
]
ARITHMETIC += [("mod", a, b) for a, b in ("hk", "hb", "bk")]
ARITHMETIC += [(name, a, b) for name in ("div", "intdiv") for a, b in ("hk", "hb", "bk", "kd")]
COMPARED = [
    (name, a, b) for name in ("eq", "lt", "ge", "is_distinct") for a, b in ("hk", "hb", "bc", "ch", "cm", "mh", "hf")
]
OTHERS = [
    *(of(name, a) for name in ("neg", "abs", "sign", "round", "trunc", "is_null") for a in "hck"),
    *(of("round", "c", Literal(BIGINT, n)) for n in (1, 0, -1, -3, 5)),
    *(of("round", "h", Literal(BIGINT, n)) for n in (0, 2)),
    of("floor", "c"),
    of("ceil", "c"),
    *(of(name, a, b) for name in ("coalesce", "greatest", "least", "nullif") for a, b in ("hb", "ch", "cm", "bc")),
    of("case", "f", "h", "b"),
    of("coalesce", "c", Literal(BIGINT, 0)),
    of("in", "h", Literal(BIGINT, 7), Literal(BIGINT, 1)),
    of("in", "c", cast(Literal(BIGINT, 0), wide(2)), "m"),
    *(cast(REFS[a], to) for a in "hc" for to in (DOUBLE, TEXT, BOOLEAN)),
    *(cast(REFS[a], to) for a in "bmf" for to in (wide(0), wide(4))),
    *(cast(REFS[a], wide(s)) for a in "hc" for s in (0, 1, 5)),
    *(cast(REFS[a], to, try_=True) for a in "hc" for to in (BIGINT, decimal(18, 1))),
    of("gt", "h", Literal(TEXT, "100000000000000000000")),
    of("concat", "h", Literal(TEXT, "!")),
    of("sqrt", of("abs", "h")),
]


@pytest.mark.parametrize(
    "expr", swept([of(*call) for call in ARITHMETIC + COMPARED] + OTHERS, fast=range(0, 135, 3)), ids=render
)
def test_values_are_those_of_duckdb(expr: Expr, duck: duckdb.DuckDBPyConnection) -> None:
    ours, text = values(expr), render(expr)
    found = duck.execute(f"SELECT TRY({text}) FROM t").fetchall()
    for row, (mine, (theirs,)) in enumerate(zip(ours.to_list(), found, strict=True)):
        if isinstance(theirs, float):
            assert mine is not None and mine == pytest.approx(theirs, rel=1e-15, nan_ok=True), (text, row)
        elif not (theirs is None or mine is None):
            assert mine == theirs, (text, row)
        else:  # an error is NULL; DuckDB's HUGEINT reaches a little further than 38 digits
            assert mine == theirs or abs(theirs) > MOST, (text, row)


@pytest.mark.parametrize("expr", swept([of(*call) for call in ARITHMETIC] + OTHERS, fast=range(0, 107, 3)), ids=render)
def test_types_are_those_of_duckdb(expr: Expr, duck: duckdb.DuckDBPyConnection) -> None:
    (found,) = duck.execute(f"SELECT typeof({render(expr)}) FROM t LIMIT 1").fetchall()
    theirs = {"HUGEINT": "DECIMAL(38,0)", "VARCHAR": "TEXT", "TINYINT": "BIGINT"}.get(found[0], found[0])
    assert str(expr.type) == theirs


@pytest.mark.parametrize(("a", "b"), ["cm", "ch", "kc"])
def test_the_rest_of_a_division_is_exact_at_any_scales_where_duckdb_takes_doubles(a: str, b: str) -> None:
    call = of("mod", a, b)
    left, right = column(a).to_list(), column(b).to_list()
    assert call.type == wide(max(REFS[a].type.scale, REFS[b].type.scale))
    with localcontext(prec=60):
        theirs = [x % y if y and x is not None else None for x, y in zip(left, right, strict=True)]
    assert values(call).to_list() == theirs


TEXTS = [
    "12",
    " -0.5 ",
    "+.5",
    "1e3",
    "-1.5e-1",
    "1_000.25",
    "0.005",
    "-0.005",
    "9" * 38,
    "9" * 36,
    "1" + "0" * 30 + ".995",
]
TEXTS += [
    "",
    ".",
    "x",
    "1__0",
    "nan",
    "inf",
    "1e99999",
    "0e99999",
    "1e-99999",
    "1e" + "9" * 5_000,
    "0." + "4" * 40 + "9",
    "1 2",
    "--1",
    "\u0661",
]


def test_texts_are_read_as_duckdb_reads_them(duck: duckdb.DuckDBPyConnection) -> None:
    for text in TEXTS:
        try:
            mine = constant(Call(wide(2), "cast", (Literal(TEXT, text),)))
        except InvalidInput:
            mine = Literal(wide(2), None)
        (theirs,) = duck.execute("SELECT TRY_CAST($1 AS DECIMAL(38,2))", [text]).fetchall()[0]
        with localcontext(prec=60):
            assert mine == Literal(wide(2), None if theirs is None else int(theirs * 100)), text


def test_more_than_38_digits_are_an_error_of_the_row() -> None:
    most = cast(Literal(TEXT, str(MOST)), wide(0))
    assert most == Literal(wide(0), MOST)
    for call in (of("add", most, "k"), of("mul", most, "k"), of("sub", of("neg", most), of("abs", "k"))):
        found = values(call)
        assert found.error is not None and found.error.any() and found.valid is not None
        assert not (found.error & found.valid).any()
    assert values(of("mod", "h", cast(Literal(BIGINT, 0), wide(0)))).to_list() == [None] * ROWS


@pytest.mark.parametrize("name", ["lt", "le", "eq", "ge", "gt", "ne"])
def test_doubles_are_compared_exactly(name: str) -> None:
    sides = {"lt": -1, "le": 0, "eq": 0, "ge": 0, "gt": 1, "ne": None}
    numbers, reals = column("c"), column("d")
    ours, other = values(of(name, "c", "d")).to_list(), values(of(name, "d", "c")).to_list()
    flipped = values(of({"lt": "gt", "le": "ge", "ge": "le", "gt": "lt"}.get(name, name), "d", "c")).to_list()
    assert ours == flipped and len(other) == ROWS
    for row, (number, real) in enumerate(zip(numbers.to_list(), reals.to_list(), strict=True)):
        if number is None:
            assert ours[row] is None
            continue
        sign = -1 if real != real else (number > Decimal(real)) - (number < Decimal(real))
        wanted = {"lt": sign < 0, "le": sign <= 0, "eq": sign == 0, "ge": sign >= 0, "gt": sign > 0, "ne": sign != 0}
        assert ours[row] is wanted[name], (sides[name], row)
    assert values(of("lt", Literal(wide(1), 1), Literal(DOUBLE, 0.1))).to_list()[0] is True  # 0.1e0 is a little more


def test_columns_lie_as_arrow_has_them_and_come_back() -> None:
    one = column("h")
    assert one.values.dtype == LIMBS and one.to_list() == COLUMNS["h"][1]
    assert one.to_arrow().buffers()[1].address == one.values.ctypes.data
    assert one.slice(3, 7).to_list() == COLUMNS["h"][1][3:7]
    assert one.take(np.array([8, 2])).to_list() == [Decimal(-(2**63) - 1), Decimal(-1)]
    assert concat_columns([one.slice(0, 3), one.slice(3, ROWS)]).to_list() == one.to_list()
    assert integers(limbs(np.array([5, -5]))).dtype == np.int64


def test_sums_are_sorted_and_told_apart() -> None:
    several = concat_columns([column("h"), column("h")])
    keys = [OrderKey(REFS["h"], descending=True)]
    rows = sorted_rows([several], keys, UNBOUNDED)
    wanted = sorted((n for n in WIDE_NUMBERS if n is not None), reverse=True)
    assert several.take(rows).to_list() == [Decimal(n) for n in wanted for _ in range(2)] + [None, None]
    assert distinct_rows([several], UNBOUNDED).tolist() == list(range(ROWS))


def test_constants_have_texts_that_tell_them_apart() -> None:
    assert expr_text(Literal(wide(2), 150)) == "CAST(1.50 AS DECIMAL(38,2))"
    assert expr_text(Literal(wide(0), 15)) == "CAST(15. AS DECIMAL(38,0))"
    assert render(Literal(wide(2), 150)) == "CAST(1.50 AS DECIMAL(38,2))"
    assert constant(Call(wide(0), "cast", (Literal(DOUBLE, 1e20),))) == Literal(wide(0), 10**20)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: of("bits_and", "h", "b"), "& needs BIGINT, not DECIMAL(38,0); use CAST(... AS BIGINT)"),
        (lambda: of("gcd", "h", "b"), "gcd needs BIGINT, not DECIMAL(38,0); use CAST(... AS BIGINT)"),
        (
            lambda: of("mul", Literal(wide(30), 1), Literal(wide(10), 1)),
            "DECIMAL(38,30) * DECIMAL(38,10) would need 40 decimal places, more than 38; cast one of them to DOUBLE",
        ),
        (
            lambda: of("round", "c", "b"),
            "round of a DECIMAL needs a constant number of digits; cast the value to DOUBLE",
        ),
        (
            lambda: of("case", "f", "h", Literal(BOOLEAN, True)) and of("case", "f", "h", AttributeRef(TEXT, 9, "t")),
            "CASE mixes values of types DECIMAL(38,0), TEXT; cast them to one type",
        ),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(call: Any, message: str) -> None:
    with pytest.raises(InvalidInput, match=f"^{re.escape(message)}$"):
        call()
