"""Conversions of values to the type of a column, by the rules of assignments in PostgreSQL.

2.5 ──> BIGINT 2     '7' ──> DOUBLE 7.0     1.005 ──> DECIMAL(6, 2) 1.01     true ──> BIGINT: refused
"""

from __future__ import annotations

from datetime import timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import numpy as np

from psoup.errors import InvalidInput
from psoup.model import Attribute
from psoup_service.pg.values import types
from psoup_service.pg.values.readers import read_text
from psoup_service.pg.values.texts import text_of
from psoup_service.pg.values.to_arrow import fitted
from psoup_service.pg.values.zones import Zone

_TIMES = (types.TIMESTAMP, types.TIMESTAMPTZ, types.DATE)
_DAY = timedelta(days=1) // timedelta(microseconds=1)


def assigned(value: Any, kind: int, attribute: Attribute, zone: Zone) -> Any:
    """Convert a plain value to the type of a column. `kind`: the OID of the value's type.

    Raises InvalidInput and OutOfRange.
    """
    oid = types.type_of(attribute.type)[0]
    assigned_value = converted(value, kind, oid, zone)
    if oid == types.NUMERIC and assigned_value is not None:
        return fitted(assigned_value, attribute.type.precision, attribute.type.scale)
    return assigned_value


def converted(value: Any, kind: int, oid: int, zone: Zone) -> Any:
    """Convert a plain value to another type. Raises InvalidInput if PostgreSQL has no such assignment."""
    if value is None or kind == oid:
        return value
    if isinstance(value, str):
        return read_text(oid, value, zone)
    if oid == types.TEXT_OID and isinstance(value, bool | int | float | Decimal) and kind not in _TIMES:
        return str(value).lower() if isinstance(value, bool) else str(value)
    if oid == types.TEXT_OID and kind in _TIMES:
        return _text(value, kind, zone)
    if kind in _TIMES and oid in _TIMES:
        return _time(value, kind, oid, zone)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool) and kind not in _TIMES:
        try:
            if oid == types.INT8:
                return int(Decimal(value).to_integral_value(ROUND_HALF_EVEN))
            if oid == types.FLOAT8:
                return float(value)
            if oid == types.NUMERIC:
                return Decimal(repr(value) if isinstance(value, float) else value)
        except (ArithmeticError, ValueError):
            raise InvalidInput(f"{value} is out of range for type {types.type_name(oid)}", reason="RANGE") from None
    raise InvalidInput(
        f"the column is of type {types.type_name(oid)} but the value is of type {types.type_name(kind)}",
        reason="DATATYPE_MISMATCH",
    )


def _text(value: int, kind: int, zone: Zone) -> str:
    """A time as text. A TIMESTAMPTZ is written in the zone."""
    if kind == types.TIMESTAMPTZ:
        return text_of(kind)((value, int(zone.offsets(np.array([value], np.int64))[0]))).decode()
    return text_of(kind)(value).decode()


def _time(value: int, kind: int, oid: int, zone: Zone) -> int:
    """A time as another type of time. The zone says which day and which local time an instant has."""
    if kind == types.TIMESTAMPTZ:
        local = zone.local(value)
    else:
        local = value * _DAY if kind == types.DATE else value
    if oid == types.DATE:
        return local // _DAY
    return local if oid == types.TIMESTAMP else zone.instant(local)
