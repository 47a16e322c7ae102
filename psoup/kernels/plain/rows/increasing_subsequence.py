"""Twin of `psoup.kernels.rows.increasing_subsequence`."""

from __future__ import annotations

from bisect import bisect_left

from psoup.kernels.plain import Array


def longest_rising(values: Array, tails: Array, before: Array, out: Array) -> int:
    """See the kernel."""
    ends = list[int]()
    for place, value in enumerate(values):
        low = bisect_left(ends, value)
        ends[low : low + 1] = [value]
        tails[low] = place
        before[place] = tails[low - 1] if low else -1
    place = tails[len(ends) - 1] if ends else -1
    for at in reversed(range(len(ends))):
        out[at], place = place, before[place]
    return len(ends)
