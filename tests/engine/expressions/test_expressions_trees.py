"""Random nested expressions against DuckDB: functions of functions, over columns of extremes and of plain values."""

from __future__ import annotations

import random

import pytest

from psoup.errors import InvalidInput
from psoup.expressions.functions import FUNCTIONS, cast, resolve
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, Kind, decimal
from psoup_testing.oracles.expression_oracle import Oracle, sample
from psoup_testing.suite.sweeps import swept

TARGETS = [BIGINT, DOUBLE, TEXT, BOOLEAN, DATE, TIMESTAMP, decimal(12, 3)]
LEFT_OUT = {"case", "difference", "span_seconds", "power", "in", "extract", "date_trunc", "add_interval", "like"}
"""Named apart below; power rounds differently in the last place, which a comparison would blow up."""
LEFT_OUT |= {"repeat", "lpad", "rpad", "regexp_replace"}
"""What would make texts of gigabytes in DuckDB."""
LEFT_OUT |= {"reverse", "epoch_ms", "make_timestamp"}
"""What differs for texts of several code points a character, and for the first and last time of all."""


@pytest.fixture(scope="module")
def plain() -> Oracle:
    """Small values, so that nested functions seldom overflow."""
    words = ["", "a", "7", "-2.5", "true", "2013-07-04", "New York", "é%", "aXa", "  b "]
    kinds: dict[str, tuple[DataType, list[object]]] = {
        "b": (BIGINT, list(range(-5, 6))),
        "d": (DOUBLE, [-2.5, -1.0, -0.0, 0.0, 0.25, 1.0, 2.5, 1e3, float("nan")]),
        "m": (decimal(6, 2), list(range(-600, 601, 75))),
        "t": (TEXT, words),
        "s": (TIMESTAMP, [0, 1372932000000000, 1372932000123456, 1388534399999999, -1]),
        "y": (DATE, [0, 15890, 15891, 16070, -1]),
        "f": (BOOLEAN, [True, False]),
    }
    columns: dict[str, tuple[DataType, list[object]]] = {}
    for seed, (name, (kind, values)) in enumerate(kinds.items()):
        columns[name] = (kind, sample(values, seed, 120))
        columns[name + "2"] = (kind, sample(values, 50 + seed, 120))
    return Oracle(columns)


@pytest.mark.parametrize("seed", swept(range(6), fast=1))
def test_nested_expressions_over_plain_values(plain: Oracle, seed: int) -> None:
    plain.compare(trees(plain, random.Random(seed), 150))


@pytest.mark.parametrize("seed", swept(range(3), fast=1))
def test_nested_expressions_over_extremes(seed: int) -> None:
    oracle = Oracle()
    oracle.compare(trees(oracle, random.Random(100 + seed), 150))


def trees(oracle: Oracle, rng: random.Random, count: int) -> list[Expr]:
    return [
        tree for tree in (grow(oracle, rng, rng.randrange(1, 4)) for _ in range(count)) if not isinstance(tree, Literal)
    ]


def grow(oracle: Oracle, rng: random.Random, depth: int) -> Expr:
    """A random expression that types, `depth` calls deep at most."""
    if depth == 0:
        return leaf(oracle, rng)
    for _ in range(50):
        try:
            expr = call(oracle, rng, depth)
        except InvalidInput:
            continue
        if not known_difference(expr):
            return expr
    return leaf(oracle, rng)


def leaf(oracle: Oracle, rng: random.Random) -> Expr:
    if rng.random() < 0.75:
        return oracle.ref(rng.choice(list(oracle.types)))
    choices = [
        Literal(BIGINT, rng.randrange(-3, 4)),
        Literal(DOUBLE, 0.5),
        Literal(decimal(3, 2), 150),
        Literal(TEXT, "a"),
    ]
    return rng.choice([*choices, Literal(BIGINT, None), Literal(DATE, 15890), Literal(BOOLEAN, True)])


def call(oracle: Oracle, rng: random.Random, depth: int) -> Expr:
    def grown() -> Expr:
        return grow(oracle, rng, rng.randrange(depth))

    shape = rng.random()
    if shape < 0.15:
        return cast(grown(), rng.choice(TARGETS), try_=rng.random() < 0.3)
    if shape < 0.25:
        return resolve("case", [condition(grown, rng), grown(), grown()])
    if shape < 0.32:
        return resolve("in", [grown(), leaf(oracle, rng), leaf(oracle, rng)])
    if shape < 0.42:
        name, parts = rng.choice([("extract", ["year", "dow", "hour"]), ("date_trunc", ["month", "week", "second"])])
        return resolve(name, [Literal(TEXT, rng.choice(parts)), grown()])
    if shape < 0.46:
        return resolve("add_interval", [grown(), Literal(BIGINT, rng.randrange(-2, 3)), Literal(BIGINT, 3_600_000_000)])
    if shape < 0.5:
        return resolve("like", [grown(), Literal(TEXT, rng.choice(["%a%", "a_%", "_", "%1%"]))])
    name = rng.choice(sorted(set(FUNCTIONS) - LEFT_OUT))
    function = FUNCTIONS[name]
    return resolve(name, [grown() for _ in range(rng.randrange(function.least, min(function.most, 3) + 1))])


def condition(grown: object, rng: random.Random) -> Expr:
    left, right = grown(), grown()  # type: ignore[operator]
    return resolve(rng.choice(["lt", "eq", "ge"]), [left, right])


COMPARING = {"eq", "ne", "lt", "le", "gt", "ge", "nullif", "in"}


def known_difference(expr: Expr) -> bool:
    """What test_expressions_differences.py is about, in this call itself."""
    if not isinstance(expr, Call):
        return False
    kinds = {arg.type.kind for arg in expr.args}
    if expr.name in COMPARING and {Kind.BIGINT, Kind.DOUBLE} <= kinds:
        return True
    if expr.name in COMPARING and any(isinstance(arg, Literal) and arg.type == TIMESTAMP for arg in expr.args):
        return True  # DATE against a TIMESTAMP constant
    if expr.name in ("cast", "try_cast") and expr.args[0].type == TEXT and isinstance(expr.args[0], Call):
        return True  # a DOUBLE in its text form may be infinite, or have an exponent
    if expr.name == "round" and len(expr.args) == 2 and not isinstance(expr.args[1], Literal):
        return True  # DuckDB's second argument is INTEGER
    return expr.name in ("and", "or", "in", "case", "coalesce") and any(fails(arg) for arg in expr.args)


def fails(expr: Expr) -> bool:
    """Whether an error in `expr` could be absorbed by AND, OR, IN: TRY around it all tells something else."""
    return isinstance(expr, Call) and (
        expr.name not in ("is_null", "is_not_null") or any(fails(arg) for arg in expr.args)
    )
