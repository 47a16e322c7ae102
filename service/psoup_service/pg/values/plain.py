"""Columns in Arrow as lists of plain Python values, as `texts` and `binary` take them.

timestamp("ns", tz="UTC") ──TIMESTAMPTZ──> [(1714557600000000, 7200), None]      microseconds, the zone's offset
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from psoup_service.pg.values import types
from psoup_service.pg.values.zones import UTC, Zone

_INTS = {types.TIME: pa.int64(), types.DATE: pa.int32(), types.TIMESTAMP: pa.int64(), types.TIMESTAMPTZ: pa.int64()}
_WHOLE = {types.INT2, types.INT4, types.INT8, types.OID}
_FORMS = {
    types.TIME: pa.time64("us"),
    types.DATE: pa.date32(),
    types.TIMESTAMP: pa.timestamp("us"),
    types.TIMESTAMPTZ: pa.timestamp("us", tz="UTC"),
}


def plain_values(column: pa.Array, oid: int, zone: Zone = UTC) -> list[Any]:
    """The values of a column for a type. O(n), some 100 ns a value."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if oid in types.ELEMENTS:
        return _lists(column, types.ELEMENTS[oid], zone)
    if oid in _FORMS and not pa.types.is_null(column.type):
        return _times(column, oid, zone)
    values: list[Any] = column.to_pylist()
    if oid == types.NUMERIC:
        return [None if value is None else Decimal(value) for value in values]
    if oid in _WHOLE:
        return [None if value is None else int(value) for value in values]
    if oid == types.BOOL:
        return [None if value is None else bool(value) for value in values]
    if oid in (types.FLOAT4, types.FLOAT8):
        return [None if value is None else float(value) for value in values]
    return values


def _times(column: pa.Array, oid: int, zone: Zone) -> list[Any]:
    if not pa.types.is_integer(column.type):
        column = column.cast(_FORMS[oid], safe=False).cast(_INTS[oid])
    values: list[Any] = column.to_pylist()
    if oid != types.TIMESTAMPTZ:
        return values
    offsets = zone.offsets(np.array([value or 0 for value in values], np.int64)).tolist()
    return [None if value is None else (value, offset) for value, offset in zip(values, offsets, strict=True)]


def _lists(column: pa.Array, element: int, zone: Zone) -> list[Any]:
    rows = list[Any]()
    for item in column:
        values = getattr(item, "values", None)
        if values is None or not item.is_valid:
            rows.append(None)
        elif pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
            rows.append(_lists(values, element, zone))
        else:
            rows.append(plain_values(values, element, zone))
    return rows
