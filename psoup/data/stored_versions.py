"""A start of a table: stored chunks give the newest entry of each key, and the links between entries.

    chunks     0: UA DL UA      1: DL UA            rows are numbered over all chunks: 0 … 4
    hash table UA ─> 4, DL ─> 3                     row numbers at first, tuple IDs at the end
    links      0 ─> 2 ─> 4, 1 ─> 3                  successors and ends, written once for all chunks

A thinned chunk has gaps in its tuple IDs, so row numbers are the places of arrays meanwhile. The work is the same for
any order of keys: a start with 10^7 entries takes some seconds.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.data.archived_chunk import Chunk
from psoup.data.newest_versions import NewestVersions, TableVersions
from psoup.data.versions import times_of, versions_of
from psoup.model import DELETED_AT
from psoup.values.columns import Array

_SKETCH = 1 << 22
"""Places of the sketch that counts keys. It is a few percent off for ten times as many keys."""


def load_versions(table: TableVersions, chunks: Sequence[Chunk]) -> None:
    """Put the entries of all stored chunks, oldest first, into an empty table, and link them.

    O(rows). Memory: 24 bytes for each row, until it returns. Only the writer calls it.
    """
    newest = table.newest
    starts = np.cumsum([0, *(len(chunk) for chunk in chunks)])
    newest.expect(count_keys(newest, chunks))
    ids: Array = np.empty(int(starts[-1]), np.int64)
    successors: Array = np.zeros(len(ids), np.int64)
    ends: Array = np.zeros(len(ids), np.int64)
    spans = list(zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True))
    for chunk, (start, stop) in zip(chunks, spans, strict=True):
        ids[start:stop] = chunk.ids_of(0, len(chunk))
        table.note_deletions(chunk.columns[DELETED_AT].values)
        before = newest.put(chunk.columns, start)
        later = np.flatnonzero(before >= 0)
        rows = before[later]
        versions_of(chunk).before[later] = ids[rows]
        successors[rows] = ids[start + later]
        ends[rows] = times_of(chunk, table.table)[later]
    for chunk, (start, stop) in zip(chunks, spans, strict=True):
        versions = versions_of(chunk)
        versions.successors[:], versions.ends[:] = successors[start:stop], ends[start:stop]
        versions.count_ended()
        versions.relinked = True
    newest.number_by(ids)


def count_keys(newest: NewestVersions, chunks: Sequence[Chunk]) -> int:
    """The approximate number of different keys in chunks (linear counting). O(rows)."""
    seen: Array = np.zeros(_SKETCH, np.bool_)
    for chunk in chunks:
        lanes = newest.lanes(chunk.columns)
        seen[(lanes[:, 1] & np.uint64(_SKETCH - 1)).astype(np.int64)] = True
    free = _SKETCH - int(np.count_nonzero(seen))
    return round(-_SKETCH * np.log(max(free, 1) / _SKETCH))
