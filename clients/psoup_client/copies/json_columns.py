"""Conversion of a change's rows, columns in JSON, to an Arrow table: `Change.columns_json` in sync.proto."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa


def from_json(raw: bytes, schema: pa.Schema, differences: int) -> pa.Table:
    """Build the table.

    The first `differences` columns are delta encoded: each value is a difference to the one before.
    """
    columns = json.loads(raw) if raw else [[] for _ in schema]
    arrays = []
    for place, (field, values) in enumerate(zip(schema, columns, strict=True)):
        if place < differences:
            sums = np.cumsum(np.array(values, np.int64), dtype=np.int64)
            arrays.append(pa.array(sums).cast(field.type))
        else:
            arrays.append(_array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(kind):
        return pa.array([None if value is None else Decimal(value) for value in values], kind)
    if pa.types.is_floating(kind):
        return pa.array([None if value is None else float(value) for value in values], kind)
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind):
        integers = [int(value) if isinstance(value, str) else value for value in values]
        stored = pa.int32() if pa.types.is_date32(kind) else pa.int64()
        return pa.array(integers, stored).cast(kind)
    return pa.array(values, kind)
