"""Arguments for the kernels of `psoup.kernels.delta`."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.delta.spans import FOREVER
from psoup.kernels.delta.value_ends import ABSENT
from psoup.kernels.plain.delta import band_presence, key_presence, key_rows

Rng = np.random.Generator
Arguments = tuple[Any, ...]

_KEYS = 5
_ROOM = 400
"""Room for the changes of a case. One case in four has less."""


def _ends(rng: Rng, start: Any) -> Any:
    """Ends of rows, some of them FOREVER."""
    ends = start + rng.integers(0, 8, len(start))
    return np.where(rng.random(len(start)) < 0.05, FOREVER, ends)


def _out(size: int) -> Arguments:
    return np.zeros(size, np.int32), np.zeros(size, np.int8), np.zeros(size, np.int64)


def prolong_values(rng: Rng) -> Arguments:
    """Rows of few values, and some values are absent."""
    rows, values = int(rng.integers(0, 40)), int(rng.integers(1, 9))
    start = np.sort(rng.integers(10, 50, rows))
    ends = np.where(rng.random(values) < 0.5, ABSENT, rng.integers(9, 15, values))
    numbers = rng.integers(0, values, rows).astype(np.int32)
    return numbers, start, _ends(rng, start), ends, *_out(2 * rows), np.zeros(rows, np.int32)


def _sides(rng: Rng, first: int, start: int) -> tuple[Arguments, Arguments, Any]:
    """Right rows, left rows and the ends of the left rows."""
    starts = [np.sort(rng.integers(start, start + 20, int(rng.integers(0, 12)))) for _ in range(2)]
    keys = rng.integers(0, _KEYS, len(starts[0])).astype(np.int32)
    return (keys, starts[0], _ends(rng, starts[0])), (first, starts[1]), _ends(rng, starts[1])


def _key_state(rng: Rng) -> tuple[Arguments, Arguments]:
    """Keys and 30 rows, and no row has come."""
    keys = np.full(_KEYS, ABSENT), np.full(_KEYS, -1, np.int32), np.zeros(_KEYS, np.int32), np.zeros(_KEYS, np.uint8)
    row_keys = np.stack([rng.permutation(_KEYS)[:2] for _ in range(30)]).astype(np.int32).reshape(-1)
    row_keys[rng.random(60) < 0.3] = -1
    return keys, (np.full(30, ABSENT), row_keys, np.full(60, -1, np.int32), np.zeros(60, np.uint8))


def meet_keys(rng: Rng) -> Arguments:
    """Rows of both sides, after earlier rows; sometimes without room for all changes."""
    (keys, rows), negated, first = _key_state(rng), bool(rng.integers(0, 2)), 0
    for start in (0, 20):
        rights, lefts, ends = _sides(rng, first, start)
        rows[0][first : first + len(ends)] = ends
        first += len(ends)
        small = start == 20 and rng.random() < 0.25
        out, entered = _out(int(rng.integers(0, 30)) if small else _ROOM), np.zeros(len(rights[0]), np.int32)
        arguments = rights, lefts, keys, rows, negated, out, entered, np.zeros(4, np.int64)
        if start == 0:
            key_presence.meet_keys(*arguments)
    return arguments


def expire_keys(rng: Rng) -> Arguments:
    """Some keys of such a state, from one on."""
    rights, lefts, keys, rows, negated, out, entered, at = meet_keys(rng)
    key_presence.meet_keys(rights, lefts, keys, rows, negated, out, entered, at)
    expired = rng.permutation(_KEYS)[: int(rng.integers(0, _KEYS + 1))].astype(np.int32)
    return expired, int(rng.integers(0, len(expired) + 1)), keys, rows, negated, out, at


def link_rows(rng: Rng) -> Arguments:
    """Rows without links."""
    (_, head, links, _), (_, row_keys, following, _) = _key_state(rng)
    return row_keys, following, head, links


def meet_bands(rng: Rng) -> Arguments:
    """Rows of both sides, after earlier rows; sometimes without room for all changes."""
    keys = np.full(_KEYS, -1, np.int32), np.full(_KEYS, -1, np.int32), np.zeros(_KEYS, np.int32)
    keys = *keys, np.ones(2, np.uint8)
    right_keys, left_keys = rng.integers(0, _KEYS, (2, 30)).astype(np.int32)
    left_keys[rng.random(30) < 0.1] = -1
    lows, numbers = rng.integers(0, 9, (2, 30))
    if rng.random() < 0.5:
        lows, numbers = np.sort(lows), np.sort(numbers)
    right = np.full(30, ABSENT), numbers, right_keys, np.full(30, -1, np.int32)
    left_ends, partners = np.full(30, ABSENT), np.full(30, ABSENT)
    following, queued = np.full(30, -1, np.int32), np.zeros(30, np.uint8)
    left = left_ends, lows, lows + int(rng.integers(0, 4)), left_keys, following, partners, queued
    negated, first_right, first_left = bool(rng.integers(0, 2)), 0, 0
    for start in (0, 20):
        (_, right_starts, ends), lefts, left_row_ends = _sides(rng, first_left, start)
        right[0][first_right : first_right + len(ends)] = ends
        left_ends[first_left : first_left + len(left_row_ends)] = left_row_ends
        size = int(rng.integers(0, 30)) if start == 20 and rng.random() < 0.25 else _ROOM
        rights, out, entered = (first_right, right_starts), _out(size), np.zeros(30, np.int32)
        arguments = rights, lefts, keys, right, left, negated, out, entered, np.zeros(4, np.int64)
        if start == 0:
            band_presence.meet_bands(*arguments)
        first_right, first_left = first_right + len(ends), first_left + len(left_row_ends)
    return arguments


def chain_rows(rng: Rng) -> Arguments:
    """Rows, and the first ones are in lists."""
    keys, first = rng.integers(-1, _KEYS, 20).astype(np.int32), int(rng.integers(0, 21))
    following, head, links = np.full(20, -1, np.int32), np.full(_KEYS, -1, np.int32), np.zeros(_KEYS, np.int32)
    key_rows.chain_rows(keys[:first], 0, following, head, links)
    return keys, first, following, head, links


def gather_rows(rng: Rng) -> Arguments:
    """Rows in lists, and some of them left."""
    keys, first, following, head, links = chain_rows(rng)
    key_rows.chain_rows(keys, first, following, head, links)
    ends = np.where(rng.random(20) < 0.3, ABSENT, rng.integers(0, 9, 20))
    return rng.permutation(_KEYS)[: int(rng.integers(0, _KEYS))], head, following, ends, np.zeros(40, np.int32)


CASES = {
    "delta.band_presence.meet_bands": meet_bands,
    "delta.key_rows.chain_rows": chain_rows,
    "delta.key_rows.gather_rows": gather_rows,
    "delta.value_ends.prolong_values": prolong_values,
    "delta.key_presence.meet_keys": meet_keys,
    "delta.key_presence.expire_keys": expire_keys,
    "delta.key_presence.link_rows": link_rows,
}
