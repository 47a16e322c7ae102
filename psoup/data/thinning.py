"""Thinning: a copy of a closed chunk with only some of its rows. The chunk keeps its tuple IDs and its time range.

    chunk 7, IDs 100 … 107      rows 0 1 2 3 4 5 6 7
    rows that stay: 1 4 7  ───> chunk 7, IDs 101, 104, 107; the places 100 … 107 remain its own

The module takes rows and decides nothing: a rule of the stream says which rows stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.data.archived_chunk import ArchivedChunk, Chunk
from psoup.data.chunk import ChunkView
from psoup.values.columns import Array, Batch

THIN_SHARE = 4
"""A chunk is worth thinning if at most one row in `THIN_SHARE` of its places stays."""


def worth_thinning(chunk: Chunk, stay: int) -> bool:
    """Whether a chunk is to be thinned to `stay` rows: some rows leave, and at most a quarter of its places stays."""
    return stay < len(chunk) and THIN_SHARE * stay <= chunk.places.count


def thinned(chunk: Chunk, rows: Array) -> ChunkView:
    """The chunk in memory with only the rows at positions `rows` (int64[k], ascending). O(k), and reads of the disk."""
    if isinstance(chunk, ArchivedChunk):
        by_index = chunk.take_all(range(len(chunk.columns)), rows)
        columns = tuple([by_index[index] for index in range(len(by_index))])
    else:
        columns = tuple([column.take(rows) for column in chunk.columns])
    batch = Batch(columns, chunk.times[rows])
    span = chunk.first_time, chunk.last_time
    return ChunkView(chunk.number, chunk.places.keep(rows), batch.times, batch.columns, batch.nbytes, span=span)


def rows_left(chunk: Chunk, stay: Array) -> Array:
    """The rows (int64, ascending) of a chunk whose tuple IDs are in `stay` (int64[k], ascending). O(rows log k)."""
    ids = chunk.ids_of(0, len(chunk))
    at = np.minimum(np.searchsorted(stay, ids), max(len(stay) - 1, 0))
    return np.flatnonzero(stay[at] == ids) if len(stay) else np.zeros(0, np.int64)


def nth_last(chunks: Sequence[Chunk], rows: int, next_id: int) -> int:
    """The tuple ID from which `rows` rows of a stream are left. O(chunks).

    `chunks`: the closed chunks, oldest first, at least one. All tuples from their end to `next_id` are left. If fewer
    rows are kept, the result is below the first ID by the number of missing rows.
    """
    newer = next_id - chunks[-1].end_id
    if newer >= rows:
        return next_id - rows
    for chunk in reversed(chunks):
        if newer + len(chunk) >= rows:
            return chunk.places.id_of(newer + len(chunk) - rows)
        newer += len(chunk)
    return chunks[0].first_id - (rows - newer)


def newest_time(chunks: Sequence[Chunk], before: int | None) -> int | None:
    """The time of the last row of some chunks, oldest first; `before` if no row is left.

    For a chunk on disk it is the time of its last place, as the writer reads no disk.
    """
    newest = next((chunk for chunk in reversed(chunks) if len(chunk)), None)
    if newest is None:
        return before
    return int(newest.times[-1]) if newest.in_memory else newest.last_time
