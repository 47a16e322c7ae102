"""`a RELOP b + c` as a condition on the derived attribute a - b, so that all such queries share one.

    shipped > ordered + 5   ->   (shipped - ordered) > 5

Only where that is the same for all values: a - b, and b + c where there is a c, must never overflow where the
comparison would not. Never for DOUBLE, whose differences are rounded.
"""

from __future__ import annotations

from dataclasses import dataclass

from psoup.expressions.functions import resolve
from psoup.expressions.tree import Call, Expr, Literal
from psoup.model import BIGINT, MAX_DECIMAL_PRECISION, Kind


@dataclass(frozen=True, slots=True)
class Difference:
    """`attribute RELOP constant`."""

    attribute: Expr
    constant: Literal


def difference(operator: str, left: Expr, right: Expr) -> Difference | None:
    """The difference that decides `left operator right`, or None where it would not be exact."""
    kinds = {left.type.kind, right.type.kind}
    if kinds == {Kind.DATE} and isinstance(left, Expr) and isinstance(right, Expr):
        return Difference(resolve("sub", [left, right]), Literal(BIGINT, 0))
    if kinds == {Kind.DECIMAL}:
        return _decimals(left, right)
    return None


def _decimals(left: Expr, right: Expr) -> Difference | None:
    attribute = resolve("sub", [left, right])
    assert isinstance(attribute, Call)
    whole = max(side.type.precision - side.type.scale for side in (left, right))
    scale = max(left.type.scale, right.type.scale)
    if whole + scale + 1 > MAX_DECIMAL_PRECISION:
        return None
    return Difference(attribute, Literal(attribute.type, 0))
