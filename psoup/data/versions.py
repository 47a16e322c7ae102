"""The versions of a table's rows: the next entry of the same key, and the time at which a version ends.

    tuple     key  time   successor  end           entries of one key, in stream order: 0 ─> 2 ─> 3
      0       UA   10         2       30           a version holds in [time, end); the first one from the beginning, if
      1       DL   20         0        -           the table says so
      2       UA   30         3       40
      3       UA   40  deletion                    the entry of a deletion holds at no time

With TIMESTAMP BY the first version of a key may lie below the watermark. Its tuple comes late in stream order, and the
physical IDs follow that order. The column of TIMESTAMP BY has its own time, as for all other entries.

The writer has one hash table from the key to its newest entry. When the next entry of the key
comes, it writes the successor and the end of the version, once. A reader sees an entry only if its ID is below the
reader's `next_id`. So readers need no copies, and the writer never waits for them.

After a start the chunks of the store give the same entries again, in stream order.
"""

from __future__ import annotations

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.chunk_versions import ChunkVersions
from psoup.invariants import corrupt
from psoup.kernels.search import open_versions
from psoup.model import DELETED_AT, FIRST_AT, TableSpec
from psoup.values.columns import Array, plain

LATEST = 2**63 - 2
"""The time of a reader that wants the versions without a successor."""
EVER = 2**63 - 1
"""The time of a reader that wants all versions, but no deletions."""
NOTHING_LOST = -(2**63)
"""The end before which a version counts as lost, for a reader that takes all versions that there are."""

_NO_DELETIONS: Array = np.zeros(0, np.bool_)


def open_offsets(
    data: Chunk, table: TableSpec, offsets: Array, at: int, next_id: int, lost_before: int = NOTHING_LOST
) -> Array:
    """The elements of `offsets` (int64, ascending) whose versions hold at the time `at`. O(offsets).

    `next_id`: the reader's. `at`: microseconds, LATEST for the versions without a successor, EVER for all versions.
    `lost_before`: versions that ended before this time are left out (HISTORY).
    """
    if at == LATEST and lost_before == NOTHING_LOST:
        return _latest_offsets(data, offsets, next_id)
    if at == EVER:
        return _kept(data, _ever_open_offsets(data, table, offsets, next_id), next_id, lost_before)
    out: Array = np.empty(len(offsets), np.int64)
    count = open_versions.open_rows(
        plain(offsets), *_arrays(data, table), at, next_id, not table.first_from_arrival, out
    )
    return _kept(data, out[:count], next_id, lost_before)


def _latest_offsets(data: Chunk, offsets: Array, next_id: int) -> Array:
    """The elements of `offsets` whose versions have no successor below `next_id`. O(offsets)."""
    versions = versions_of(data)
    if versions.deletions < 0 and len(data) == len(versions.successors):
        versions.deletions = int(np.count_nonzero(data.columns[DELETED_AT].values))
    deleted = _NO_DELETIONS if versions.deletions == 0 else plain(data.columns[DELETED_AT].values)
    out: Array = np.empty(len(offsets), np.int64)
    links = versions.ended_bits, versions.successors
    return out[: open_versions.latest_rows(plain(offsets), deleted, *links, next_id, out)]


def _kept(data: Chunk, offsets: Array, next_id: int, lost_before: int) -> Array:
    """The elements of `offsets` without the versions that ended before `lost_before`."""
    if lost_before == NOTHING_LOST:
        return offsets
    versions = versions_of(data)
    successors = versions.successors[offsets]
    ended = (successors > 0) & (successors < next_id) & (versions.ends[offsets] < lost_before)
    return offsets[~ended] if ended.any() else offsets


def without_deletions(data: Chunk, offsets: Array) -> Array:
    """The elements of `offsets` (int64[k]) that are versions, also of ended ones. O(offsets)."""
    return offsets[~data.columns[DELETED_AT].values[offsets]]


def _ever_open_offsets(data: Chunk, table: TableSpec, offsets: Array, next_id: int) -> Array:
    """The elements of `offsets` whose versions hold at any time. Arguments as in `open_offsets`. O(offsets)."""
    out: Array = np.empty(len(offsets), np.int64)
    count = open_versions.ever_open_rows(
        plain(offsets), *_arrays(data, table), next_id, not table.first_from_arrival, out
    )
    return out[:count]


def times_of(data: Chunk, table: TableSpec) -> Array:
    """The own times of all entries of a chunk, int64[n]: of TIMESTAMP BY, or else the physical IDs. O(1)."""
    return data.times if table.timed is None else data.columns[table.timed].values


def begins_of(data: Chunk, table: TableSpec, rows: Array) -> Array:
    """The times from which the versions of `rows` hold, int64[k]. The least int64 for `from the beginning`."""
    times: Array = times_of(data, table)[rows]
    if table.first_from_arrival:
        return times
    return np.where(data.columns[FIRST_AT].values[rows], np.iinfo(np.int64).min, times)


def ends_of(data: Chunk, rows: Array) -> Array:
    """The times at which the versions of `rows` end, int64[k]. The greatest int64 for versions without a successor.

    An entry that the reader does not see yet may end a version. The time of such an entry is not below the reader's
    watermark.
    """
    versions = versions_of(data)
    return np.where(versions.successors[rows] == 0, np.iinfo(np.int64).max, versions.ends[rows])


def versions_of(data: Chunk) -> ChunkVersions:
    """The successors and ends of a chunk of a table."""
    versions = data.versions
    if versions is None:
        raise corrupt("versions", "a chunk of a table has no versions", chunk=data.number)
    return versions


def _arrays(data: Chunk, table: TableSpec) -> tuple[Array, Array, Array, Array, Array]:
    columns, versions = data.columns, versions_of(data)
    first, deleted = columns[FIRST_AT].values, columns[DELETED_AT].values
    return plain(times_of(data, table)), plain(first), plain(deleted), versions.successors, versions.ends
