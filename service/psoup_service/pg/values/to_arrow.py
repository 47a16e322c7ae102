"""Converts plain values of clients to arrays in Arrow, of the types that PSoup takes.

[1714557600000000] ──TIMESTAMPTZ──> timestamp("us", tz="UTC")[1]     Decimal("1.50") ──> decimal128(3, 2)
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

import pyarrow as pa

from psoup.errors import OutOfRange
from psoup.model import MAX_WIDE_PRECISION
from psoup_service.pg.values import types

_TIMES = {types.TIMESTAMP, types.TIMESTAMPTZ}
_CONTEXT = Context(prec=4_000, rounding=ROUND_HALF_UP)


def array_of(values: Sequence[Any], oid: int, kind: pa.DataType) -> pa.Array:
    """The array of plain values of a type. `kind`: the type in Arrow."""
    if oid in _TIMES:
        return pa.array(values, pa.int64()).cast(pa.timestamp("us")).cast(kind)
    if oid == types.DATE:
        return pa.array(values, pa.int32()).cast(kind)
    return pa.array(values, kind)


def fitted(value: Decimal, precision: int, scale: int) -> Decimal:
    """A number rounded to a scale. Raises OutOfRange if it has more digits than the precision allows."""
    try:
        rounded = value.quantize(Decimal(1).scaleb(-scale), context=_CONTEXT)
    except InvalidOperation:
        rounded = value
    if not rounded.is_finite() or len(rounded.as_tuple().digits) > precision:
        raise OutOfRange(
            f"numeric field overflow: a field with precision {precision}, scale {scale} cannot hold {value:.20}"
        )
    return rounded


def decimal_type(value: Decimal) -> pa.DataType | None:
    """The type of Arrow that holds a number exactly; None if PSoup's DECIMAL does not."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        return None
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    return pa.decimal128(precision, scale) if precision <= MAX_WIDE_PRECISION else None
