"""Comparisons `a + c RELOP b + d` as conditions on one derived attribute, which all queries that compare a and b share.

    shipped > ordered + 5   ->   difference(shipped, ordered) in [6, inf), and ordered in [least, greatest - 5]

If `difference` would overflow, it is the least or the greatest int64. So it always has the order of a and b. If
`ordered + 5` overflows, the comparison is an error. Separate intervals, the *guards*, exclude these rows. So the
condition equals the comparison for all values. DOUBLE has no such form, because its sums are rounded.
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
"""A constant must be less than this. With a greater one, a difference that overflowed could compare wrongly."""

_EXACT = frozenset({Kind.BIGINT, Kind.DECIMAL, Kind.DATE, Kind.TIMESTAMP})


@dataclass(frozen=True, slots=True)
class Difference:
    """The condition `attribute operator constant`. Also, every attribute of `guards` must lie in its intervals."""

    operator: str
    attribute: Expr
    constant: Literal
    guards: tuple[tuple[Expr, Intervals], ...]


@dataclass(frozen=True, slots=True)
class _Summand:
    """An operand, as `base + shift`. `shift` counts in order keys. `kept`: the keys of `base` for which the sum is
    no error."""

    base: Expr
    shift: int = 0
    kept: Intervals = EVERYTHING


def difference(operator: str, left: Expr, right: Expr) -> Difference | None:
    """The condition on a difference that is equivalent to `left operator right`. None if there is none."""
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
    """`expr` as the sum of a base and a constant. If it has another form, it is the base."""
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
    """The least and the greatest order key that a sum of this type may have without an error."""
    if result.kind is Kind.DECIMAL:
        return 1 - 10**result.precision, 10**result.precision - 1
    if result.kind is Kind.DATE:
        return -LAST_DAY, LAST_DAY
    if result.kind is Kind.TIMESTAMP:
        return FIRST_MICRO, LAST_MICRO
    return -(2**63), 2**63 - 1


def _kept(base: DataType, lowest: int, greatest: int) -> Intervals:
    """The keys from `lowest` to `greatest`. EVERYTHING if these are all keys of the type."""
    if base.kind is Kind.DECIMAL and lowest <= 1 - 10**base.precision and greatest >= 10**base.precision - 1:
        return EVERYTHING
    return normal(base, [Interval(lowest, greatest + 1)])
