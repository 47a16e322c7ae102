"""The rows of a chunk that a reader of a view sees: in a table, the versions that hold at the view's time."""

from __future__ import annotations

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
