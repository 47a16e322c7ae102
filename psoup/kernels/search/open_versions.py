"""The rows of a table's chunk that hold at a time: versions that have begun, and that no later entry has ended.

version    holds in [begin, end): its time, and the time of the next entry of its key.
first      a key's first version holds from the beginning, if the table says so.
reader     sees the IDs below `next_id`. An entry with a later ID is not there yet, so it ends nothing.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def open_rows(offsets, times, first, deleted, successors, ends, at, next_id, from_start, out):
    """Keep the rows of `offsets` that hold at the time `at`, for a reader of IDs below `next_id`. Returns the number.

    offsets: int64[k], read. times: int64[n]; first, deleted: bool[n], whether the row is its key's first version, or
    the entry of a deletion; successors: int64[n], the ID of the key's next entry, or 0; ends: int64[n], its time; read.
    from_start: whether first versions hold from the beginning. out: int64[k], written. O(k).
    """
    count = 0
    for i in range(offsets.shape[0]):
        row = offsets[i]
        if deleted[row] or (times[row] > at and not (from_start and first[row])):
            continue
        successor = successors[row]
        if successor == 0 or successor >= next_id or ends[row] > at:
            out[count] = row
            count += 1
    return count


@njit(cache=True, nogil=True)
def latest_rows(offsets, deleted, ended, successors, next_id, out):
    """Keep the rows of `offsets` that no entry below `next_id` has ended. Returns the number.

    offsets: int64[k], read. deleted: bool[n], whether a row is the entry of a deletion, or bool[0] if none is; ended:
    int64[n / 64], a bit for each row that has a successor, maybe a later one; successors: int64[n], the ID of the key's
    next entry, or 0; read. out: int64[k], written. O(k). The bits of a chunk are in the cache of a processor after some
    rows, and the successors are not.
    """
    count, none = 0, deleted.shape[0] == 0
    for i in range(offsets.shape[0]):
        row = offsets[i]
        if (ended[row >> 6] >> (row & 63)) & 1:
            successor = successors[row]
            if 0 < successor < next_id:
                continue
        if none or not deleted[row]:
            out[count] = row
            count += 1
    return count


@njit(cache=True, nogil=True)
def ever_open_rows(offsets, times, first, deleted, successors, ends, next_id, from_start, out):
    """Keep the rows of `offsets` that hold at any time: no deletions, and no versions that ended at their own time.

    Arguments and result as in `open_rows`. O(k).
    """
    count = 0
    for i in range(offsets.shape[0]):
        row = offsets[i]
        if deleted[row]:
            continue
        successor = successors[row]
        if successor == 0 or successor >= next_id or ends[row] > times[row] or (from_start and first[row]):
            out[count] = row
            count += 1
    return count
