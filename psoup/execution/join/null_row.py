"""A row whose columns are all NULL, in the form of kernels: the tuple that a row of an outer join is missing.

    chunks of a side   4 5 6 | null row        one more chunk, with one row
    position           -1  ──> rows of the side     code   ──> chunks of the side << 16

Kernels that gather columns then need no rule for missing tuples.
"""

from __future__ import annotations

import numpy as np

from psoup.execution.join.join_batch import SideMemory
from psoup.kernels.rows.batch_body import PARTS
from psoup.values.columns import Array, address_of

_ZEROS: Array = np.zeros(4, np.int64)
"""The values, the validity and the ends of texts of the null row."""


class NullRowMemory(SideMemory):
    """The rows of a side, and the null row as their last one."""

    __slots__ = ("_side",)

    def __init__(self, side: SideMemory) -> None:
        self._side = side  # it keeps the chunks alive
        self.rows = np.append(side.rows, np.int32(0))
        self.stops = np.append(side.stops, len(side.rows) + 1)
        self.sources = np.concatenate([side.sources, null_part(side.stride)])
        self.stride = side.stride
        self.known = {}

    def at(self, positions: Array) -> Array:
        """The positions with the null row in place of MISSING."""
        return np.where(positions < 0, positions.dtype.type(len(self.rows) - 1), positions)


def null_part(stride: int) -> Array:
    """The addresses of the columns of the null row. Its tuple ID is the number 0, not an address."""
    part: Array = np.zeros((stride // PARTS, PARTS), np.int64)
    part[:, :2] = address_of(_ZEROS)
    part[-1, 0] = 0
    return part.reshape(-1)
