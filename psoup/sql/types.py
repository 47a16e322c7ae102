"""The names of types and of time units, and the values of number and INTERVAL constants.

    BOOLEAN BOOL · BIGINT INT INTEGER SMALLINT TINYINT · DOUBLE FLOAT REAL · DECIMAL NUMERIC
    TEXT VARCHAR CHAR STRING · TIMESTAMP DATETIME · DATE

    12 BIGINT · 1.50 DECIMAL(3,2) · 1e3 DOUBLE · INTERVAL '1' DAY = (0 months, 86,400,000,000 microseconds)

Narrow integers become BIGINT, and FLOAT and REAL become DOUBLE. Like DuckDB, PSoup does not enforce the length of a
VARCHAR. New streams may not have such types (`vague`). A DECIMAL has at most 18 digits. A constant with more digits
(without zeros at its end) is a `LongNumber`. Comparisons use its exact value, and all other functions the nearest
DOUBLE.
"""

from __future__ import annotations

import math
from decimal import Context, Decimal, InvalidOperation

from sqlglot import exp

from psoup.errors import SqlError
from psoup.expressions.numbers.long_numbers import MOST_PLACES, exact_number
from psoup.expressions.tree import Literal
from psoup.model import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    MAX_DECIMAL_PRECISION,
    TEXT,
    TIMESTAMP,
    DataType,
    decimal,
)
from psoup.plan.canonical import UNITS
from psoup.sql.source import Place, StatementText, nearest

_MONTHS = {"MONTH": 1, "QUARTER": 3, "YEAR": 12, "DECADE": 120, "CENTURY": 1_200}
_INT64 = 2**63
_SHORT = MAX_DECIMAL_PRECISION + 1
"""The most characters of a number with a point whose type keeps all its decimal places, zeros too."""
_INTERVAL_DIGITS = 64
_EXACT = Context(prec=_INTERVAL_DIGITS)
_MAX_WHOLE_DIGITS = 309
"""The number of digits before the point of the greatest DOUBLE."""


def number(source: StatementText, text: str, at: Place) -> Literal:
    """The literal of a number. `text`: the number with its sign. O(length). Raises SqlError."""
    digits = text.replace("_", "").lstrip("-")
    negative = text.startswith("-")
    if "e" in digits.lower():
        return _double(source, digits, negative, at)
    whole, _, fraction = digits.partition(".")
    if "." not in digits and len(whole.lstrip("0")) <= 19:
        value = -int(whole) if negative else int(whole)
        if -_INT64 <= value < _INT64:
            return Literal(BIGINT, value)
    if "." in digits:
        whole, fraction = whole.lstrip("0") or whole[:1], fraction if len(digits) <= _SHORT else fraction.rstrip("0")
    precision = len(whole) + len(fraction)
    if "." not in digits or precision > MAX_DECIMAL_PRECISION:
        return _long(source, whole.lstrip("0"), fraction or "0" * ("." in digits), negative, at)
    scaled = int(whole + fraction)
    return Literal(decimal(precision, len(fraction)), -scaled if negative else scaled)


def _long(source: StatementText, whole: str, fraction: str, negative: bool, at: Place) -> Literal:
    """The literal of a number with too many digits for BIGINT and DECIMAL."""
    if len(whole) > _MAX_WHOLE_DIGITS:
        raise _too_large(source, whole, at)
    if len(fraction) > MOST_PLACES:  # no other number lies between this one and the shorter one
        fraction = fraction[:MOST_PLACES] + "1"
    digits = int(whole + fraction)
    try:
        return exact_number(-digits if negative else digits, len(fraction), min(len(fraction), 1))
    except OverflowError:
        raise _too_large(source, whole, at) from None


def _too_large(source: StatementText, digits: str, at: Place) -> SqlError:
    return source.error(f"{digits[:40]} is too large for a DOUBLE", at, hint="CAST('inf' AS DOUBLE) is infinity")


def _double(source: StatementText, digits: str, negative: bool, at: Place) -> Literal:
    try:
        value = float(digits)
    except ValueError:
        raise source.error(f"{digits[:40]!r} is not a number", at) from None
    if math.isinf(value):
        raise _too_large(source, digits, at)
    return Literal(DOUBLE, -value if negative else value)


