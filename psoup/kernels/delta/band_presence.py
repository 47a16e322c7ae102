"""Semi-joins with a band over time: left rows meet right rows of their key whose number is within their bounds.

    left row 0     key 5, bounds 10 … 18, until 30     partner until 25
    right row 0    key 5, number 12, until 25

Each key has two lists of rows, the newest first, one for each side. A left row has the latest end of its partners.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit

from psoup.kernels.compile.inner import inner

ABSENT = -(2**63)
"""The end of the partners of a row without any, and the end of a row that left."""


@inner
def _right_comes(row, start, keys, right_rows, left_rows, negated, out, entered, count, entries):
    """Add a right row; returns the numbers of changes and of rows to be queued so far."""
    right_head, left_head, _, ordered = keys
    right_ends, numbers, right_keys, right_following = right_rows
    left_ends, lows, highs, _, left_following, partners, queued = left_rows
    changed, signs, instants = out
    comes, goes = (-1, 1) if negated else (1, -1)
    key, number, end = right_keys[row], numbers[row], right_ends[row]
    other = left_head[key]
    while other >= 0:
        if ordered[1] and highs[other] < number:
            break
        if left_ends[other] >= start and lows[other] <= number and number <= highs[other]:
            before = partners[other]
            if before != ABSENT and (before >= start or before + 1 == start):
                partners[other] = max(before, end)
            else:
                if before != ABSENT:
                    changed[count], signs[count], instants[count] = other, goes, before + 1
                    count += 1
                changed[count], signs[count], instants[count] = other, comes, start
                count += 1
                partners[other] = end
                if not queued[other]:
                    queued[other] = 1
                    entered[entries] = other
                    entries += 1
        other = left_following[other]
    if right_head[key] >= 0 and number < numbers[right_head[key]]:
        ordered[0] = 0
    right_following[row] = right_head[key]
    right_head[key] = row
    return count, entries


@inner
def _left_comes(row, start, keys, right_rows, left_rows, negated, out, entered, count, entries):
    """Add a left row; returns the numbers of changes and of rows to be queued so far."""
    right_head, left_head, left_links, ordered = keys
    right_ends, numbers, _, right_following = right_rows
    _, lows, highs, left_keys, left_following, partners, queued = left_rows
    changed, signs, instants = out
    key = left_keys[row]
    if key >= 0:
        low, high, end = lows[row], highs[row], partners[row]
        other = right_head[key]
        while other >= 0:
            if ordered[0] and numbers[other] < low:
                break
            if right_ends[other] >= start and low <= numbers[other] and numbers[other] <= high:
                end = max(end, right_ends[other])
            other = right_following[other]
        if left_head[key] >= 0 and high < highs[left_head[key]]:
            ordered[1] = 0
        left_following[row] = left_head[key]
        left_head[key] = row
        left_links[key] += 1
        if end != ABSENT:
            partners[row] = end
            queued[row] = 1
            entered[entries] = row
            entries += 1
    if (partners[row] == ABSENT) == negated:
        changed[count], signs[count], instants[count] = row, 1, start
        count += 1
    return count, entries


@njit(cache=True, nogil=True)
def meet_bands(rights, lefts, keys, right_rows, left_rows, negated, out, entered, at):
    """Add right and left rows, in order of their starts; returns whether there was room for all changes.

    rights, lefts: the first row number, and the starts, int64, ascending; read. negated: a row is in the result without
    a partner. At one instant, right rows come first. O(n + m + rows of their keys). Written:

    keys          the first right row and the first left row, int32, or -1. The number of left rows, int32. uint8[2]:
                  whether numbers, and upper bounds, ascend with the rows of each key, so that a search ends early.
    right_rows    the end and the number, int64, only read. The key, int32, only read. The next row, int32.
    left_rows     the end and both bounds, int64, only read. The key, int32, or -1, only read. The next row, int32. The
                  latest end of the partners, int64, or ABSENT. Whether the row is queued, uint8.
    out           the changes: rows, int32. Signs, int8. Instants, int64.
    entered       int32, the left rows to be queued
    at            int64[4]: the next right row, the next left row, the numbers of changes and of rows to be queued. A
                  caller that has made more room calls again with it.
    """
    first_right, right_starts = rights
    first_left, left_starts = lefts
    right, left, count, entries = at[0], at[1], at[2], at[3]
    room, enough = out[0].shape[0], True
    while right < right_starts.shape[0] or left < left_starts.shape[0]:
        if right < right_starts.shape[0] and (left == left_starts.shape[0] or right_starts[right] <= left_starts[left]):
            row = first_right + right
            if count + 2 * keys[2][right_rows[2][row]] > room:
                enough = False
                break
            count, entries = _right_comes(
                row, right_starts[right], keys, right_rows, left_rows, negated, out, entered, count, entries
            )
            right += 1
        else:
            if count == room:
                enough = False
                break
            row = first_left + left
            count, entries = _left_comes(
                row, left_starts[left], keys, right_rows, left_rows, negated, out, entered, count, entries
            )
            left += 1
    at[0], at[1], at[2], at[3] = right, left, count, entries
    return enough
