"""Indexes of clauses that readers evaluate: idle ones, and those that have not met a chunk.

    clauses ── pieces_of ──> 16,384 clauses or fewer ── index_of ──> an index that a reader left, or another

An index is kept for the next reader within a limit of bytes.
"""

from __future__ import annotations

import numpy as np

from psoup.clauses.sides import Subset
from psoup.execution.select.many_matches import ClauseIndex, clauses_with_places
from psoup.published.snapshot import Snapshot, StreamView
from psoup.values.columns import Array

_TOGETHER = 16_384
"""The most clauses of an index. One of them is built between two checks of a budget."""


def pieces_of(sqc_ids: Array, *, from_end: bool = False) -> list[Array]:
    """Some clauses (int64[k], ascending), divided for indexes of them. Each piece has at least one.

    `from_end`: the first piece is the short one. So the rest stays while clauses leave in the order of their IDs.
    """
    start = len(sqc_ids) % _TOGETHER if from_end else _TOGETHER
    pieces = np.split(sqc_ids, range(start, len(sqc_ids), _TOGETHER))
    return [piece for piece in pieces if len(piece)]


def index_of(snapshot: Snapshot, view: StreamView, ids: Array) -> Subset:
    """An index of some clauses of a stream (SQC IDs, int64[k], k > 0, ascending), in slots from 0 on.

    O(k) if a reader has left it (`psoup.published.kept_indexes`), else O(k log k).
    """
    schema, indexes = view.spec.schema, view.room.indexes
    index = indexes.of(schema, ids)
    if index is None:
        index = ClauseIndex(snapshot, view, clauses_with_places(snapshot, ids)).subset
        indexes.keep(schema, ids, index, snapshot.clauses)
    return index
