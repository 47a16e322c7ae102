"""The typing rules: from a function's name and typed arguments to a typed call with every conversion explicit.

    div(BIGINT, DECIMAL(5,2))   ->   div(cast(x AS DOUBLE), cast(y AS DOUBLE)) : DOUBLE

Each function or family has a rule, `(name, args) -> Expr`; `functions` has the table. `functions.resolve` checks the
number of arguments before it calls a rule. A rule "types" a function: it gives the result and each argument their
types. `rules_texts` and `rules_times` have further rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from psoup.errors import InvalidInput
from psoup.expressions.conversion import (
    NUMBERS,
    TIMES,
    cast,
    common_decimal,
    comparable,
    decimal_type,
    is_null_literal,
    mismatch,
    need,
    truth,
    unify,
)
from psoup.expressions.numbers.long_numbers import plain
from psoup.expressions.supplied_functions import Signature
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_DECIMAL_PRECISION,
    MAX_WIDE_PRECISION,
    DataType,
    Kind,
    decimal,
    wide,
)

Rule = Callable[[str, Sequence[Expr]], Expr]

_SCALED = (Kind.DECIMAL, Kind.WIDE)
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "intdiv": "//", "mod": "%", "neg": "-"}
_SYMBOLS |= {"bits_and": "&", "bits_or": "|", "bits_not": "~", "shift_left": "<<", "shift_right": ">>"}


def connective(name: str, args: Sequence[Expr]) -> Expr:
    """Type and, or, not. Arguments and result are conditions. Nested calls of the same name become one call."""
    flat: list[Expr] = []
    for arg in args:
        condition = truth(arg, name.upper())
        nested = isinstance(condition, Call) and condition.name == name and name != "not"
        flat.extend(condition.args if nested else (condition,))  # type: ignore[union-attr]
    return Call(BOOLEAN, name, tuple(flat))


def comparison(name: str, args: Sequence[Expr]) -> Expr:
    """Type the six comparisons."""
    return Call(BOOLEAN, name, comparable(args[0], args[1], name))


def membership(name: str, args: Sequence[Expr]) -> Expr:
    """Type x IN (items). This is one call, if no item changes the type of x. Otherwise it is x = item OR x =
    item ...
    """
    pairs = [comparable(args[0], item) for item in args[1:]]
    if any(side != pairs[0][0] for side, _ in pairs):
        return Call(BOOLEAN, "or", tuple(Call(BOOLEAN, "eq", pair) for pair in pairs))
    return Call(BOOLEAN, name, (pairs[0][0], *(item for _, item in pairs)))


def null_test(name: str, args: Sequence[Expr]) -> Expr:
    """Type IS NULL and IS NOT NULL of any value."""
    return Call(BOOLEAN, name, tuple(args))


def additive(name: str, args: Sequence[Expr]) -> Expr:
    """Type + and - of numbers, of a DATE and days, and DATE - DATE, which is a number of days."""
    left, right = args
    times = [arg for arg in args if arg.type.kind in TIMES]
    if len(times) == 1 and any(map(is_null_literal, args)):  # NULL may stand for days, an interval or a time
        return cast(left if is_null_literal(left) else right, times[0].type)
    kinds = (left.type.kind, right.type.kind)
    if name == "add" and kinds == (Kind.BIGINT, Kind.DATE):
        left, right, kinds = right, left, (Kind.DATE, Kind.BIGINT)
    if kinds == (Kind.DATE, Kind.BIGINT):
        return Call(DATE, name, (left, right))
    if kinds == (Kind.DATE, Kind.DATE) and name == "sub":
        return Call(BIGINT, name, (left, right))
    if name == "sub" and set(kinds) <= {Kind.DATE, Kind.TIMESTAMP}:
        raise mismatch(
            f"{left.type} - {right.type} is an interval, which is not a value here; use date_diff('microsecond', b, a)"
        )
    return _arithmetic(name, left, right, _sum_type)


def distance(name: str, args: Sequence[Expr]) -> Expr:
    """Type the difference of the order keys of two exact values of one kind."""
    left, right = (arg.type for arg in args)
    exact = left.kind in (Kind.BIGINT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP)
    if not exact or left.kind is not right.kind or left.scale != right.scale:
        raise mismatch(f"{left} and {right} have no exact difference")
    return Call(BIGINT, name, tuple(args))


def multiplicative(name: str, args: Sequence[Expr]) -> Expr:
    """Type multiplication of numbers. The scale of the result is the sum of the scales."""
    return _arithmetic(name, args[0], args[1], _product_type)


def remainder(name: str, args: Sequence[Expr]) -> Expr:
    """Type % of numbers. The result has the sign of the dividend."""
    return _arithmetic(name, args[0], args[1], _sum_type)


def division(name: str, args: Sequence[Expr]) -> Expr:
    """Type / and //. The result of / is always DOUBLE.

    The result of // is BIGINT for BIGINTs, WIDE for sums of whole numbers, and otherwise DOUBLE.
    """
    left, right = (_number(arg, name, args) for arg in args)
    if name == "intdiv" and left.type == right.type == BIGINT:
        return Call(BIGINT, name, (left, right))
    if name == "intdiv" and {left.type, right.type} <= {BIGINT, wide(0)}:
        return Call(wide(0), name, (left, right))
    return Call(DOUBLE, name, (cast(left, DOUBLE), cast(right, DOUBLE)))


def _arithmetic(name: str, left: Expr, right: Expr, exact: Callable[[str, DataType, DataType], DataType]) -> Expr:
    args = (left, right)
    left, right = (_number(arg, name, args) for arg in args)
    kinds = {left.type.kind, right.type.kind}
    if Kind.DOUBLE in kinds:
        return Call(DOUBLE, name, (cast(left, DOUBLE), cast(right, DOUBLE)))
    if Kind.WIDE in kinds:
        return Call(_wide_type(name, left.type, right.type), name, (left, right))
    if Kind.DECIMAL not in kinds:
        return Call(BIGINT, name, (left, right))
    first, second = decimal_type(left), decimal_type(right)
    result = exact(name, first, second)
    if name == "mul":
        return Call(result, name, (cast(left, first), cast(right, second)))
    return Call(result, name, (cast(left, _rescaled(first, result)), cast(right, _rescaled(second, result))))


def _wide_type(name: str, left: DataType, right: DataType) -> DataType:
    """The type of arithmetic on a sum and another exact number. The evaluation brings both to one scale."""
    scale = left.scale + right.scale if name == "mul" else max(left.scale, right.scale)
    if scale > MAX_WIDE_PRECISION:
        raise mismatch(
            f"{left} * {right} would need {scale} decimal places, more than {MAX_WIDE_PRECISION}; cast one of them to"
            " DOUBLE"
        )
    return wide(scale)


def _number(arg: Expr, name: str, args: Sequence[Expr]) -> Expr:
    if arg.type.kind in NUMBERS:
        return arg
    if is_null_literal(arg):
        other = next((a for a in args if a.type.kind in NUMBERS), None)
        return cast(arg, BIGINT if other is None else other.type)
    listed = f" {_SYMBOLS[name]} ".join(str(a.type) for a in args)
    way = "use CAST(... AS BIGINT) or another number type"
    if name == "add" and any(arg.type.kind is Kind.TEXT for arg in args):
        way += ", or || to put texts together"
    if any(arg.type.kind in (Kind.TIMESTAMP, Kind.DATE) for arg in args):
        way = "what may be added to a time is an INTERVAL"
    raise mismatch(f"{_SYMBOLS[name]} needs numbers, not {listed}; {way}")


def _sum_type(name: str, left: DataType, right: DataType) -> DataType:
    whole = common_decimal([left, right])
    carry = 0 if name == "mod" else 1
    return decimal(min(whole.precision + carry, MAX_DECIMAL_PRECISION), whole.scale)


def _product_type(name: str, left: DataType, right: DataType) -> DataType:
    scale = left.scale + right.scale
    if scale > MAX_DECIMAL_PRECISION:
        raise mismatch(
            f"{left} * {right} would need {scale} decimal places, more than {MAX_DECIMAL_PRECISION}; "
            "cast one of them to DOUBLE or to fewer places"
        )
    return decimal(min(left.precision + right.precision, MAX_DECIMAL_PRECISION), scale)


def _rescaled(source: DataType, result: DataType) -> DataType:
    """The type `source` at the scale of `result`."""
    return decimal(min(source.precision - source.scale + result.scale, MAX_DECIMAL_PRECISION), result.scale)


def keep_number(name: str, args: Sequence[Expr]) -> Expr:
    """Type neg and abs, whose result has the type of the argument."""
    return Call(_one_number(name, args[0]).type, name, (_one_number(name, args[0]),))


def rounding(name: str, args: Sequence[Expr]) -> Expr:
    """Type round(x [, digits]), whose result keeps the type of x. A DECIMAL loses places, so its digits must be a
    constant.
    """
    value = _one_number(name, args[0])
    if len(args) == 1:
        return Call(_without_places(value.type), name, (value,))
    digits = need(args[1], BIGINT, "the second argument of round")
    if value.type.kind not in _SCALED:
        return Call(value.type, name, (value, digits))
    if not isinstance(digits, Literal):
        raise mismatch("round of a DECIMAL needs a constant number of digits; cast the value to DOUBLE")
    if digits.value is None:
        return Literal(value.type, None)
    scale, precision = min(max(int(digits.value), 0), value.type.scale), value.type.precision
    if value.type.kind is Kind.WIDE:
        return Call(wide(scale), name, (value, digits))
    if value.type.scale == 0 and 0 < -int(digits.value) <= precision:  # 9999 becomes 10000
        precision = min(precision + 1, MAX_DECIMAL_PRECISION)
    return Call(decimal(precision, scale), name, (value, digits))


def whole(name: str, args: Sequence[Expr]) -> Expr:
    """Type floor and ceil. The result of a DECIMAL(p,s) is DECIMAL(p,0), that of any other number is DOUBLE."""
    value = _one_number(name, args[0])
    if value.type.kind in _SCALED and value.type != wide(0):
        return Call(_without_places(value.type), name, (value,))
    return Call(DOUBLE, name, (cast(value, DOUBLE),))


def _without_places(kind: DataType) -> DataType:
    """The type of a number without its decimal places."""
    return DataType(kind.kind, kind.precision)


def floating(name: str, args: Sequence[Expr]) -> Expr:
    """Type sqrt, power and other functions whose arguments and result are DOUBLE."""
    return Call(DOUBLE, name, tuple(cast(_one_number(name, arg), DOUBLE) for arg in args))


def sizing(name: str, args: Sequence[Expr]) -> Expr:
    """Type sign, whose result is BIGINT for any number."""
    return Call(BIGINT, name, (_one_number(name, args[0]),))


def truncating(name: str, args: Sequence[Expr]) -> Expr:
    """Type trunc, whose result keeps the type of the argument. A DECIMAL loses its places."""
    value = _one_number(name, args[0])
    return Call(_without_places(value.type), name, (value,))


def testing(name: str, args: Sequence[Expr]) -> Expr:
    """Type isnan, isinf and isfinite, whose result is BOOLEAN."""
    return Call(BOOLEAN, name, (cast(_one_number(name, args[0]), DOUBLE),))


def narrowing(name: str, args: Sequence[Expr]) -> Expr:
    """Type narrow and try_narrow, for a BIGINT that must fit into the bits of a TINYINT, SMALLINT or INTEGER."""
    value, width = args
    if value.type != BIGINT or not isinstance(width, Literal) or width.value not in (8, 16, 32):
        raise mismatch(f"{name} needs a BIGINT, and 8, 16 or 32 bits")
    return Call(BIGINT, name, (value, width))


def bits(name: str, args: Sequence[Expr]) -> Expr:
    """Type bit operators, gcd and lcm, whose arguments and result are BIGINT."""
    return Call(BIGINT, name, tuple(need(arg, BIGINT, _SYMBOLS.get(name, name)) for arg in args))


def _one_number(name: str, arg: Expr) -> Expr:
    if arg.type.kind in NUMBERS:
        return arg
    if is_null_literal(arg):
        return cast(arg, DOUBLE)
    shown_name = _SYMBOLS.get(name, name)
    raise mismatch(f"{shown_name} needs a number, not {arg.type}; use CAST(... AS DOUBLE) or another number type")


def unified(name: str, args: Sequence[Expr]) -> Expr:
    """Type greatest, least and coalesce. The arguments are cast to one type, which is that of the result."""
    args = unify(args, name)
    return Call(args[0].type, name, tuple(args))


def null_if(name: str, args: Sequence[Expr]) -> Expr:
    """Type nullif(x, y), which is x, or NULL if x = y. The call has the arguments (x, left, right).

    The last two are x and y, cast for the comparison.
    """
    return Call(args[0].type, name, (*plain(args[:1]), *comparable(args[0], args[1])))


def case(name: str, args: Sequence[Expr]) -> Expr:
    """Type CASE. The arguments are condition, value, condition, value, ..., else. The binder has converted a simple
    CASE.
    """
    if len(args) % 2 == 0:
        raise InvalidInput("CASE needs a condition for every value, and a value for ELSE (NULL if there is none)")
    conditions = [truth(arg, "WHEN") for arg in args[:-1:2]]
    values = unify([*args[1::2], args[-1]], "CASE")
    mixed: list[Expr] = []
    for condition, value in zip(conditions, values, strict=False):
        mixed += [condition, value]
    return Call(values[0].type, name, (*mixed, values[-1]))


def supplied_call(signature: Signature, args: Sequence[Expr]) -> Expr:
    """The typed call of a supplied function. A number is converted to DOUBLE, a BIGINT to DECIMAL, if the function
    takes it.

    Raises InvalidInput: WRONG_ARGUMENTS, TYPE_MISMATCH.
    """
    if len(args) != len(signature.arguments):
        raise InvalidInput(
            f"{signature.name} takes {len(signature.arguments)} arguments, not {len(args)}: {signature.shown}",
            reason="WRONG_ARGUMENTS",
            function=signature.name,
        )
    pairs = enumerate(zip(args, signature.arguments, strict=True), 1)
    typed = tuple(_fitted(arg, target, f"argument {place} of {signature.name}") for place, (arg, target) in pairs)
    return Call(signature.result, str(signature), typed)


def _fitted(arg: Expr, target: DataType, context: str) -> Expr:
    wider = arg.type.kind in NUMBERS and target == DOUBLE
    if wider or (arg.type == BIGINT and target.kind is Kind.DECIMAL):
        return cast(arg, target)
    return need(arg, target, context)
