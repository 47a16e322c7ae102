"""The rows of a table's chunk that may leave it, because no answer within HISTORY needs them.

    version          may leave once HISTORY has passed its end
    deletion         as a version, if the key has come back; else once it is forgotten (`TableSpec.remembered`) and no
                     other entry of its key is left, as a start would take that entry for the present row
    present version  never

A row leaves only if the entry that ends it is stored. After a crash the log gives the later entries again, and they
must find the same entries before them. A follower still needs the version before each entry that it is to be told of.
"""

from __future__ import annotations

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.newest_versions import NewestVersions
from psoup.data.thinning import THIN_SHARE
from psoup.data.versions import times_of, versions_of
from psoup.model import DELETED_AT, TableSpec
from psoup.values.columns import Array

NEVER = 2**63 - 1
"""The edge of HISTORY from which a present version may leave."""
_AGAIN_SHARE = 2
"""A thinned chunk is thinned again if at most one row in `_AGAIN_SHARE` of its rows stays."""


def most_left(chunk: Chunk) -> int:
    """The most rows that may stay in a chunk for which thinning is worth its cost."""
    if chunk.places.left is None:
        return chunk.places.count // THIN_SHARE
    return len(chunk) // _AGAIN_SHARE


def lost_from(chunk: Chunk, table: TableSpec) -> Array:
    """For each row, the least edge of HISTORY with which it may leave, int64[n]. O(rows)."""
    versions, rows = versions_of(chunk), len(chunk)
    edges: Array = np.where(versions.successors[:rows] > 0, versions.ends[:rows] + 1, NEVER)
    deleted = np.flatnonzero(chunk.columns[DELETED_AT].values & (edges == NEVER))
    edges[deleted] = times_of(chunk, table)[deleted] + (table.remembered - table.history) + 1
    return edges


def worth_from(chunk: Chunk, table: TableSpec) -> int:
    """The least edge of HISTORY with which thinning a chunk may be worth its cost. O(rows), or O(1)."""
    leave = len(chunk) - most_left(chunk)
    if not leave:
        return NEVER
    versions = versions_of(chunk)
    if versions.deletions < 0:
        versions.deletions = int(np.count_nonzero(chunk.columns[DELETED_AT].values))
    if versions.ended + versions.deletions < leave:
        return NEVER
    return int(np.partition(lost_from(chunk, table), leave - 1)[leave - 1])


def rows_to_keep(chunk: Chunk, table: TableSpec, newest: NewestVersions, edge: int, settled_id: int) -> Array:
    """The rows that must stay in a chunk, int64, ascending. `edge`: of HISTORY. O(rows).

    `settled_id`: all entries with smaller IDs are stored, and no follower is still to be told of them.
    """
    successors = versions_of(chunk).successors[: len(chunk)]
    lost: Array = (lost_from(chunk, table) <= edge) & (successors < settled_id)
    lost &= (successors > 0) | (chunk.ids_of(0, len(chunk)) < settled_id)
    last = np.flatnonzero(lost & (successors == 0))
    if len(last):
        entries = newest.count([c.take(last) if place in table.key else c for place, c in enumerate(chunk.columns)])
        lost[last[entries > 1]] = False
    return np.flatnonzero(~lost)
