"""Figures of the tables of a snapshot, together and one by one: their entries, and the rows that hold."""

from __future__ import annotations

from heapq import nlargest
from typing import NamedTuple

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.versions import versions_of
from psoup.model import DELETED_AT
from psoup.published.snapshot import Snapshot, StreamView

NAMED_TABLES = 100
"""The most tables that have figures of their own."""


class TableFigures(NamedTuple):
    """The size of a table. `keys`: rows that hold, one for each key. `entries`: all kept versions and deletions."""

    tenant: str
    table: str
    keys: int
    entries: int


def table_figures(snapshot: Snapshot) -> dict[str, int]:
    """The number of tables, of their versions and deletions, and of the rows that hold. O(versions in memory)."""
    views = [view for view in snapshot.by_id.values() if view.spec.table is not None]
    return {
        "tables": len(views),
        "table_versions": sum(map(_entries, views)),
        "table_rows": sum(map(_rows, views)),
    }


def figures_by_table(snapshot: Snapshot) -> list[TableFigures]:
    """The sizes of the `NAMED_TABLES` tables with the most entries, by tenant and name. O(versions in memory)."""
    views = [view for view in snapshot.by_id.values() if view.spec.table is not None]
    largest = nlargest(NAMED_TABLES, views, _entries)
    return sorted(TableFigures(view.tenant, view.spec.name, _rows(view), _entries(view)) for view in largest)


def _entries(view: StreamView) -> int:
    return view.left.between(view.first_id, view.next_id)


def _rows(view: StreamView) -> int:
    chunks = [entry.data for entry in view.chunks if entry.data.in_memory]
    return sum(_rows_of(chunk, view.next_id) for chunk in chunks)


def _rows_of(chunk: Chunk, next_id: int) -> int:
    """The number of versions in a chunk that no entry before `next_id` has ended."""
    successors = versions_of(chunk).successors[: len(chunk)]
    holds = (successors == 0) | (successors >= next_id)
    return int(np.count_nonzero(holds & ~chunk.columns[DELETED_AT].values))
