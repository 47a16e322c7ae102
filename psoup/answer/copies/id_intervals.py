"""Sets of tuple IDs as intervals, for clients that hold parts of an answer.

    held     [3, 9)  [12, 20)          the rows of the client
    target   [5, 30)                   the window now
    missing  [9, 12)  [20, 30)         target - held: the rows to send
    kept     [5, 9)  [12, 20)          held within target: all other rows of the client leave

A window is one range of tuple IDs, and tuples never change. So a subtraction gives the change since any state of a
client, whatever has happened in between.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psoup.invariants import ensure

Interval = tuple[int, int]
"""The tuple IDs [low, high)."""

Intervals = tuple[Interval, ...]
"""Disjoint intervals, ascending, none empty, with a gap between neighbours."""


def union(intervals: Iterable[Interval]) -> Intervals:
    """All tuple IDs of some intervals, which may overlap and be empty. O(n log n)."""
    intervals = list(intervals)
    if len(intervals) == 1:
        return tuple(intervals) if intervals[0][0] < intervals[0][1] else ()
    joined = list[Interval]()
    for low, high in sorted(interval for interval in intervals if interval[0] < interval[1]):
        if joined and low <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], high)
        else:
            joined.append((low, high))
    return tuple(joined)


def within(intervals: Sequence[Interval], low: int, high: int) -> Intervals:
    """The part of ascending intervals that is in [low, high). O(n)."""
    if len(intervals) == 1:  # nearly always; `without` and `check` have the same shortcut
        ((first, end),) = intervals
        first, end = first if first > low else low, end if end < high else high
        return ((first, end),) if first < end else ()
    cut = [(max(first, low), min(end, high)) for first, end in intervals]
    return tuple([interval for interval in cut if interval[0] < interval[1]])


def without(low: int, high: int, intervals: Sequence[Interval]) -> Intervals:
    """The part of [low, high) outside of ascending intervals. O(n)."""
    if len(intervals) == 1 and intervals[0][0] <= low and high <= intervals[0][1]:
        return ()
    left, start = list[Interval](), low
    for first, end in within(intervals, low, high):
        left.append((start, first))
        start = end
    left.append((start, high))
    return tuple([interval for interval in left if interval[0] < interval[1]])


def check(intervals: Sequence[Interval]) -> None:
    """Raise Corrupt unless the intervals are disjoint and ascending, none is empty, and no two touch."""
    if len(intervals) == 1 and intervals[0][0] < intervals[0][1]:
        return
    ends = [end for interval in intervals for end in interval]
    ensure(all(map(int.__lt__, ends, ends[1:])), intervals, "intervals are not disjoint and ascending")
