"""ORDER BY and DISTINCT over the columns of one answer.

Every column becomes int64 ranks that order as its values do (NaN greatest, -0.0 = 0.0, text by UTF-8 bytes), NULL
set apart; then rows are sorted or grouped by ranks alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from psoup.columns import Array, Column
from psoup.model import Kind
from psoup.query import OrderKey


def ranks(column: Column) -> Array:
    """int64[n] that order as the values do, equal where they are equal; NULL rows have 0. O(n log n) for TEXT."""
    if column.type.kind is not Kind.TEXT:
        keys = column.order_keys()
        return keys if column.valid is None else np.where(column.valid, keys, 0)
    encoded = pc.dictionary_encode(column.to_arrow())
    order = pc.array_sort_indices(encoded.dictionary.cast(pa.large_binary()))
    rank: Array = np.empty(len(order), np.int64)
    rank[order.to_numpy()] = np.arange(len(order))
    codes = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)
    return rank[codes] if len(rank) else np.zeros(len(column), np.int64)


def sorted_rows(keys: Sequence[Column], order: Sequence[OrderKey], rows: Array) -> Array:
    """`rows` (int64 positions) sorted by the key columns; equal rows keep their order. O(k log k) per key."""
    if not order:
        return rows
    levels = []
    for column, key in zip(keys, order, strict=True):
        rank = ranks(column)[rows]
        nulls = np.zeros(len(rows), np.bool_) if column.valid is None else ~column.valid[rows]
        levels.append(~nulls if key.nulls_first else nulls)
        levels.append(np.where(nulls, 0, ~rank if key.descending else rank))
    return rows[np.lexsort(levels[::-1])]


def distinct_rows(columns: Sequence[Column]) -> Array:
    """The first row of every distinct combination, in the order the rows came, int64. NULLs are equal here."""
    rows = len(columns[0])
    fields = {}
    for number, column in enumerate(columns):
        fields[f"rank{number}"] = pa.array(ranks(column))
        if column.valid is not None:
            fields[f"null{number}"] = pa.array(column.valid)
    table = pa.table({**fields, "row": pa.array(np.arange(rows))})
    groups = table.group_by(list(fields), use_threads=False).aggregate([("row", "min")])
    return np.sort(groups.column("row_min").to_numpy())
