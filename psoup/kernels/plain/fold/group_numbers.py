"""Twins of `psoup.kernels.fold.group_numbers`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.kernels.plain import Array

_WORDS = 2**64


def _numbered(
    names: list[object], start: int, group_keys: dict[object, int], room: int, counts: Array, numbers: Array
) -> tuple[int, list[tuple[int, int]]]:
    """Number names, None for NULL; the row it stopped at, and each new number with its row."""
    added = list[tuple[int, int]]()
    for row in range(start, len(names)):
        name = names[row]
        number = (int(counts[1]) if counts[1] >= 0 else None) if name is None else group_keys.get(name)
        if number is None:
            if counts[0] == room:
                return row, added
            number = int(counts[0])
            added.append((number, row))
            counts[0] += 1
            if name is None:
                counts[1] = number
            else:
                group_keys[name] = number
        numbers[row] = number
    return len(names), added


def _names(keys: Array, valid: Array) -> list[object]:
    return [int(key) if not len(valid) or valid[i] else None for i, key in enumerate(keys)]


def _number(
    keys: Array, valid: Array, start: int, group_keys: Array, counts: Array, numbers: Array
) -> tuple[int, list[int]]:
    before: dict[object, int] = {int(group_keys[k]): k for k in range(int(counts[0])) if k != counts[1]}
    row, added = _numbered(_names(keys, valid), start, dict(before), len(group_keys), counts, numbers)
    for number, at in added:
        group_keys[number] = 0 if number == counts[1] else keys[at]
    return row, [number for number, _ in added if number != counts[1]]


def number_near(
    keys: Array, valid: Array, start: int, base: int, table: Array, group_keys: Array, counts: Array, numbers: Array
) -> int:
    """See the kernel."""
    row, added = _number(keys, valid, start, group_keys, counts, numbers)
    for number in added:
        table[group_keys[number] - base] = number
    return row


def _spread(key: int, seed: int) -> int:
    state = ((key % _WORDS) ^ seed) * 0xFF51AFD7ED558CCD % _WORDS
    state = (state ^ (state >> 32)) * 0xC4CEB9FE1A85EC53 % _WORDS
    return state ^ (state >> 29)


def _put(number: int, hashed: int, table: Array) -> None:
    """Put a number into the first free place from its hash on."""
    at = hashed % len(table)
    while table[at] >= 0:
        at = (at + 1) % len(table)
    table[at] = number


def number_keys(
    keys: Array, valid: Array, start: int, seed: int, table: Array, group_keys: Array, counts: Array, numbers: Array
) -> int:
    """See the kernel."""
    row, added = _number(keys, valid, start, group_keys, counts, numbers)
    for number in added:
        _put(number, _spread(int(group_keys[number]), int(seed)), table)
    return row


def _place(group_keys: Array, count: int, null: int, table: Array, hashed: Callable[[int], int]) -> None:
    for number in range(count):
        if number != null:
            _put(number, hashed(int(group_keys[number])), table)


def place_keys(group_keys: Array, count: int, null: int, seed: int, table: Array) -> None:
    """See the kernel."""
    _place(group_keys, count, null, table, lambda key: _spread(key, int(seed)))


def number_texts(
    ends: Array,
    data: Array,
    hashes: Array,
    valid: Array,
    start: int,
    table: Array,
    group_keys: Array,
    kept_ends: Array,
    kept_data: Array,
    counts: Array,
    numbers: Array,
    rows: Array,
) -> int:
    """See the kernel."""
    names: list[object] = [
        bytes(data[ends[i] : ends[i + 1]]) if not len(valid) or valid[i] else None for i in range(len(hashes))
    ]
    before: dict[object, int] = {}
    for number in range(int(counts[0])):
        if number != counts[1]:
            inside = number < len(kept_ends) - 1
            text = bytes(kept_data[kept_ends[number] : kept_ends[number + 1]]) if inside else names[rows[number]]
            before[text] = number
    row, added = _numbered(names, start, before, len(group_keys), counts, numbers)
    for number, at in added:
        null = number == counts[1]
        group_keys[number], rows[number] = (0, -1) if null else (hashes[at], at)
        if not null:
            _put(number, int(hashes[at]), table)
    return row


def place_texts(group_keys: Array, count: int, null: int, table: Array) -> None:
    """See the kernel."""
    _place(group_keys, count, null, table, lambda hashed: hashed)


def mark_codes(codes: Array, seen: Array) -> None:
    """See the kernel."""
    seen[codes] = 1


def map_codes(codes: Array, numbers: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = numbers[codes]


def pair_numbers(left: Array, right: Array, out: Array) -> None:
    """See the kernel."""
    out[:] = left.astype(np.int64) << 32 | right


def merge_runs(keys: Array, values: Array, adds: bool) -> int:
    """See the kernel."""
    names, back = np.unique(keys, return_inverse=True)
    merged = np.zeros(len(names), np.int64) if adds else np.full(len(names), -(2**63), np.int64)
    (np.add if adds else np.maximum).at(merged, back, values)
    keys[: len(names)], values[: len(names)] = names, merged
    return len(names)
