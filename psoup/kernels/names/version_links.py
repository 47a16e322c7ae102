"""The links between the versions of a table's keys, written into the arrays beside many chunks in one pass.

places    for each chunk: the addresses of successors, ends, before, ended bits; the places left (or 0), their number.
entry     7 of a key whose newest entry was 2:   before[7] = 2, ends[2] = its time, successors[2] = 7, bit 2 is set.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from psoup.kernels.compile.lanes import fetch
from psoup.kernels.rows.batch_body import _longs, _pointer

_AHEAD = 16
"""The entries whose elements are prefetched together, as they lie anywhere in memory."""
LINK_PARTS = 6
"""The numbers of a chunk in `places`."""


@njit(cache=True, nogil=True)
def _last_below(values, wanted):
    """The last place with a value of at most `wanted`; values: ascending, read."""
    low, high = np.int64(0), np.int64(values.shape[0])
    while low < high:
        middle = (low + high) >> 1
        if values[middle] <= wanted:
            low = middle + 1
        else:
            high = middle
    return low - 1


@njit(cache=True, nogil=True, inline="always")
def _chunk_of(first_ids, tuple_id):
    """The chunk of a tuple ID. Chunks have about as many IDs each, so a guess is nearly always right."""
    last = first_ids.shape[0] - 1
    span = first_ids[last] - first_ids[0]
    chunk = (tuple_id - first_ids[0]) * last // span if span else last
    chunk = min(chunk, last)
    while first_ids[chunk] > tuple_id:
        chunk -= 1
    while chunk < last and first_ids[chunk + 1] <= tuple_id:
        chunk += 1
    return chunk


@njit(cache=True, nogil=True)
def link_versions(first_id, times, before, first_ids, places, ended):
    """Link the versions first_id, first_id + 1, … with the versions before them.

    times: int64[n]; before: int64[n], the version before each, or -1; first_ids: int64[c], ascending, the first IDs of
    the chunks; places: int64[c, LINK_PARTS]; read. ended: int64[c], written: the number of versions that end in each
    chunk. The arrays beside the chunks are written. O(n) if the chunks have as many IDs each.
    """
    ended[:] = 0
    chunks, rows = np.empty(_AHEAD, np.int64), np.empty(_AHEAD, np.int64)
    for start in range(0, before.shape[0], _AHEAD):
        stop = min(start + _AHEAD, before.shape[0])
        for i in range(start, stop):
            earlier = before[i]
            chunk = _chunk_of(first_ids, first_id + i)
            row = first_id + i - first_ids[chunk]
            _longs(places[chunk, 2], row + 1)[row] = earlier
            if earlier >= 0:
                chunk = _chunk_of(first_ids, earlier)
                row = earlier - first_ids[chunk]
                if places[chunk, 4]:
                    row = _last_below(carray(_pointer(places[chunk, 4]), places[chunk, 5], np.uint16), row)
                chunks[i - start], rows[i - start] = chunk, row
                fetch(_longs(places[chunk, 1], row + 1), row, row + 1)
                fetch(_longs(places[chunk, 0], row + 1), row, row + 1)
                fetch(_longs(places[chunk, 3], (row >> 6) + 1), row >> 6, (row >> 6) + 1)
        for i in range(start, stop):
            if before[i] >= 0:
                chunk, row = chunks[i - start], rows[i - start]
                _longs(places[chunk, 1], row + 1)[row] = times[i]
                _longs(places[chunk, 0], row + 1)[row] = first_id + i
                word = row >> 6
                _longs(places[chunk, 3], word + 1)[word] |= np.int64(1) << (row & 63)
                ended[chunk] += 1
