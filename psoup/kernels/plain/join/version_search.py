"""Twins of `psoup.kernels.join.version_search`."""

from __future__ import annotations

from bisect import bisect_right

from psoup.kernels.plain import Array

_MASK = 2**64 - 1


def _place(key: int, secret: int, slots: Array, names: Array) -> int:
    """The place of a key in the hash table, or the free place for it."""
    value = ((key & _MASK) ^ int(secret)) * 0x9E3779B97F4A7C15 & _MASK
    value = (value ^ (value >> 32)) * 0xBF58476D1CE4E5B9 & _MASK
    at = (value ^ (value >> 32)) % len(slots)
    while slots[at] >= 0 and names[slots[at]] != key:
        at = (at + 1) % len(slots)
    return at


def group_versions(keys: Array, secret: int, slots: Array, names: Array, groups: Array, starts: Array) -> int:
    """See the kernel."""
    count = 0
    for i, key in enumerate(keys.tolist()):
        at = _place(key, secret, slots, names)
        if slots[at] < 0:
            slots[at], names[count] = count, key
            count += 1
        groups[i] = slots[at]
        starts[slots[at]] += 1
    return count


def place_groups(names: Array, count: int, secret: int, slots: Array) -> None:
    """See the kernel."""
    for group in range(count):
        slots[_place(int(names[group]), secret, slots, names)] = group


def sort_versions(
    groups: Array, count: int, begins: Array, ends: Array, starts: Array, order: Array, spans: Array
) -> None:
    """See the kernel."""
    by_group = [[i for i, group in enumerate(groups.tolist()) if group == each] for each in range(count)]
    place = 0
    for group, versions in enumerate(by_group):
        starts[group] = place
        for i in versions:
            order[place], spans[place] = i, (begins[i], ends[i])
            place += 1
    starts[count] = place


def find_versions(
    keys: Array,
    times: Array,
    secret: int,
    slots: Array,
    names: Array,
    starts: Array,
    order: Array,
    spans: Array,
    partners: Array,
) -> None:
    """See the kernel."""
    for i, (key, time) in enumerate(zip(keys.tolist(), times.tolist(), strict=True)):
        group = int(slots[_place(key, secret, slots, names)])
        partners[i] = -1
        if group >= 0:
            first, stop = int(starts[group]), int(starts[group + 1])
            at = first + bisect_right(spans[first:stop, 0].tolist(), time)
            if at > first and time < spans[at - 1, 1]:
                partners[i] = order[at - 1]
