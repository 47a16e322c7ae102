"""The rows of an answer at the last notification, to count the rows that leave.

Where rows have tuple IDs, the IDs are kept, and a change says which intervals of IDs stay. For other answers only the
number of rows is kept, and a change says how many leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from psoup_proto.v1 import sync_pb2
from psoup_service.pg.account import Account

_Ids = npt.NDArray[np.int64]


class HeldIds:
    """The rows of one answer. `account`: is charged for their tuple IDs."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._schema: pa.Schema | None = None
        self._columns = list[_Ids]()
        self._whole = False
        self._charged = 0
        self.count = 0
        """The number of rows."""

    def apply(self, change: sync_pb2.Change) -> tuple[int, int]:
        """Apply a change. Returns the numbers of rows that came and left. Raises ResourceExhausted without room."""
        if change.reset:
            left = self.count
            self.clear()
            self._whole = change.form.whole
            self._schema = pa.ipc.read_schema(pa.py_buffer(change.form.schema_ipc))
            self._columns = [np.zeros(0, np.int64)] * (0 if self._whole else max(change.form.id_columns, 1))
        elif change.token:
            left = self._drop(change)
        else:
            left = 0
        self._add(change)
        return change.rows, left

    def clear(self) -> None:
        """Forget all rows."""
        self._account.give_back(self._charged)
        self._charged = self.count = 0
        self._columns = []

    def _drop(self, change: sync_pb2.Change) -> int:
        if self._whole:
            ends = list(accumulate(change.removed))
            left = sum(ends[1::2]) - sum(ends[::2])
            self.count -= left
            return left
        stays = _staying(self._columns, np.fromiter(accumulate(change.keep), np.int64, len(change.keep)))
        left = self.count - int(stays.sum())
        if left:
            self._columns = [column[stays] for column in self._columns]
            self.count -= left
            self._charge()
        return left

    def _add(self, change: sync_pb2.Change) -> None:
        self.count += change.rows
        if self._whole or not change.rows:
            return
        batches = [pa.ipc.read_record_batch(pa.py_buffer(raw), self._schema) for raw in change.batches]
        self._columns = [
            np.concatenate([column, *(batch.column(place).to_numpy() for batch in batches)])
            for place, column in enumerate(self._columns)
        ]
        self._charge()

    def _charge(self) -> None:
        size = sum(column.nbytes for column in self._columns)
        if size > self._charged:
            self._account.add(size - self._charged)
        else:
            self._account.give_back(self._charged - size)
        self._charged = size


def _staying(columns: Sequence[_Ids], ends: _Ids) -> npt.NDArray[np.bool_]:
    """The rows that stay, bool[n]: those with their ID in any interval, if there is one column.

    With several columns, each has one interval, and all IDs of a row must be in theirs.
    """
    if len(columns) == 1:
        inside: npt.NDArray[np.bool_] = np.searchsorted(ends, columns[0], "right") % 2 == 1
        return inside
    stays = np.full(len(columns[0]), len(ends) > 0)
    for column, (low, high) in zip(columns, ends.reshape(-1, 2), strict=False):
        stays &= (column >= low) & (column < high)
    return stays
