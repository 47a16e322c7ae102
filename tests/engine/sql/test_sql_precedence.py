"""Operators bind as in DuckDB: random expressions without parentheses have the same value in both.

What one of the two refuses, the other need not take; but where both give a value it is the same.
"""

from __future__ import annotations

import random

import duckdb
import pytest

from psoup.errors import SqlError
from psoup.expressions.tree import Literal
from psoup.sql import create_stream, standing_query
from psoup_testing.suite.budget import scaled
from psoup_testing.suite.sweeps import swept

SPEC = create_stream("CREATE STREAM s (a INT)")
NUMERIC = ["+", "-", "*", "//", "%", "&", "|", "<<", ">>"]
COMPARISONS = ["=", "<>", "<", "<=", ">", ">=", "=="]
ROUNDS = scaled(400)


def number(r: random.Random) -> str:
    operand = r.choice(["1", "2", "3", "5", "7", "-4", "- 2", "(1 + 2)", "abs(-3)", "NULL::INT", "~ 5", "(~ 2)"])
    return operand if r.random() < 0.45 else f"{operand} {r.choice(NUMERIC)} {number(r)}"


def predicate(r: random.Random) -> str:
    pick = r.randrange(10)
    if pick == 0:
        return f"{number(r)} {r.choice(['', 'NOT '])}BETWEEN {number(r)} AND {number(r)}"
    if pick == 1:
        return f"{number(r)} {r.choice(['', 'NOT '])}IN ({number(r)}, 3)"
    if pick == 2:
        return f"'a' || 'b' {r.choice(['LIKE', 'NOT LIKE', 'ILIKE', 'NOT ILIKE', '~', 'SIMILAR TO'])} 'A' || '%'"
    if pick == 3:
        return r.choice(["TRUE", "FALSE", "NULL::BOOLEAN"])
    text = f"{number(r)} {r.choice(COMPARISONS)} {number(r)}"
    return text + r.choice(["", "", " IS NULL", " IS NOT NULL", " IS TRUE", " IS NOT FALSE", " IS DISTINCT FROM 2"])


def condition(r: random.Random) -> str:
    text = r.choice(["", "NOT ", ""]) + predicate(r)
    return text if r.random() < 0.4 else f"{text} {r.choice(['AND', 'OR'])} {condition(r)}"


def ours(text: str) -> object:
    expr = standing_query(f"SELECT {text} AS c FROM s", lambda _: SPEC).select[0].expr
    return expr.value if isinstance(expr, Literal) else "error"


@pytest.mark.parametrize("kind", [number, condition])
@pytest.mark.parametrize("seed", swept([7, 8, 9, 10], fast=1))
def test_values_are_duckdbs(kind: object, seed: int) -> None:
    r = random.Random(seed)
    connection = duckdb.connect(config={"threads": 1})
    compared = 0
    for _ in range(ROUNDS):
        text = number(r) if kind is number else condition(r)
        try:
            (theirs,) = connection.execute(f"SELECT {text}").fetchone() or (None,)
        except duckdb.Error:
            continue
        try:
            mine = ours(text)
        except SqlError as problem:
            assert "belongs together" in problem.problem, text
            continue
        if mine != "error":
            assert mine == theirs, text
            compared += 1
    assert compared > ROUNDS // 2
