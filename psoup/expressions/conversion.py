"""Conversions between types: explicit casts, the common type of several values, the types of a comparison.

    BOOLEAN -> BIGINT -> DECIMAL -> DOUBLE        DATE -> TIMESTAMP        a TEXT constant -> the type of the other side

The rules are DuckDB's, with at most 18 digits for DECIMAL. A sum has up to 38 digits; an exact number that is compared
or computed with a sum becomes as wide. Constants are converted here, at once, so that registration refuses a bad
constant. This module never touches rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from psoup.errors import InvalidInput
from psoup.expressions.evaluate import constant
from psoup.expressions.numbers import long_numbers
from psoup.expressions.plainly import plain_value
from psoup.expressions.tree import Call, Expr, Literal, LongNumber
from psoup.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_DECIMAL_PRECISION,
    TEXT,
    TIMESTAMP,
    DataType,
    Kind,
    decimal,
    wide,
)
from psoup.values.kinds import TYPES, Family, kinds_of

NUMBERS = kinds_of(Family.NUMBER)
TIMES = kinds_of(Family.TIME)
_EXACT = NUMBERS - {Kind.DOUBLE}
_NUMBER_LIKE = kinds_of(Family.NUMBER, Family.BOOLEAN, Family.TEXT)
_TARGETS: dict[Family, frozenset[Kind]] = {
    Family.BOOLEAN: _NUMBER_LIKE,
    Family.NUMBER: _NUMBER_LIKE,
    Family.TIME: TIMES | {Kind.TEXT},
    Family.TEXT: frozenset(Kind),
}
_CASTS: dict[Kind, frozenset[Kind]] = {kind: _TARGETS[facts.family] for kind, facts in TYPES.items()}


def mismatch(message: str) -> InvalidInput:
    """The error for arguments whose types do not fit."""
    return InvalidInput(message, reason="TYPE_MISMATCH")


def is_null_literal(expr: Expr) -> bool:
    """Whether `expr` is the constant NULL, or a CASE with only such values, which takes the type of its context."""
    if isinstance(expr, Literal):
        return expr.value is None
    return isinstance(expr, Call) and expr.name == "case" and all(map(is_null_literal, _values_of(expr)))


def _values_of(case: Call) -> tuple[Expr, ...]:
    """The values of a CASE."""
    return (*case.args[1::2], case.args[-1])


def is_text_literal(expr: Expr) -> bool:
    """Whether `expr` is a TEXT constant, which takes the type of its context."""
    return isinstance(expr, Literal) and expr.type == TEXT and expr.value is not None


def cast(expr: Expr, type: DataType, try_: bool = False) -> Expr:
    """Convert `expr` to `type`; with `try_`, NULL for values that cannot be converted, instead of an error.

    A constant is converted at once. Raises InvalidInput: TYPE_MISMATCH if no value of the one type can become the
    other, INVALID_VALUE for a constant that cannot be converted.
    """
    if isinstance(expr, LongNumber):
        expr = _for_cast(expr, type)
    if expr.type == type:
        return expr
    if is_null_literal(expr):
        return _null_of(expr, type)
    if type.kind not in _CASTS[expr.type.kind]:
        raise mismatch(f"cannot cast {expr.type} to {type}; cast to TEXT first, or use extract()")
    call = Call(type, "try_cast" if try_ else "cast", (expr,))
    if not isinstance(expr, Literal):
        return call
    plain = plain_value(expr.value, type) if isinstance(expr.value, str) else None
    if plain is not None:
        return Literal(type, plain)
    folded = constant(call)
    assert folded is not None
    return folded


def _for_cast(number: LongNumber, type: DataType) -> Literal:
    """A constant of many digits for a cast: a text of all digits, or a DOUBLE for the targets DOUBLE and BOOLEAN."""
    if type.kind in (Kind.DOUBLE, Kind.BOOLEAN):
        return Literal(DOUBLE, number.value)
    return Literal(TEXT, number.text)


def _null_of(expr: Expr, type: DataType) -> Expr:
    """A NULL of another type. A CASE keeps its conditions, because these may be errors."""
    if not isinstance(expr, Call):
        return Literal(type, None)
    args = [arg if place % 2 == 0 else _null_of(arg, type) for place, arg in enumerate(expr.args[:-1])]
    return Call(type, expr.name, (*args, _null_of(expr.args[-1], type)))


def decimal_type(expr: Expr) -> DataType:
    """The DECIMAL that holds an exact number: its own type, the digits of an integer constant, or DECIMAL(18,0)."""
    if expr.type.kind is Kind.DECIMAL:
        return expr.type
    if expr.type.kind is Kind.BIGINT and isinstance(expr, Literal) and expr.value is not None:
        return decimal(min(len(str(abs(int(expr.value)))), MAX_DECIMAL_PRECISION), 0)
    return decimal(1 if expr.type.kind is Kind.BOOLEAN else MAX_DECIMAL_PRECISION, 0)


def common_decimal(types: Sequence[DataType]) -> DataType:
    """The DECIMAL with the greatest scale and as many integer digits as 18 digits allow."""
    scale = max(t.scale for t in types)
    whole = max(t.precision - t.scale for t in types)
    return decimal(min(whole + scale, MAX_DECIMAL_PRECISION), scale)


def common_type(args: Sequence[Expr], function: str) -> DataType:
    """The common type of the values of `args`, as in CASE and COALESCE; `function` names the function in errors."""
    typed = [arg for arg in args if not is_null_literal(arg)]
    firm = [arg for arg in typed if not is_text_literal(arg)] or typed or list(args[:1])
    kinds = {arg.type.kind for arg in firm}
    if len({arg.type for arg in firm}) == 1:
        return firm[0].type
    if kinds <= NUMBERS | {Kind.BOOLEAN}:
        if Kind.DOUBLE in kinds:
            return DOUBLE
        if Kind.WIDE in kinds:
            return wide(max(arg.type.scale for arg in firm))
        if Kind.DECIMAL in kinds:
            return common_decimal([decimal_type(arg) for arg in firm])
        return BIGINT
    if kinds <= TIMES:
        return TIMESTAMP
    listed = ", ".join(dict.fromkeys(str(arg.type) for arg in firm))
    raise mismatch(f"{function} mixes values of types {listed}; cast them to one type")


def unify(args: Sequence[Expr], function: str) -> tuple[Expr, ...]:
    """`args` cast to their common type."""
    target = common_type(args, function)
    return tuple(cast(arg, target) for arg in args)


def comparable(left: Expr, right: Expr, name: str = "eq") -> tuple[Expr, Expr]:
    """The two sides of the comparison `name` with DuckDB's implicit casts.

    Exact numbers of any scale, and BIGINT or a sum with DOUBLE, are not cast: evaluation compares them exactly.
    """
    if isinstance(left, LongNumber) or isinstance(right, LongNumber):
        return _with_long_number(left, right, name)
    if left.type == right.type:
        return left, right
    if is_null_literal(left) or is_null_literal(right):  # before texts: else 'x' would be cast to the type of the NULL
        return (cast(left, right.type), right) if is_null_literal(left) else (left, cast(right, left.type))
    if is_text_literal(left):
        return cast(left, right.type), right
    if is_text_literal(right):
        return left, cast(right, left.type)
    kinds = {left.type.kind, right.type.kind}
    if kinds <= _EXACT or kinds in ({Kind.BIGINT, Kind.DOUBLE}, {Kind.WIDE, Kind.DOUBLE}):
        return left, right
    if kinds == {Kind.DECIMAL, Kind.DOUBLE}:
        return cast(left, DOUBLE), cast(right, DOUBLE)
    if Kind.BOOLEAN in kinds and kinds & {Kind.DECIMAL, Kind.WIDE}:
        return tuple(cast(side, BIGINT) if side.type == BOOLEAN else side for side in (left, right))  # type: ignore[return-value]
    if Kind.BOOLEAN in kinds and kinds & NUMBERS:
        return _towards(left, right, Kind.BOOLEAN)
    if kinds == TIMES:
        return cast(left, TIMESTAMP), cast(right, TIMESTAMP)
    if Kind.TEXT in kinds and (kinds & TIMES or Kind.BOOLEAN in kinds):
        return _towards(left, right, Kind.TEXT)
    way = "cast one of them to the type of the other"
    if kinds & TIMES and kinds & NUMBERS:
        way = "write TIMESTAMP '2026-07-01 10:00:00', or to_timestamp(n) of seconds since 1970"
    raise mismatch(f"cannot compare {left.type} with {right.type}; {way}")


def _with_long_number(left: Expr, right: Expr, name: str) -> tuple[Expr, Expr]:
    """The sides of a comparison, at least one of which is a constant of many digits."""
    left = cast(left, BIGINT) if left.type == BOOLEAN else left
    right = cast(right, BIGINT) if right.type == BOOLEAN else right
    if any(is_null_literal(side) or side.type.kind not in NUMBERS for side in (left, right)):
        left, right = long_numbers.plain([left, right])
        return comparable(left, right, name)
    return long_numbers.compared(name, left, right)


def _towards(left: Expr, right: Expr, weak: Kind) -> tuple[Expr, Expr]:
    """The sides, with the one of kind `weak` cast to the type of the other."""
    return (cast(left, right.type), right) if left.type.kind is weak else (left, cast(right, left.type))


def truth(expr: Expr, clause: str) -> Expr:
    """The expression as a BOOLEAN. A number is true unless it is zero. A TEXT constant is converted."""
    if expr.type == BOOLEAN:
        return expr
    if expr.type.kind in NUMBERS or is_text_literal(expr) or is_null_literal(expr):
        return cast(expr, BOOLEAN)
    raise mismatch(f"{clause} needs a condition, but {expr.type} is not one; compare it with something")


def as_text(expr: Expr) -> Expr:
    """`expr` in its text form."""
    return cast(expr, TEXT)


def need(expr: Expr, target: DataType, context: str) -> Expr:
    """The expression, which must have the type `target` already, or be a constant that can become it."""
    if expr.type == target:
        return expr
    if is_null_literal(expr) or is_text_literal(expr) or (target == TIMESTAMP and expr.type == DATE):
        return cast(expr, target)
    raise mismatch(f"{context} needs {target}, not {expr.type}; use CAST(... AS {target})")
