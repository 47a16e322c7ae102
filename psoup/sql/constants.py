"""Numbers and intervals as they are written, and the values they stand for.

    12 BIGINT · 1.50 DECIMAL(3,2) · 1e3 DOUBLE · INTERVAL '1' DAY = (0 months, 86,400,000,000 microseconds)

As in DuckDB, but with DECIMAL held to 18 digits: a longer constant is a DOUBLE.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation

from sqlglot import exp

from psoup.expressions.tree import Literal
from psoup.model import BIGINT, DOUBLE, MAX_DECIMAL_PRECISION, decimal
from psoup.plan.window_text import UNITS
from psoup.sql.source import Place, StatementText, nearest
from psoup.sql.types import unit_name

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1_200}
_INT64 = 2**63


def number(source: StatementText, text: str, at: Place) -> Literal:
    """The literal of a number, with its sign. O(length)."""
    digits = text.replace("_", "").lstrip("-")
    negative = text.startswith("-")
    if "e" in digits.lower():
        return _double(source, digits, negative, at)
    whole, _, fraction = digits.partition(".")
    if "." not in digits and len(whole.lstrip("0")) <= 19:
        value = -int(whole) if negative else int(whole)
        if -_INT64 <= value < _INT64:
            return Literal(BIGINT, value)
    precision = len(whole) + len(fraction)
    if "." not in digits or precision > MAX_DECIMAL_PRECISION:
        return _double(source, digits, negative, at)
    scaled = int(whole + fraction)
    return Literal(decimal(precision, len(fraction)), -scaled if negative else scaled)


def _double(source: StatementText, digits: str, negative: bool, at: Place) -> Literal:
    try:
        value = float(digits)
    except ValueError:
        raise source.error(f"{digits[:40]!r} is not a number", at) from None
    if math.isinf(value):
        raise source.error(f"{digits[:40]} is too large for a DOUBLE", at, hint="CAST('inf' AS DOUBLE) is infinity")
    return Literal(DOUBLE, -value if negative else value)


def interval(source: StatementText, node: exp.Expr) -> tuple[int, int]:
    """An exp.Interval as months and microseconds."""
    at, amount, unit = node, node.this, node.args.get("unit")
    sign = 1
    while isinstance(amount, exp.Neg | exp.Paren):
        sign = -sign if isinstance(amount, exp.Neg) else sign
        amount = amount.this
    if not isinstance(amount, exp.Literal) or not isinstance(unit, exp.Var):
        raise source.error("an INTERVAL needs a constant and one unit, as in INTERVAL '15' MINUTE", at)
    name = unit_name(unit.name)
    name = {"CENTURIE": "CENTURY"}.get(name, name)
    if name not in UNITS and name not in _MONTHS:
        hint = nearest(name, [*UNITS, *_MONTHS])
        raise source.error(f"{unit.name!r} is not a unit of time", at, hint=hint)
    try:
        count = Decimal(str(amount.this).strip()) * sign
    except InvalidOperation:
        raise source.error(f"{str(amount.this)[:40]!r} is not a number", at) from None
    if not count.is_finite() or count.adjusted() > 18 or count.as_tuple().exponent < -18:  # type: ignore[operator]
        raise source.error(f"INTERVAL {str(amount.this)[:40]} is out of range", at)
    total = count * (_MONTHS[name] if name in _MONTHS else UNITS[name])
    if total != int(total) or abs(total) >= _INT64:
        raise source.error(f"INTERVAL {amount.this} {unit.name} is not a whole number of microseconds or months", at)
    return (int(total), 0) if name in _MONTHS else (0, int(total))
