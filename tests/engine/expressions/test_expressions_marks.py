"""NULL and error marks: three-valued logic, what an error makes of its row, what it does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from psoup.errors import InvalidInput
from psoup.expressions.functions import Scope, cast, constant, evaluate, resolve
from psoup.expressions.tree import AttributeRef, Call, Expr, Literal
from psoup.model import BIGINT, BOOLEAN, DATE, DOUBLE, TEXT, TIMESTAMP, DataType, decimal
from psoup.values.columns import Column

TRUE, FALSE, UNKNOWN, ERROR = "true", "false", "null", "error"
STATES = (TRUE, FALSE, UNKNOWN, ERROR)
LEAST, GREATEST = -(2**63), 2**63 - 1
X = AttributeRef(BIGINT, 0, "x")
Y = AttributeRef(BIGINT, 1, "y")


def flags(states: list[str]) -> Column:
    """A BOOLEAN column in the given states."""
    return Column(
        BOOLEAN,
        np.array([s == TRUE for s in states]),
        np.array([s in (TRUE, FALSE) for s in states]),
        None,
        np.array([s == ERROR for s in states]),
    )


def states(column: Column) -> list[str]:
    found = []
    for row in range(len(column)):
        if column.error is not None and column.error[row]:
            found.append(ERROR)
        elif column.valid is not None and not column.valid[row]:
            found.append(UNKNOWN)
        else:
            found.append(TRUE if column.values[row] else FALSE)
    return found


def logic(name: str, *columns: Column) -> list[str]:
    refs = [AttributeRef(BOOLEAN, position, f"c{position}") for position in range(len(columns))]
    return states(evaluate(resolve(name, refs), Scope(columns, len(columns[0]))))


def test_and_or_not() -> None:
    """An error is UNKNOWN; its mark stays only where the result is UNKNOWN."""
    pairs = list(itertools.product(STATES, STATES))
    left, right = flags([a for a, _ in pairs]), flags([b for _, b in pairs])
    both, either = logic("and", left, right), logic("or", left, right)
    for (a, b), found_and, found_or in zip(pairs, both, either, strict=True):
        blurred = ERROR if ERROR in (a, b) else UNKNOWN
        assert found_and == (FALSE if FALSE in (a, b) else TRUE if (a, b) == (TRUE, TRUE) else blurred)
        assert found_or == (TRUE if TRUE in (a, b) else FALSE if (a, b) == (FALSE, FALSE) else blurred)
    assert logic("not", flags(list(STATES))) == [FALSE, TRUE, UNKNOWN, ERROR]


def test_null_tests() -> None:
    assert logic("is_null", flags(list(STATES))) == [FALSE, FALSE, TRUE, ERROR]
    assert logic("is_not_null", flags(list(STATES))) == [TRUE, TRUE, FALSE, ERROR]


def column(values: list[int | None]) -> Column:
    valid = np.array([value is not None for value in values])
    return Column(BIGINT, np.array([value or 0 for value in values], np.int64), None if valid.all() else valid)


def outcome(expr: Expr, x: list[int | None], y: list[int | None] | None = None) -> list[object]:
    """Values, None for NULL, "error"."""
    found = evaluate(expr, Scope((column(x), column(y if y is not None else x)), len(x)))
    values = found.values.tolist() if found.type.kind.value != "TEXT" else found.to_list()
    return [
        value if state in (TRUE, FALSE) else None if state == UNKNOWN else ERROR
        for value, state in zip(values, states(found), strict=True)
    ]


def number(value: int) -> Literal:
    return Literal(BIGINT, value)


def test_overflow_of_int64_is_an_error() -> None:
    assert outcome(resolve("add", [X, number(1)]), [GREATEST, 1, None]) == [ERROR, 2, None]
    assert outcome(resolve("sub", [X, number(1)]), [LEAST, 1]) == [ERROR, 0]
    assert outcome(resolve("neg", [X]), [LEAST, GREATEST, 0]) == [ERROR, -GREATEST, 0]
    assert outcome(resolve("abs", [X]), [LEAST, -GREATEST]) == [ERROR, GREATEST]
    assert outcome(resolve("intdiv", [X, Y]), [LEAST, LEAST, 7], [-1, 1, 0]) == [ERROR, LEAST, ERROR]
    assert outcome(resolve("mod", [X, Y]), [LEAST, 7, -7], [-1, 0, 4]) == [0, ERROR, -3]


@pytest.mark.parametrize("seed", range(4))
def test_products_overflow_exactly_where_python_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    near = [3037000499, 3037000500, -3037000500, 2**31, 2**32, -(2**32), 2**62, LEAST, GREATEST, 1, -1, 2, -2, 0, 3]
    a = [int(v) for v in rng.choice(near, 400)] + [int(v) >> int(s) for v, s in _random(rng)]
    b = [int(v) for v in rng.choice(near, 400)] + [int(v) >> int(s) for v, s in _random(rng)]
    found = outcome(resolve("mul", [X, Y]), list(a), list(b))
    assert found == [p if LEAST <= (p := i * j) <= GREATEST else ERROR for i, j in zip(a, b, strict=True)]


def _random(rng: np.random.Generator) -> zip:  # type: ignore[type-arg]
    return zip(rng.integers(LEAST, GREATEST, 400), rng.integers(0, 63, 400), strict=True)


def test_decimals_end_at_18_digits() -> None:
    wide = cast(X, decimal(18, 0))
    assert outcome(wide, [10**18, 10**18 - 1, -(10**18)]) == [ERROR, 10**18 - 1, ERROR]
    assert outcome(resolve("add", [wide, cast(Y, decimal(18, 0))]), [10**18 - 1, 5], [1, 5]) == [ERROR, 10]
    assert outcome(resolve("mul", [wide, cast(Y, decimal(18, 0))]), [10**9, 10**9], [10**9, 10**8]) == [ERROR, 10**17]


def test_comparisons_of_errors_are_unknown_and_or_saves_them() -> None:
    quotient = resolve("mod", [number(10), X])
    leaf = resolve("gt", [quotient, number(0)])
    positive = resolve("gt", [Y, number(0)])
    assert outcome(leaf, [3, 0, 5, None]) == [True, ERROR, False, None]
    assert outcome(resolve("or", [leaf, positive]), [0, 0], [1, -1]) == [True, ERROR]
    assert outcome(resolve("and", [leaf, positive]), [0, 0], [1, -1]) == [ERROR, False]
    assert outcome(resolve("in", [quotient, number(1)]), [3, 0, 4]) == [True, ERROR, False]
    assert outcome(resolve("in", [number(1), quotient, Y]), [3, 0, 0], [0, 1, 2]) == [True, True, ERROR]


def test_branches_not_taken_do_not_count() -> None:
    zero = resolve("eq", [X, number(0)])
    quotient = resolve("mod", [number(10), X])
    assert outcome(resolve("case", [zero, number(-1), quotient]), [0, 3, None]) == [-1, 1, None]
    assert outcome(resolve("case", [zero, quotient, number(-1)]), [0, 3]) == [ERROR, -1]
    assert outcome(resolve("coalesce", [Y, quotient]), [0, 0, 3], [7, None, None]) == [7, ERROR, 1]
    assert outcome(resolve("coalesce", [quotient, Y]), [0, 3], [7, 7]) == [ERROR, 1]
    bad_condition = resolve("gt", [quotient, number(5)])
    assert outcome(resolve("case", [bad_condition, X, Y]), [0, 3], [7, 7]) == [ERROR, 7]
    assert outcome(resolve("case", [resolve("eq", [Y, number(7)]), X, bad_condition]), [0, 0], [7, 8]) == [0, ERROR]


def test_every_function_hands_errors_on() -> None:
    """An error in any argument of a strict function is an error of the result."""
    bad = resolve("mod", [number(1), X])
    text, double, date = cast(bad, TEXT), cast(bad, DOUBLE), resolve("add", [Literal(DATE, 0), bad])
    a = Literal(TEXT, "a")
    calls: list[Expr] = [
        *(resolve(name, [double]) for name in ("neg", "abs", "round", "floor", "ceil", "sqrt")),
        *(resolve(name, [text]) for name in ("lower", "upper", "length", "trim", "ltrim", "rtrim", "concat")),
        *(resolve(name, [double, double]) for name in ("add", "sub", "mul", "div", "intdiv", "mod", "power")),
        *(resolve(name, [bad, Y]) for name in ("greatest", "least", "nullif", "eq", "concat", "concat_op")),
        *(resolve(name, [text, a]) for name in ("greatest", "least", "starts_with", "contains", "like", "lt")),
        *(resolve(name, [a, text]) for name in ("starts_with", "contains", "like", "concat_op", "concat")),
        resolve("replace", [text, a, a]),
        resolve("replace", [a, text, a]),
        resolve("substr", [a, bad]),
        resolve("extract", [Literal(TEXT, "year"), date]),
        resolve("date_trunc", [Literal(TEXT, "year"), date]),
        resolve("add_interval", [date, number(1), number(1)]),
        *(cast(bad, kind) for kind in (DOUBLE, TEXT, BOOLEAN, decimal(9, 2))),
        cast(bad, TEXT, try_=True),
        cast(date, TIMESTAMP),
    ]
    for call in calls:
        found = evaluate(call, Scope((column([0]), column([1])), 1))
        assert states(found) == [ERROR], call


def test_try_cast_makes_null_of_its_own_errors_only() -> None:
    text = Literal(TEXT, "x")
    assert cast(text, BIGINT, try_=True) == Literal(BIGINT, None)
    assert outcome(cast(X, decimal(2, 0), try_=True), [5, 100]) == [5, None]
    assert outcome(cast(resolve("mod", [number(5), X]), decimal(2, 0), try_=True), [0, 3]) == [ERROR, 2]


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("intdiv", [number(1), number(0)]),
        ("mod", [number(1), number(0)]),
        ("add", [number(GREATEST), number(1)]),
        ("neg", [number(LEAST)]),
        ("abs", [number(LEAST)]),
    ],
)
def test_constants_with_errors_are_refused(name: str, args: list[Expr]) -> None:
    with pytest.raises(InvalidInput, match="has no value") as caught:
        constant(resolve(name, args))
    assert caught.value.reason == "INVALID_VALUE"


@pytest.mark.parametrize(
    ("text", "target"),
    [("x", BIGINT), ("1e400", BIGINT), ("2013-02-30", DATE), ("maybe", BOOLEAN), ("", DOUBLE), ("10:00", TIMESTAMP)],
)
def test_constants_that_do_not_convert_are_refused(text: str, target: DataType) -> None:
    with pytest.raises(InvalidInput, match=f"^'{text}' is not a valid {target}") as caught:
        cast(Literal(TEXT, text), target)
    assert ("; write it as '2013-07-04" in caught.value.message) == (target in (DATE, TIMESTAMP))
    with pytest.raises(InvalidInput):
        resolve("eq", [AttributeRef(target, 0, "c"), Literal(TEXT, text)])


def test_constants_fold_and_attributes_do_not() -> None:
    assert constant(resolve("add", [number(2), number(3)])) == number(5)
    assert constant(resolve("add", [number(2), X])) is None
    assert constant(resolve("case", [Literal(BOOLEAN, True), number(1), _by_zero()])) == number(1)
    assert constant(resolve("concat", [Literal(TEXT, "é"), number(1)])) == Literal(TEXT, "é1")
    assert constant(cast(Literal(TEXT, "2020-01-01 10:00"), TIMESTAMP)) == Literal(TIMESTAMP, 1577872800000000)
    assert constant(resolve("sqrt", [Literal(DOUBLE, -1.0)])) == Literal(DOUBLE, float("nan"))


def _by_zero() -> Expr:
    return Call(BIGINT, "mod", (number(1), number(0)))
