"""Rows of a copy without tuple IDs, identified by their positions in the answer: some leave, move, or are inserted.

rows     a b c d e      removed 1 3      places 2 4      new x f
after    a c x e f      a, c, e stay, at the positions 0, 1, 3 that no new row takes
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from psoup_proto.v1 import sync_pb2

Positions: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]


def positions(change: sync_pb2.Change, rows: int) -> tuple[Positions, Positions, Positions]:
    """Return three arrays of positions for a copy of `rows` rows.

    They are the old positions of the rows that stay, ascending; the new positions of these rows; and the positions of
    the new rows, ascending.
    """
    stays, pairs = ~_inside(change.removed, rows), np.array(change.moved, np.int64).reshape(-1, 2).cumsum(axis=0)
    stay = np.flatnonzero(stays)
    comes = _inside(change.places, len(stay) + change.rows)
    places, free = np.flatnonzero(comes), ~comes
    stays[pairs[:, 0]] = free[pairs[:, 1]] = False
    after = np.zeros(rows, np.int64)
    after[stays] = np.flatnonzero(free)
    after[pairs[:, 0]] = pairs[:, 1]
    return stay, after[stay], places


def placed(rows: pa.Table, new: pa.Table, change: sync_pb2.Change) -> pa.Table:
    """Build the rows after a change, with the new rows at their positions."""
    stay, after, places = positions(change, rows.num_rows)
    order = np.empty(len(after) + len(places), np.int64)
    order[after], order[places] = stay, np.arange(rows.num_rows, rows.num_rows + len(places))
    return pa.concat_tables([rows, new]).combine_chunks().take(pa.array(order))


def _inside(differences: Sequence[int], count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Return a mask of the positions below `count` inside intervals. Their ends are given as differences."""
    ends = np.fromiter(accumulate(differences), np.int64, len(differences))
    return np.asarray(np.searchsorted(ends, np.arange(count), "right") % 2 == 1)
