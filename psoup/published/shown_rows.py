"""The rows of a chunk that a reader of a view sees: in a table, the versions that hold at the view's time."""

from __future__ import annotations

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.versions import open_offsets
from psoup.published.snapshot import StreamView
from psoup.values.columns import Array


def shown_rows(view: StreamView, data: Chunk, offsets: Array) -> Array:
    """The rows at `offsets` (int64, ascending) that the reader sees. In a stream these are all. O(offsets)."""
    table = view.spec.table
    if table is None:
        return offsets
    return open_offsets(data, table, offsets, view.at, view.next_id, view.lost_before)


def count_shown(view: StreamView, low: int, high: int) -> int:
    """The number of tuples with IDs in [low, high) that the reader sees. O(1), in a table O(tuples)."""
    if view.spec.table is None:
        return view.left.between(low, high)
    count = 0
    for entry in view.chunks:
        start, stop = entry.data.places.row_from(low), entry.data.places.row_from(high)
        if start < stop:
            count += len(shown_rows(view, entry.data, np.arange(start, stop)))
    return count
