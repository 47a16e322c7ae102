"""Twins of `psoup.kernels.delta.value_ends`."""

from __future__ import annotations

from psoup.kernels.delta.value_ends import ABSENT
from psoup.kernels.plain import Array


def prolong_values(
    numbers: Array,
    start: Array,
    end: Array,
    ends: Array,
    changed: Array,
    signs: Array,
    instants: Array,
    entered: Array,
) -> tuple[int, int]:
    """See the kernel."""
    changes, absent = list[tuple[int, int, int]](), list[int]()
    for number, first, last in zip(numbers.tolist(), start.tolist(), end.tolist(), strict=True):
        before = int(ends[number])
        if before == ABSENT:
            absent.append(number)
        elif before + 1 >= first:
            ends[number] = max(before, last)
            continue
        else:
            changes.append((number, -1, before + 1))
        changes.append((number, 1, first))
        ends[number] = last
    for at, change in enumerate(changes):
        changed[at], signs[at], instants[at] = change
    entered[: len(absent)] = absent
    return len(changes), len(absent)
