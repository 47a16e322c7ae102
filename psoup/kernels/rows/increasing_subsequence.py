"""The longest part of a sequence that rises: rows that two answers have in common and that need not move.

values   3 0 1 4 2 5        positions in one answer, in the order of another
rising     0 1   2 5        as many as can stay; 3 and 4 move
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def longest_rising(values, tails, before, out):
    """Find a longest strictly rising subsequence; returns how long it is.

    values: int64[n], read. tails, before: int64[n], scratch. out: int64[n], the places of its values, ascending, are
    written to its beginning. O(n log n): for each length the place of the least value that ends one so long is known.
    """
    length = 0
    for place in range(values.shape[0]):
        low, high = 0, length
        while low < high:
            middle = (low + high) >> 1
            if values[tails[middle]] < values[place]:
                low = middle + 1
            else:
                high = middle
        tails[low] = place
        before[place] = tails[low - 1] if low else -1
        length = max(length, low + 1)
    place = tails[length - 1] if length else -1
    for at in range(length - 1, -1, -1):
        out[at] = place
        place = before[place]
    return length
