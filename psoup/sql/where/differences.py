"""`a + c RELOP b + d` as a condition on one derived attribute, which all queries that compare a and b share.

    shipped > ordered + 5   ->   difference(shipped, ordered) in [6, inf), and ordered in [least, greatest - 5]

Where `difference` would overflow it stays at the end of int64, so its order is the order of a and b. Where `ordered +
5` overflows, the condition is an error, so separate intervals (the *guards*) exclude these rows. So the condition
equals the comparison for all values. Never for DOUBLE: its sums are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.expressions.civil import FIRST_MICRO, LAST_DAY, LAST_MICRO
from psoup.expressions.functions import resolve
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, DataType, Kind
from psoup.plan.canonical import expr_text
from psoup.plan.factors import Interval
from psoup.sql.where.intervals import EVERYTHING, FLIPPED, Intervals, normal

_FAR = 2**62
"""Differences at the end of int64 could be wrong for constants beyond this."""

_EXACT = frozenset({Kind.BIGINT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class Difference:
    """`attribute operator constant`, and every attribute of `guards` must be in its intervals."""

    operator: str
    attribute: Expr
    constant: Literal
    guards: tuple[tuple[Expr, Intervals], ...]


@dataclass(frozen=True, slots=True)
class _Summand:
    """`base + shift` in steps of the order keys. `kept`: the keys of `base` without overflow."""

    base: Expr
    shift: int = 0
    kept: Intervals = EVERYTHING


def difference(operator: str, left: Expr, right: Expr) -> Difference | None:
    """The difference that decides `left operator right`, None if there is none."""
    if left.type.kind not in _EXACT or left.type.kind is not right.type.kind or left.type.scale != right.type.scale:
        return None
    first, second = _side(left), _side(right)
    if first.base.type.scale != second.base.type.scale or abs(second.shift - first.shift) >= _FAR:
        return None
    guards = tuple((side.base, side.kept) for side in (first, second) if side.kept != EVERYTHING)
    if expr_text(first.base) > expr_text(second.base):
        first, second, operator = second, first, FLIPPED[operator]
    attribute = resolve("difference", [first.base, second.base])
    return Difference(operator, attribute, Literal(BIGINT, second.shift - first.shift), guards)


def _side(expr: Expr) -> _Summand:
    """`expr` as a base and a constant, if it is their sum; else as a base alone."""
    if not isinstance(expr, Call) or expr.name not in ("add", "sub", "add_interval"):
        return _Summand(expr)
    base, *constants = expr.args
    if expr.name == "add" and isinstance(base, Literal):
        base, constants = expr.args[1], [base]
    values = [constant.value for constant in constants if isinstance(constant, Literal)]
    if len(values) != len(constants) or not all(type(value) is int for value in values):
        return _Summand(expr)
    if base.type.kind is not expr.type.kind or base.type.scale != expr.type.scale:
        return _Summand(expr)
    if expr.name == "add_interval" and values[0] != 0:
        return _Summand(expr)  # months have no fixed length
    shift = int(values[-1] or 0)
    lowest, greatest = _range(expr.type)
    if abs(shift) >= _FAR or (expr.type.kind is Kind.DATE and abs(shift) > LAST_DAY):
        return _Summand(expr)
    shift = -shift if expr.name == "sub" else shift
    return _Summand(base, shift, _kept(base.type, lowest - shift, greatest - shift))


def _range(result: DataType) -> tuple[int, int]:
    """The least and the greatest key of a sum of this type that is no error."""
    if result.kind is Kind.DECIMAL:
        return 1 - 10**result.precision, 10**result.precision - 1
    if result.kind is Kind.DATE:
        return -LAST_DAY, LAST_DAY
    if result.kind is Kind.TIMESTAMP:
        return FIRST_MICRO, LAST_MICRO
    return -(2**63), 2**63 - 1


def _kept(base: DataType, lowest: int, greatest: int) -> Intervals:
    """The keys from `lowest` to `greatest`, or everything if they are all keys of the type."""
    if base.kind is Kind.DECIMAL and lowest <= 1 - 10**base.precision and greatest >= 10**base.precision - 1:
        return EVERYTHING
    return normal(base, [Interval(lowest, greatest + 1)])
