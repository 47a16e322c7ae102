"""The distance of RANGE in a window: a constant for the type of the only key of ORDER BY.

ORDER BY price RANGE 2.50 PRECEDING                  DECIMAL(9, 2): 250 steps
ORDER BY t RANGE INTERVAL 1 HOUR PRECEDING           TIMESTAMP: 3,600,000,000 microseconds
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions.tree import Literal
from psoup.model import BIGINT, DataType, Kind
from psoup.plan.inputs import OrderKey
from psoup.plan.over import DAY
from psoup.sql.source import StatementText
from psoup.sql.types import interval

_NUMBERS = frozenset({Kind.BIGINT, Kind.DECIMAL, Kind.DOUBLE})
_TIMES = frozenset({Kind.TIMESTAMP, Kind.DATE})


class ConstantBinder(Protocol):
    """The part of the binder that this module uses."""

    source: StatementText

    def constant(self, node: exp.Expr) -> Literal | None:
        """Bind a constant. Returns None if `node` is not constant."""


def distance(binder: ConstantBinder, node: exp.Expr, order: Sequence[OrderKey]) -> float:
    """The distance in steps of order keys: an integer, or for a DOUBLE a number. Raises SqlError."""
    source = binder.source
    if len(order) != 1:
        way = "ORDER BY one number or time: OVER (ORDER BY t RANGE INTERVAL 1 HOUR PRECEDING)"
        raise source.error(f"RANGE with a distance needs one key of ORDER BY, not {len(order)}", node, hint=way)
    kind = order[0].expr.type
    if kind.kind in _TIMES and isinstance(node, exp.Interval):
        return _time(source, node, kind)
    if kind.kind in _NUMBERS and not isinstance(node, exp.Interval):
        steps = _number(binder.constant(node), kind)
        if steps is not None and steps >= 0:
            return steps
    needs = "an INTERVAL" if kind.kind in _TIMES else "a constant number, at least 0"
    if kind.kind not in _TIMES | _NUMBERS:
        raise source.error(f"RANGE with a distance needs a key of numbers or times, not {kind}", node)
    digits = f" with at most {kind.scale} digits after the point" if kind.kind is Kind.DECIMAL else ""
    raise source.error(f"the distance of a key of type {kind} is {needs}{digits}", node, reason="TYPE_MISMATCH")


def _time(source: StatementText, node: exp.Expr, kind: DataType) -> int:
    months, micros = interval(source, node)
    if months:
        raise source.unsupported("a distance of months in RANGE", node, hint="months have no fixed length; write days")
    if micros < 0:
        raise _negative(source, node)
    return micros // DAY if kind.kind is Kind.DATE else micros


def _negative(source: StatementText, node: exp.Expr) -> SqlError:
    return source.error("the distance of RANGE is at least 0", node, hint="PRECEDING and FOLLOWING say the direction")


def _number(constant: Literal | None, kind: DataType) -> float | None:
    """The steps of a constant. None if the type of the key does not hold it."""
    if constant is None or not isinstance(constant.value, int | float) or isinstance(constant.value, bool):
        return None
    value, exact = constant.value, constant.type.kind in (Kind.BIGINT, Kind.DECIMAL)
    if kind.kind is Kind.DOUBLE:
        return float(value) / 10**constant.type.scale if exact else float(value)
    if not exact or (kind == BIGINT and constant.type != BIGINT) or constant.type.scale > kind.scale:
        return None
    return int(value) * 10 ** (kind.scale - constant.type.scale)
