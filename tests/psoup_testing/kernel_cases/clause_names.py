"""Arguments for the kernels of texts and of names: some alike at their beginning, names that meet in a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.plain.arrive import codes
from psoup.kernels.plain.names import clause_names

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def texts(rng: Rng, count: int, unique: bool) -> tuple[Any, Any]:
    """Ends and bytes of texts that begin alike; in order and none twice, if they are to be unique."""
    words = [
        bytes(rng.choice([0, 97, 98, 255], int(rng.choice([0, 1, 2, 7, 8, 9, 10]))).tolist()) for _ in range(count)
    ]
    if unique:
        words = sorted(set(words))
    offsets = np.cumsum([0, *map(len, words)]).astype(np.int64)
    return offsets, np.frombuffer(bytearray(b"".join(words)), np.uint8)


def _prefixed(rng: Rng, count: int, unique: bool) -> tuple[Any, Any, Any]:
    offsets, data = texts(rng, count, unique)
    keys = np.zeros(len(offsets) - 1, np.uint64)
    codes.prefix_keys(offsets, data, keys)
    return offsets, data, keys


def _names(rng: Rng, count: int) -> Any:
    """Pairs of lanes of which some are equal, and some only begin at the same place of a table."""
    return np.stack([rng.integers(0, 40, count), rng.integers(0, 2, count)], axis=1).astype(np.uint64)


def _filled_table(rng: Rng) -> tuple[Any, Any, Any]:
    """Slots of different clauses, the lanes of all slots, and a table with those slots."""
    names = _names(rng, 30)
    _, first = np.unique(names, axis=0, return_index=True)
    slots, table = rng.permutation(first)[:12], np.full(64, -1, np.int32)
    clause_names.fill_table(slots, names, table)
    return slots, names, table


def look_up(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    _, names, table = _filled_table(rng)
    return _names(rng, 40), table, names, np.zeros(40, np.int64), np.zeros(40, np.int64)


def take_out(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    slots, names, table = _filled_table(rng)
    some = rng.permutation(slots)[: int(rng.integers(0, 5))]
    return np.append(some, 29) if rng.random() < 0.2 else some, names, table


def _run(rng: Rng, exact: bool) -> tuple[Any, Any, Any]:
    """A sorted run of names, none twice if they are `exact`, with numbers."""
    names = _names(rng, int(rng.integers(0, 30)))
    names[:, 0] <<= np.uint64(58)
    names = np.unique(names, axis=0) if exact else names[np.argsort(names[:, 0], kind="stable")]
    ids = rng.integers(0, 1_000, len(names)).astype(np.uint32)
    return names[:, 0].copy(), names[: len(names) if exact else 0, 1].copy(), ids


def find_names(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    wanted = _names(rng, 40)
    wanted[:, 0] <<= np.uint64(58)
    return wanted, *_run(rng, exact=True)[:2], np.zeros(40, np.int64)


def merge_names(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    exact = bool(rng.random() < 0.5)
    first, two = _run(rng, exact), _run(rng, exact)
    size = len(first[0]) + len(two[0])
    out = np.zeros(size, np.uint64), np.zeros(size if exact else 0, np.uint64), np.zeros(size, np.uint32)
    return *first, *two, *out


def _seeds(rng: Rng) -> Any:
    return rng.integers(0, 2**64, 2, np.uint64)


def encode_text(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    given = _prefixed(rng, 40, False)
    return *given, *_prefixed(rng, int(rng.integers(0, 20)), True), 5, np.zeros(len(given[2]), np.int32)


def mix_words(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    return rng.integers(0, 2**64, (9, 3), np.uint64), _seeds(rng), rng.integers(0, 2**64, (9, 2), np.uint64)


def mix_texts(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    return *texts(rng, 30, False), _seeds(rng), np.zeros((30, 2), np.uint64)


def fill_table(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    return *_filled_table(rng)[:2], np.full(64, 5, np.int32)


def prefix_keys(rng: Rng) -> Arguments:
    """Arguments of the kernel of that name."""
    return *texts(rng, 30, False), np.zeros(30, np.uint64)
