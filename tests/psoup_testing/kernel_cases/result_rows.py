"""Arguments for the kernels that locate matches: results of sealed chunks and of an open one, as in the engine."""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.kernels.arrive.slot_runs import MANY
from psoup.kernels.plain.search import result_rows as plain
from psoup.results.open import OpenView
from psoup.results.pack import Pack
from psoup.results.places import places_of
from psoup.results.room import RowRoom
from psoup.results.runs import grouped
from psoup.values.columns import Array

Rng = np.random.Generator
Arguments = tuple[Any, ...]

ROWS = 512
"""Tuples of a full chunk."""

BLOCK = 2
"""Words of a block of an open chunk."""

_KEPT: list[Any] = []
"""Arrays that kernels get by address, kept alive."""


def _words(rng: Rng, share: float) -> Array:
    """The bits of some tuples of a full chunk; a word of all ones is among them at times."""
    marks = rng.random(ROWS) < share
    if rng.random() < 0.3:
        marks[64:128] = True
    return np.packbits(marks, bitorder="little").view(np.uint64)


def _packs(rng: Rng) -> tuple[Pack, ...]:
    """Packs of clauses 0 to 5, and 6 to 9: lists and bitmaps."""
    made = []
    for first, last in ((0, 6), (6, 10))[: int(rng.integers(0, 3))]:
        ids = np.sort(rng.permutation(np.arange(first, last))[: int(rng.integers(1, last - first + 1))])
        counts, place, lists, bitmaps = list[int](), list[int](), list[Array](), list[Array]()
        for _ in ids:
            offsets = np.sort(rng.permutation(ROWS)[: int(rng.integers(1, 9))])
            if rng.random() < 0.5:
                place.append(sum(map(len, lists)))
                lists.append(offsets.astype(np.uint16))
            else:
                place.append(~len(bitmaps))
                bitmaps.append(_words(rng, float(rng.choice([0.02, 0.5, 1]))))
                offsets = np.flatnonzero(np.unpackbits(bitmaps[-1].view(np.uint8), bitorder="little"))
            counts.append(len(offsets))
        all_lists = np.concatenate([np.zeros(0, np.uint16), *lists])
        all_maps = np.array(bitmaps, np.uint64).reshape(-1, ROWS // 64)
        made.append(Pack(ids, np.array(counts, np.int32), np.array(place, np.int64), all_lists, all_maps))
    return tuple(made)


def _open(rng: Rng) -> OpenView:
    """Slots 0 to 9 in rows, in runs, in both or in neither, one of them many times."""
    row_of_slot = np.full(10, -1, np.int32)
    with_row = rng.permutation(9)[: int(rng.integers(0, 5))]
    row_of_slot[with_row] = np.arange(len(with_row))
    rows = np.zeros((ROWS // 64 // BLOCK, len(with_row) + 1, BLOCK), np.uint64)
    for row in range(len(with_row)):
        rows[:, row] = _words(rng, 0.2).reshape(-1, BLOCK)
    runs = []
    for part in np.split(np.arange(ROWS), np.sort(rng.integers(0, ROWS, int(rng.integers(0, 3))))):
        pairs = rng.permutation(len(part) * 10)[: int(rng.choice([0, 9, 200]))]
        pairs = np.sort(pairs)
        runs.append(grouped((pairs % 10).astype(np.uint32), part[pairs // 10].astype(np.uint16)))
    if rng.random() < 0.1:  # a bucket that is in the order of its slots
        slots = np.repeat(np.array([3, 259], np.uint32), MANY)
        runs.append(grouped(slots, np.tile(np.arange(MANY, dtype=np.uint16), 2)))
    used = len(with_row) if rng.random() < 0.8 else len(with_row) // 2
    sqc_of_slot = np.arange(10)
    return OpenView(sqc_of_slot, row_of_slot, rows, used, tuple(runs), ROWS, RowRoom(ROWS // 64, BLOCK))


def _chunks(rng: Rng) -> Array:
    """The last chunk is open and has few tuples. Sometimes a clause is not covered in a chunk, or no clause has a
    condition.
    """
    numbers, first, count = list[tuple[int, ...]](), int(rng.choice([0, -2 * ROWS])), int(rng.integers(1, 5))
    for place in range(count):
        last = place == count - 1
        open_chunk = _open(rng) if last else None, () if last else _packs(rng)
        places = places_of(*open_chunk, 2**62 if last else 10)
        if rng.random() < 0.05:
            places = places_of(None, (), 4)
        rows = int(rng.integers(0, ROWS + 1)) if last else ROWS
        _KEPT.append((open_chunk, places))
        numbers.append((places.address, places.size, first, rows))
        first += rows
    chunks = np.array(numbers, np.int64)
    if rng.random() < 0.1:
        chunks[:, :2] = 0
    return chunks


def locate(rng: Rng) -> Arguments:
    """Windows that begin and end in any chunk, or lie before or behind all; clauses that match nothing."""
    chunks = _chunks(rng)
    first, end = int(chunks[0, 2]), int(chunks[-1, 2] + chunks[-1, 3])
    low, high = sorted(rng.integers(first - 9, end + 9, 2).tolist()) if rng.random() < 0.7 else (first, end)
    sqc_id = int(rng.integers(0, 11 if rng.random() < 0.2 else 10))
    return chunks, low, high, sqc_id, int(rng.integers(0, 12)), np.full((len(chunks), 5), 7, np.int64)


def write_rows(rng: Rng) -> Arguments:
    locators = locate(rng)
    count = plain.locate(*locators)
    if count < 0:
        return write_rows(rng)
    chunks, *_, slot, located = locators
    return located, chunks, slot, np.zeros(count, np.int32)


LOCATING = {"search.result_rows.locate": locate, "search.result_rows.write_rows": write_rows}
"""Part of `psoup_testing.kernel_cases.all_cases.CASES`."""
