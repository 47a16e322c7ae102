"""The rows of a copy by their tuple IDs: the rows that stay after a change, and their order.

_id1 _id2  …            keep  [4, 13) [0, 9)      new rows
3    8                  leaves, as 3 is outside   sorted in among the rows that stay, by all their tuple IDs
5    2                  stays
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from psoup_proto.v1 import sync_pb2

_HIDDEN = 2
"""The number of hidden columns before the answer's own columns, for one source: `_id` and `_time`."""


def hidden_columns(form: sync_pb2.CopyForm) -> int:
    """Return the number of hidden columns before the answer's: the tuple IDs, and `_time`.

    A join has `_time` only if its rows leave a sliding window.
    """
    if form.whole:
        return 0
    return form.id_columns + form.HasField("width") if form.id_columns > 1 else _HIDDEN


def staying(table: pa.Table, form: sync_pb2.CopyForm, keep: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Return a mask of the rows that stay. Their tuple ID is in an interval of `keep`.

    A joined row stays if each tuple ID is in the interval of its column.
    """
    ends = np.fromiter(accumulate(keep), np.int64, len(keep))
    if form.id_columns <= 1:
        inside: npt.NDArray[np.bool_] = np.searchsorted(ends, table.column(0).to_numpy(), "right") % 2 == 1
        return inside
    stays = np.full(table.num_rows, len(ends) > 0)
    for column, (low, high) in zip(table.columns, ends.reshape(-1, 2), strict=False):
        stays &= (column.to_numpy() >= low) & (column.to_numpy() < high)
    return stays


def in_order(table: pa.Table, id_columns: int) -> pa.Table:
    """Sort the rows by their tuple IDs, which are the first columns."""
    ids = [column.to_numpy() for column in table.columns[:id_columns]]
    numbers = ids[0] if id_columns == 1 or not len(table) else _numbered(ids)
    if numbers is None:
        return table.take(pa.array(np.lexsort(ids[::-1])))
    if bool((numbers[1:] > numbers[:-1]).all()):
        return table
    return table.take(pa.array(np.argsort(numbers, kind="stable")))  # fast, because most rows are in order already


def _numbered(ids: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64] | None:
    """Return an integer for each row, in the order of its tuple IDs. Returns None if the integers need over 63 bits."""
    numbers, room = np.zeros(len(ids[0]), np.int64), 1
    for column in ids:
        low, high = int(column.min()), int(column.max())
        room *= high - low + 1
        if room >= 2**63:
            return None
        numbers = numbers * (high - low + 1) + (column - low)
    return numbers


def order_of(columns: Sequence[pa.ChunkedArray], keys: Sequence[sync_pb2.SortKey]) -> pa.Array:
    """Return the order of rows by some keys. NaN is the greatest number; rows with equal keys keep their order."""
    order = pa.array(np.arange(len(columns[0])))
    for column, key in reversed(list(zip(columns, keys, strict=True))):
        direction = "descending" if key.descending else "ascending"
        passes = [(column, direction)]
        if pa.types.is_floating(column.type):
            passes.append((pc.fill_null(pc.is_nan(column), False).cast(pa.int8()), direction))
        passes.append((pc.is_null(column).cast(pa.int8()), "descending" if key.nulls_first else "ascending"))
        for values, way in passes:
            order = order.take(pc.sort_indices(values.take(order), sort_keys=[("", way)]))
    return order
