"""Twins of `psoup.kernels.join.version_search`."""

from __future__ import annotations

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


def number_keys(keys: Array, secret: int, slots: Array, names: Array, numbers: Array) -> int:
    """See the kernel."""
    count = 0
    for i, key in enumerate(keys.tolist()):
        at = _place(key, secret, slots, names)
        if slots[at] < 0:
            slots[at], names[count] = count, key
            count += 1
        numbers[i] = slots[at]
    return count


def find_numbers(keys: Array, secret: int, slots: Array, names: Array, numbers: Array) -> None:
    """See the kernel."""
    for i, key in enumerate(keys.tolist()):
        numbers[i] = slots[_place(key, secret, slots, names)]


def meet_versions(
    keys: Array,
    times: Array,
    rows: Array,
    version_keys: Array,
    begins: Array,
    ends: Array,
    versions: Array,
    lowest: int,
    table: Array,
    partners: Array,
) -> None:
    """See the kernel."""
    waiting = versions.tolist()
    for row in rows.tolist():
        while waiting and begins[waiting[0]] <= times[row]:
            version = waiting.pop(0)
            table[version_keys[version] - lowest] = version, ends[version]
        place = int(keys[row]) - lowest
        holds = 0 <= place < len(table) and times[row] < table[place, 1]
        partners[row] = table[place, 0] if holds else -1