def interval(source: StatementText, node: exp.Expr) -> tuple[int, int]:
    """The months and the microseconds of an `exp.Interval`. Raises SqlError."""
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
    if count.is_finite() and len(count.as_tuple().digits) <= _INTERVAL_DIGITS:
        count = count.normalize(_EXACT)
    if not count.is_finite() or count.adjusted() > 18 or count.as_tuple().exponent < -18:  # type: ignore[operator]
        raise source.error(f"INTERVAL {str(amount.this)[:40]} is out of range", at)
    total = count * (_MONTHS[name] if name in _MONTHS else UNITS[name])
    if total != int(total) or abs(total) >= _INT64:
        raise source.error(f"INTERVAL {amount.this} {unit.name} is not a whole number of microseconds or months", at)
    return (int(total), 0) if name in _MONTHS else (0, int(total))


_T = exp.DataType.Type
_TYPES: dict[exp.DType, DataType] = {
    _T.BOOLEAN: BOOLEAN,
    _T.BIGINT: BIGINT,
    _T.INT: BIGINT,
    _T.MEDIUMINT: BIGINT,
    _T.SMALLINT: BIGINT,
    _T.TINYINT: BIGINT,
    _T.DOUBLE: DOUBLE,
    _T.FLOAT: DOUBLE,
    _T.TEXT: TEXT,
    _T.VARCHAR: TEXT,
    _T.CHAR: TEXT,
    _T.TIMESTAMP: TIMESTAMP,
    _T.TIMESTAMPNTZ: TIMESTAMP,
    _T.DATETIME: TIMESTAMP,
    _T.TIMESTAMPTZ: TIMESTAMP,
    _T.DATE: DATE,
}
_BITS = {_T.TINYINT: 8, _T.SMALLINT: 16, _T.INT: 32, _T.MEDIUMINT: 32}
_DECIMALS = frozenset({_T.DECIMAL})
_WITH_LENGTH = frozenset({_T.VARCHAR, _T.CHAR, _T.TEXT})
KNOWN = "BOOLEAN, BIGINT, DOUBLE, DECIMAL(p, s), TEXT, TIMESTAMP and DATE"


def bits_of(node: exp.Expr) -> int:
    """The number of bits of a narrow integer type, 0 for other types."""
    return _BITS.get(node.this, 0)


def unit_name(word: str) -> str:
    """The singular name of a unit of time, in upper case. An unknown unit also gets such a name."""
    word = word.upper()
    return word[:-1] if word.endswith("S") else word


def data_type(source: StatementText, node: exp.Expr, digits: int = MAX_DECIMAL_PRECISION) -> DataType:
    """The type of `node` (an exp.DataType), a DECIMAL with at most `digits` digits. Raises NotSupported for other
    types."""
    kind = node.this
    params = [param.this for param in node.expressions]
    at = node
    if kind in _DECIMALS:
        return _decimal(source, params, at, digits)
    known_type = _TYPES.get(kind) if isinstance(node, exp.DataType) else None
    if known_type is None or node.args.get("nested"):
        raise source.unsupported(f"the type {source.written(node)}", at, hint=f"the types are {KNOWN}")
    if params and kind not in _WITH_LENGTH:
        raise source.error(f"{known_type} takes no length", at)
    return known_type


def _decimal(source: StatementText, params: list[exp.Expr], at: Place, digits: int) -> DataType:
    """The DECIMAL type with these parameters. DECIMAL means DECIMAL(18, 3), and DECIMAL(p) means DECIMAL(p, 0), as
    in DuckDB."""
    if not all(isinstance(p, exp.Literal) and not p.is_string and str(p.this).isdecimal() for p in params):
        raise source.error("DECIMAL takes two whole numbers: its digits, and those after the point", at)
    sizes = [int(str(param.this)[:9]) for param in params]
    precision, scale = [*sizes, 0][:2] if sizes else (MAX_DECIMAL_PRECISION, 3)
    if len(sizes) > 2 or not 1 <= precision <= digits or not 0 <= scale <= precision:
        shown = ", ".join(str(size) for size in sizes)
        raise source.error(
            f"DECIMAL({shown}) is out of range", at, hint=f"DECIMAL(p, s) needs 1 <= p <= {digits} and 0 <= s <= p"
        )
    return decimal(precision, scale)
