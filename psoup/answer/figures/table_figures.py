"""Figures of all tables of a snapshot: how many there are, their entries, and the rows that hold."""

from __future__ import annotations

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.versions import versions_of
from psoup.model import DELETED_AT
from psoup.published.snapshot import Snapshot, StreamView


def table_figures(snapshot: Snapshot) -> dict[str, int]:
    """The number of tables, of their versions and deletions, and of the rows that hold. O(versions in memory)."""
    views = [view for view in snapshot.by_id.values() if view.spec.table is not None]
    return {
        "tables": len(views),
        "table_versions": sum(view.left.between(view.first_id, view.next_id) for view in views),
        "table_rows": sum(map(_rows, views)),
    }


def _rows(view: StreamView) -> int:
    chunks = [entry.data for entry in view.chunks if entry.data.in_memory]
    return sum(_rows_of(chunk, view.next_id) for chunk in chunks)


def _rows_of(chunk: Chunk, next_id: int) -> int:
    """The number of versions in a chunk that no entry before `next_id` has ended."""
    successors = versions_of(chunk).successors[: len(chunk)]
    holds = (successors == 0) | (successors >= next_id)
    return int(np.count_nonzero(holds & ~chunk.columns[DELETED_AT].values))
