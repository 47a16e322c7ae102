"""Twins of `psoup.kernels.search.match_pairs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def add_named(names: Array, values: Array, minimum: int, table: Array, sums: Array) -> None:
    """See the kernel."""
    for name, value in zip(names.tolist(), values.tolist(), strict=True):
        if minimum <= name < minimum + len(table) and table[name - minimum] >= 0:
            sums[table[name - minimum]] += value


def lists_within(lists: Array, start: int, stop: int, places: Array, counts: Array) -> None:
    """See the kernel."""
    for i, (place, count) in enumerate(zip(places.tolist(), counts.tolist(), strict=True)):
        low, high = np.searchsorted(lists[place : place + count], (start, stop))
        places[i], counts[i] = place + low, max(high - low, 0)


def lists_to_pairs(lists: Array, places: Array, counts: Array, names: Array, which: Array, offsets: Array) -> None:
    """See the kernel."""
    which[:] = np.repeat(names, counts)
    spans = [lists[place : place + count] for place, count in zip(places.tolist(), counts.tolist(), strict=True)]
    offsets[:] = np.concatenate([np.zeros(0, np.int64), *spans])


def _numbers(names: Array, minimum: int, table: Array) -> Array:
    """The number of each name, -1 if it is not wanted."""
    inside = (names >= minimum) & (names < minimum + len(table))
    return np.where(inside, np.append(table, -1)[np.where(inside, names - minimum, -1)], -1)


def place_rows(starts: Array, rows: Array, base: int, free: Array, out: Array) -> None:
    """See the kernel."""
    for place in range(len(free)):
        for row in rows[starts[place] : starts[place + 1]].tolist():
            out[free[place]] = row + base
            free[place] += 1


def named_size(names: Array, counts: Array, places: Array, minimum: int, table: Array) -> tuple[int, int]:
    """See the kernel."""
    wanted = _numbers(names, minimum, table) >= 0
    return int(counts[wanted & (places >= 0)].sum()), int((wanted & (places < 0)).sum())


def named_to_pairs(
    lists: Array,
    names: Array,
    counts: Array,
    places: Array,
    minimum: int,
    table: Array,
    start: int,
    stop: int,
    which: Array,
    offsets: Array,
) -> int:
    """See the kernel."""
    pairs = [
        (number, offset)
        for number, place, count in zip(_numbers(names, minimum, table), places, counts, strict=True)
        if number >= 0 and place >= 0
        for offset in lists[place : place + count]
        if start <= offset < stop
    ]
    which[: len(pairs)], offsets[: len(pairs)] = np.array(pairs, np.int64).reshape(len(pairs), 2).T
    return len(pairs)


def _bits(bitmaps: Array, which: Array, start: int, stop: int) -> Array:
    """bool[k, tuples]: the bits of some bitmaps, without those outside [start, stop)."""
    bits: Array = np.unpackbits(bitmaps[which].view(np.uint8), axis=1, bitorder="little").astype(np.bool_)
    bits[:, :start] = False
    bits[:, stop:] = False
    return bits


def count_within(bitmaps: Array, which: Array, start: int, stop: int, counts: Array) -> None:
    """See the kernel."""
    counts[:] = _bits(bitmaps, which, start, stop).sum(axis=1)


def bitmaps_to_pairs(
    bitmaps: Array, which: Array, start: int, stop: int, names: Array, out: Array, offsets: Array
) -> None:
    """See the kernel."""
    rows, offsets[:] = np.nonzero(_bits(bitmaps, which, start, stop))
    out[:] = names[rows]


def runs_to_pairs(
    slots: Array, run: Array, place_of_slot: Array, start: int, stop: int, which: Array, offsets: Array
) -> int:
    """See the kernel."""
    places = np.append(place_of_slot, -1)
    place = places[np.minimum(slots, len(place_of_slot))]
    wanted = np.flatnonzero((place >= 0) & (run >= start) & (run < stop))
    which[: len(wanted)], offsets[: len(wanted)] = place[wanted], run[wanted]
    return len(wanted)
