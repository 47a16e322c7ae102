"""Rows of a copy without tuple IDs, identified by their positions in the answer: some leave, move, or come between.

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
    """Places of rows in a copy of `rows` rows: rows that stay, ascending; their new places; places of the new rows,
    ascending.
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
    """The rows after a change: those that stay, and the new ones between them."""
    stay, after, places = positions(change, rows.num_rows)
    order = np.empty(len(after) + len(places), np.int64)
    order[after], order[places] = stay, np.arange(rows.num_rows, rows.num_rows + len(places))
    return pa.concat_tables([rows, new]).combine_chunks().take(pa.array(order))


def _inside(differences: Sequence[int], count: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """A mask of the positions up to `count` that are in intervals, whose ends are given as differences."""
    ends = np.fromiter(accumulate(differences), np.int64, len(differences))
    return np.asarray(np.searchsorted(ends, np.arange(count), "right") % 2 == 1)
