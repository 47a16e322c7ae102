"""Semi-joins over time: left rows meet the keys for which a right row is in the relation.

    key 5, until 20 ─> link 4 ─> left row 2, until 30
                       link 0 ─> left row 0, until 25

A left row has one or two keys, with a link for each. The links of a key are a list, the newest first. A key is present
while a right row with it is in the relation. `counted` says for each link whether its key is present. So a row has a
partner if one of its links is counted.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit

from psoup.kernels.compile.inner import inner

ABSENT = -(2**63)
"""The end of a key that is not present, and of a row that left."""
LINKS = 2
"""The links of each left row."""


@inner
def _count_link(link, by, instant, rows, negated, out, count):
    """Record that the key of a link becomes present (`by` 1) or absent (-1); returns the number of changes so far."""
    _, _, _, counted = rows
    changed, signs, instants = out
    counted[link] += by
    if counted[link ^ 1] == 0:
        changed[count] = link // LINKS
        signs[count] = by if not negated else -by
        instants[count] = instant
        count += 1
    return count


@inner
def _change(key, by, instant, keys, rows, negated, out, count):
    """Record for all left rows of a key that it becomes present or absent; returns the changes so far.

    A row's other key may have ended earlier, and may not be removed from the buffer yet. Then its end is recorded
    first. If the other key is absent but still counted, it ended only after the row. At most two changes for each link.
    """
    ends, head, _, _ = keys
    row_ends, row_keys, following, counted = rows
    link = head[key]
    while link >= 0:
        if row_ends[link // LINKS] >= instant:
            other = row_keys[link ^ 1]
            if other >= 0 and counted[link ^ 1] and ABSENT < ends[other] < instant:
                count = _count_link(link ^ 1, -1, ends[other] + 1, rows, negated, out, count)
            if counted[link] != (by > 0):
                count = _count_link(link, by, instant, rows, negated, out, count)
        link = following[link]
    return count


@njit(cache=True, nogil=True)
def meet_keys(rights, lefts, keys, rows, negated, out, entered, at):
    """Add right and left rows, in order of their starts; returns whether there was room for all changes.

    rights: the keys, int32[m], the starts and the ends, int64[m], ascending by start; lefts: the first row number, and
    the starts, int64[n]; read. negated: a row is in the result without a partner. At one instant, right rows come
    first. O(n + m + changes) expected. Written:

    keys       the end, int64, or ABSENT. The first link, int32, or -1. The number of links, int32. Whether the key is
               queued, uint8.
    rows       the end, int64. By link, LINKS for each row: the key, int32, or -1, only read. The next link, int32.
               Whether the key is present, uint8.
    out        the changes: rows, int32; signs, int8; instants, int64
    entered    int32, the keys to be queued
    at         int64[4]: the next right row, the next left row, the numbers of changes and of keys to be queued. A
               caller that has made more room calls again with it.
    """
    right_keys, right_starts, right_ends = rights
    first, left_starts = lefts
    ends, head, links, queued = keys
    _, row_keys, following, counted = rows
    changed, signs, instants = out
    right, left, count, entries = at[0], at[1], at[2], at[3]
    room, enough = changed.shape[0], True
    while right < right_keys.shape[0] or left < left_starts.shape[0]:
        if right < right_keys.shape[0] and (left == left_starts.shape[0] or right_starts[right] <= left_starts[left]):
            key, start = right_keys[right], right_starts[right]
            before = ends[key]
            if before >= start:
                ends[key] = max(before, right_ends[right])
                right += 1
                continue
            if count + 4 * links[key] > room:
                enough = False
                break
            if before != ABSENT and before + 1 < start:  # else the key stays; only rows that recorded its end change
                count = _change(key, -1, before + 1, keys, rows, negated, out, count)
            if not queued[key]:
                queued[key] = 1
                entered[entries] = key
                entries += 1
            ends[key] = right_ends[right]
            count = _change(key, 1, start, keys, rows, negated, out, count)
            right += 1
        else:
            row, start, more = first + left, left_starts[left], 1
            for link in range(LINKS * row, LINKS * row + LINKS):
                if row_keys[link] >= 0:
                    more += 2 * links[row_keys[link]]
            if count + more > room:
                enough = False
                break
            for link in range(LINKS * row, LINKS * row + LINKS):
                key = row_keys[link]
                if key < 0:
                    continue
                before = ends[key]
                if before != ABSENT and before < start:
                    count = _change(key, -1, before + 1, keys, rows, negated, out, count)
                    ends[key] = ABSENT
                following[link] = head[key]
                head[key] = link
                links[key] += 1
                counted[link] = ends[key] != ABSENT
            if (counted[LINKS * row] + counted[LINKS * row + 1] == 0) == negated:
                changed[count] = row
                signs[count] = 1
                instants[count] = start
                count += 1
            left += 1
    at[0], at[1], at[2], at[3] = right, left, count, entries
    return enough


@njit(cache=True, nogil=True)
def expire_keys(expired, first, keys, rows, negated, out, at):
    """Remove keys at their ends, from place `first` on; returns the place without room for its changes, or n.

    expired: int32[n], distinct keys; read. first: the first place. keys, rows, negated, out: as of `meet_keys`. at:
    int64[4], the number of changes at 2, written. A key that is absent already causes no change. O(n + changes).
    """
    ends, _, links, queued = keys
    place, count = first, at[2]
    while place < expired.shape[0]:
        key = expired[place]
        if ends[key] != ABSENT:
            if count + 2 * links[key] > out[0].shape[0]:
                break
            count = _change(key, -1, ends[key] + 1, keys, rows, negated, out, count)
            ends[key] = ABSENT
        queued[key] = 0
        place += 1
    at[2] = count
    return place


@njit(cache=True, nogil=True)
def link_rows(row_keys, following, head, links):
    """Make the lists of all keys.

    row_keys: int32[LINKS * rows], read. following: int32[LINKS * rows]; head, links: int32[keys], -1 and 0; written.
    O(rows).
    """
    for link in range(row_keys.shape[0]):
        key = row_keys[link]
        if key >= 0:
            following[link] = head[key]
            head[key] = link
            links[key] += 1
