"""Each row is computed on its own: pieces, single rows and no rows at all give what the whole column gives."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from psoup.errors import InvalidInput
from psoup.expressions.evaluate import EVALUATORS, Scope, evaluate
from psoup.expressions.functions import FUNCTIONS, cast, resolve
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal, Now
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, decimal
from psoup.values.columns import Column, concat_columns
from psoup_testing.oracles.expression_oracle import Oracle, canonical, check
from psoup_testing.suite.sweeps import in_parts


@pytest.fixture(scope="module")
def oracle() -> Oracle:
    return Oracle()


@cache
def every_call(oracle: Oracle) -> list[Expr]:
    """Each function on each first column with fitting others, and all casts."""
    calls: list[Expr] = []
    constants: list[Expr] = [Literal(BIGINT, 2), Literal(TEXT, "a"), Literal(TEXT, "month"), Literal(BOOLEAN, True)]
    columns: list[Expr] = [oracle.ref(name) for name in oracle.types]
    for name, function in FUNCTIONS.items():
        for count in sorted({function.least, min(function.most, function.least + 1)}):
            shapes = [columns, *[[*columns[1::2], *constants]] * (count - 1)]
            if name in ("extract", "date_trunc", "date_diff"):
                shapes = [constants, *[columns] * (function.least - 1)]
            calls += itertools.islice(_typed(name, shapes), 12)
    for expr in columns:
        for target in (BIGINT, DOUBLE, TEXT, BOOLEAN, TIMESTAMP, DATE, decimal(9, 3)):
            calls += _cast(expr, target)
    return calls


def _typed(name: str, shapes: list[list[Expr]]) -> Iterator[Expr]:
    combinations = list(itertools.product(*shapes))
    random.Random(name).shuffle(combinations)
    for args in combinations:
        try:
            yield resolve(name, args)
        except InvalidInput:
            continue


def _cast(expr: Expr, target: object) -> Iterator[Expr]:
    try:
        yield cast(expr, target)  # type: ignore[arg-type]
        yield cast(expr, target, try_=True)  # type: ignore[arg-type]
    except InvalidInput:
        return


def over(oracle: Oracle, expr: Expr, start: int, stop: int) -> Column:
    columns = [column.slice(start, stop) for column in oracle.columns]
    return evaluate(expr, Scope(columns, stop - start))


def test_every_function_has_an_evaluator_and_the_other_way_round() -> None:
    assert set(EVALUATORS) == set(FUNCTIONS) | {"cast", "try_cast"}


def test_every_function_is_called(oracle: Oracle) -> None:
    called = {expr.name for expr in every_call(oracle) if isinstance(expr, Call)}
    assert called >= set(EVALUATORS) - {"add_interval", "time_bucket", "narrow", "try_narrow"}


@in_parts(4)
def test_pieces_give_what_the_whole_gives(oracle: Oracle, part: slice) -> None:
    for expr in every_call(oracle)[part]:
        whole = oracle.mine(expr)
        pieces = [
            over(oracle, expr, start, stop) for start, stop in ((0, 0), (0, 1), (1, 97), (97, 97), (97, oracle.rows))
        ]
        for piece in pieces:
            check(piece, expr.type, len(piece))
        joined = concat_columns(pieces)
        assert canonical(joined) == canonical(whole), expr
        assert marks(joined) == marks(whole), expr


def marks(column: Column) -> list[bool]:
    return [False] * len(column) if column.error is None else column.error.tolist()


def test_constants_only(oracle: Oracle) -> None:
    """A call of constants gives the same value in every row, none in no rows."""
    three = Literal(BIGINT, 3)
    text = Literal(TEXT, "aé")
    exprs = [
        resolve("add", [three, three]),
        resolve("concat", [text, text]),
        resolve("concat_op", [text, text]),
        resolve("eq", [text, text]),
        resolve("in", [text, text, Literal(TEXT, None)]),
        resolve("greatest", [text, Literal(TEXT, "b")]),
        resolve("case", [Literal(BOOLEAN, True), text, Literal(TEXT, "b")]),
        resolve("coalesce", [Literal(TEXT, None), text]),
        resolve("nullif", [text, text]),
        resolve("like", [text, Literal(TEXT, "a_")]),
        resolve("replace", [text, Literal(TEXT, "a"), Literal(TEXT, "")]),
        resolve("substr", [text, three]),
        text,
        Literal(TEXT, None),
        Literal(DATE, 5),
        Literal(TEXT, ""),
    ]
    for expr in exprs:
        for rows in (0, 1, 3):
            column = evaluate(expr, Scope((), rows))
            check(column, expr.type, rows)
            assert len(set(canonical(column))) <= 1


def test_pseudo_columns_and_now() -> None:
    ids, times = np.array([4, 5], np.int64), np.array([10, 20], np.int64)
    scope = Scope((), 2, ids, times, 99)
    assert evaluate(AttributeRef(BIGINT, -1, "_id"), scope).values.tolist() == [4, 5]
    assert evaluate(AttributeRef(TIMESTAMP, -2, "_time"), scope).values.tolist() == [10, 20]
    assert evaluate(Now(TIMESTAMP), scope).values.tolist() == [99, 99]
    age = resolve("gt", [Now(TIMESTAMP), AttributeRef(TIMESTAMP, -2, "_time")])
    assert evaluate(age, scope).values.tolist() == [True, True]


def test_shared_parts_are_computed_once_in_a_scope(oracle: Oracle) -> None:
    doubled = resolve("mul", [oracle.ref("d"), Literal(DOUBLE, 2.0)])
    scope = Scope(oracle.columns, oracle.rows)
    first = evaluate(resolve("gt", [doubled, oracle.ref("d2")]), scope)
    assert doubled in scope.memo
    kept = scope.memo[doubled]  # type: ignore[index]
    evaluate(resolve("lt", [doubled, oracle.ref("d2")]), scope)
    assert scope.memo[doubled] is kept  # type: ignore[index]
    assert first.type == BOOLEAN


@in_parts(4)
def test_inputs_are_not_written(oracle: Oracle, part: slice) -> None:
    before = [(c.values.copy(), None if c.valid is None else c.valid.copy()) for c in oracle.columns]
    for expr in every_call(oracle)[part]:
        oracle.mine(expr)
    for column, (values, valid) in zip(oracle.columns, before, strict=True):
        assert np.array_equal(column.values, values, equal_nan=values.dtype.kind == "f")
        assert valid is None or np.array_equal(column.valid, valid)
