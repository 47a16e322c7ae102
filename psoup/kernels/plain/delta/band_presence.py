"""Twins of `psoup.kernels.delta.band_presence`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from psoup.kernels.delta.band_presence import ABSENT
from psoup.kernels.plain import Array

Arrays = tuple[Array, ...]


class _State(NamedTuple):
    """The arguments of the kernel that are the same for each row."""

    keys: Arrays
    right_rows: Arrays
    left_rows: Arrays
    negated: bool
    out: Arrays
    entered: Array
    at: Array


def _rows_of(row: int, following: Array) -> Iterator[int]:
    while row >= 0:
        yield row
        row = int(following[row])


def _note(out: Arrays, at: Array, row: int, sign: int, instant: int) -> None:
    for array, value in zip(out, (row, sign, instant), strict=True):
        array[at[2]] = value
    at[2] += 1


def _queue(row: int, queued: Array, entered: Array, at: Array) -> None:
    if not queued[row]:
        queued[row] = 1
        entered[at[3]] = row
        at[3] += 1


def meet_bands(
    rights: tuple[int, Array],
    lefts: tuple[int, Array],
    keys: Arrays,
    right_rows: Arrays,
    left_rows: Arrays,
    negated: bool,
    out: Arrays,
    entered: Array,
    at: Array,
) -> bool:
    """See the kernel."""
    arrivals = [(start, 0, rights[0] + place) for place, start in enumerate(rights[1].tolist()) if place >= at[0]]
    arrivals += [(start, 1, lefts[0] + place) for place, start in enumerate(lefts[1].tolist()) if place >= at[1]]
    state = _State(keys, right_rows, left_rows, negated, out, entered, at)
    for start, side, row in sorted(arrivals):
        if not (_left_comes if side else _right_comes)(row, start, state):
            return False
        at[side] += 1
    return True


def _right_comes(row: int, start: int, state: _State) -> bool:
    keys, right_rows, left_rows, negated, out, entered, at = state
    (right_head, left_head, left_links, ordered), (ends, numbers, right_keys, following) = keys, right_rows
    left_ends, lows, highs, _, left_following, partners, queued = left_rows
    key, number, end = int(right_keys[row]), int(numbers[row]), int(ends[row])
    if at[2] + 2 * left_links[key] > len(out[0]):
        return False
    for other in _rows_of(int(left_head[key]), left_following):
        if left_ends[other] < start or not lows[other] <= number <= highs[other]:
            continue
        before = int(partners[other])
        if before != ABSENT and before + 1 >= start:
            partners[other] = max(before, end)
            continue
        if before != ABSENT:
            _note(out, at, other, 1 if negated else -1, before + 1)
        _note(out, at, other, -1 if negated else 1, start)
        partners[other] = end
        _queue(other, queued, entered, at)
    if right_head[key] >= 0 and number < numbers[right_head[key]]:
        ordered[0] = 0
    following[row], right_head[key] = right_head[key], row
    return True


def _left_comes(row: int, start: int, state: _State) -> bool:
    keys, right_rows, left_rows, negated, out, entered, at = state
    (right_head, left_head, left_links, ordered), (ends, numbers, _, following) = keys, right_rows
    _, lows, highs, left_keys, left_following, partners, queued = left_rows
    if at[2] == len(out[0]):
        return False
    key = int(left_keys[row])
    if key >= 0:
        for other in _rows_of(int(right_head[key]), following):
            if ends[other] >= start and lows[row] <= numbers[other] <= highs[row]:
                partners[row] = max(partners[row], ends[other])
        if left_head[key] >= 0 and highs[row] < highs[left_head[key]]:
            ordered[1] = 0
        left_following[row], left_head[key] = left_head[key], row
        left_links[key] += 1
        if partners[row] != ABSENT:
            _queue(row, queued, entered, at)
    if (partners[row] == ABSENT) == negated:
        _note(out, at, row, 1, start)
    return True
