"""Cases of `psoup.kernels.search.match_pairs`: lists and bitmaps of clauses, runs with more slots."""

from __future__ import annotations

from typing import Any

import numpy as np

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _span(rng: Rng, tuples: int) -> tuple[int, int]:
    low, high = sorted(rng.integers(0, tuples + 1, 2).tolist())
    return (0, tuples) if rng.random() < 0.2 else (low, high)


def _lists(rng: Rng) -> tuple[Any, Any, Any]:
    """Lists one behind the other, of which some are wanted: their places and lengths."""
    lists = [np.sort(rng.permutation(90)[: int(rng.integers(0, 9))]) for _ in range(12)]
    counts = np.array([len(some) for some in lists])
    wanted = np.sort(rng.permutation(12)[: int(rng.integers(0, 13))])
    return np.concatenate(lists).astype(np.uint16), (np.cumsum(counts) - counts)[wanted], counts[wanted]


def _lists_within(rng: Rng) -> Arguments:
    lists, places, counts = _lists(rng)
    return lists, *_span(rng, 90), places, counts


def _lists_to_pairs(rng: Rng) -> Arguments:
    lists, places, counts = _lists(rng)
    names, room = rng.integers(0, 1 << 40, len(places)), int(counts.sum())
    return lists, places, counts, names, np.zeros(room, np.int64), np.zeros(room, np.int64)


def _place_rows(rng: Rng) -> Arguments:
    """Rows of some sets, which have some already."""
    count, sets = int(rng.integers(0, 20)), 4
    starts = np.concatenate([[0], np.sort(rng.integers(0, count + 1, sets - 1)), [count]])
    out = np.zeros(sets * (count + 3), np.int32)
    free = np.arange(sets) * (count + 3) + rng.integers(0, 3, sets)
    return starts, rng.integers(0, 99, count), int(rng.integers(-9, 9)), free, out


def _bitmaps(rng: Rng) -> tuple[Any, Any, tuple[int, int]]:
    bits = rng.random((5, 192)) < rng.choice([0.02, 0.5, 1.0])
    bitmaps = np.packbits(bits, axis=1, bitorder="little").view(np.uint64)
    return bitmaps, rng.integers(0, 5, int(rng.integers(0, 7))), _span(rng, 192)


def _count_within(rng: Rng) -> Arguments:
    bitmaps, which, span = _bitmaps(rng)
    return bitmaps, which, *span, np.zeros(len(which), np.int64)


def _bitmaps_to_pairs(rng: Rng) -> Arguments:
    bitmaps, which, (start, stop) = _bitmaps(rng)
    bits = np.unpackbits(bitmaps[which].view(np.uint8), axis=1, bitorder="little")
    room = int(bits[:, start:stop].sum())
    names = rng.integers(0, 1 << 40, len(which))
    return bitmaps, which, start, stop, names, np.zeros(room, np.int64), np.zeros(room, np.int64)


def _runs_to_pairs(rng: Rng) -> Arguments:
    count = int(rng.integers(0, 60))
    slots, run = rng.integers(0, 12, count).astype(np.uint32), rng.integers(0, 90, count).astype(np.uint16)
    places = rng.integers(-1, 6, int(rng.integers(0, 13))).astype(np.int32)
    return slots, run, places, *_span(rng, 90), np.zeros(count, np.int64), np.zeros(count, np.int64)


def _hits_in_run(rng: Rng) -> Arguments:
    count = int(rng.integers(0, 60))
    slots, offsets = rng.integers(0, 12, count).astype(np.uint32), rng.integers(0, 90, count).astype(np.uint16)
    places = rng.integers(-1, 6, int(rng.integers(0, 13))).astype(np.int32)
    return slots, offsets, places, int(rng.integers(0, 95)), rng.integers(0, 2, 6).astype(np.uint8)


def _hits_in_rows(rng: Rng) -> Arguments:
    blocks, height, width = int(rng.integers(1, 4)), int(rng.integers(1, 6)), int(rng.integers(1, 3))
    bits = rng.random((blocks, height, width * 64)) < rng.choice([0.0, 0.005, 0.1])
    rows = np.packbits(bits, axis=-1, bitorder="little").view(np.uint64)
    row_of_slot = rng.integers(-1, height, int(rng.integers(0, 9))).astype(np.int32)
    start, stop = sorted(rng.choice(blocks * width * 64 + 1, 2, replace=False).tolist())
    slots, hits = rng.integers(0, 12, 7), rng.integers(0, 2, 7).astype(np.uint8)
    return rows, int(rng.integers(0, height + 1)), row_of_slot, slots, start, stop, hits


def _add_named(rng: Rng) -> Arguments:
    names, base = (
        np.sort(rng.permutation(60)[: int(rng.integers(0, 40))]) + (1 << 40),
        (1 << 40) + int(rng.integers(9)),
    )
    table = rng.integers(-1, 5, int(rng.integers(0, 50))).astype(np.int32)
    return names, rng.integers(1, 9, len(names)).astype(np.int32), base, table, rng.integers(0, 9, 5)


def _named_size(rng: Rng) -> Arguments:
    _, names, counts, places, base, table = _named(rng)
    return names, counts, places, base, table


def _named_to_pairs(rng: Rng) -> Arguments:
    lists, *named = _named(rng)
    room = [np.zeros(len(lists), np.int64) for _ in range(2)]
    span = (0, 1 << 40) if rng.random() < 0.3 else _span(rng, 90)
    return lists, *named, *span, *room


def _named(rng: Rng) -> tuple[Any, ...]:
    """Lists, and their names of which some are wanted; some have no list."""
    every = [np.sort(rng.permutation(90)[: int(rng.integers(1, 9))]) for _ in range(12)]
    counts = np.array([len(some) for some in every], np.int32)
    places = np.where(rng.random(12) < 0.2, -1 - np.arange(12), np.cumsum(counts) - counts)
    names, base = np.sort(rng.permutation(30)[:12]) + (1 << 40), (1 << 40) + int(rng.integers(9))
    table = rng.integers(-1, 9, int(rng.integers(1, 30))).astype(np.int32)
    return np.concatenate(every).astype(np.uint16), names, counts, places, base, table


CASES = {
    "search.match_pairs.named_size": _named_size,
    "search.match_pairs.named_to_pairs": _named_to_pairs,
    "search.match_pairs.add_named": _add_named,
    "search.match_pairs.lists_within": _lists_within,
    "search.match_pairs.place_rows": _place_rows,
    "search.match_pairs.lists_to_pairs": _lists_to_pairs,
    "search.match_pairs.count_within": _count_within,
    "search.match_pairs.bitmaps_to_pairs": _bitmaps_to_pairs,
    "search.match_pairs.runs_to_pairs": _runs_to_pairs,
    "arrive.watch_hits.hits_in_run": _hits_in_run,
    "arrive.watch_hits.hits_in_rows": _hits_in_rows,
}
