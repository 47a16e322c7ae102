"""Twins of `psoup.kernels.search.result_rows`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.arrive.slot_runs import BUCKETS
from psoup.kernels.plain import Array
from psoup.kernels.plain.rows.batch_body import _at
from psoup.kernels.plain.rows.bitmaps import _set_bits
from psoup.kernels.search.result_rows import (
    BITS,
    LIST,
    MIXED,
    NOTHING,
    PACK_NUMBERS,
    PACKED,
    PACKS_AT,
    RANGE,
    RUN_NUMBERS,
    RUNS_AT,
)


def _packed(numbers: Array, sqc_id: int, start: int, stop: int, rows: int) -> tuple[int, int, int]:
    """Form, address and count."""
    packs = numbers[PACKS_AT:].reshape(-1, PACK_NUMBERS)
    for ids, size, counts, place, lists, bitmaps, words in packs.tolist():
        for at in np.flatnonzero(_at(ids, size, np.int64) == sqc_id).tolist():
            count, first = int(_at(counts, size, np.int32)[at]), int(_at(place, size, np.int64)[at])
            if first >= 0:
                offsets = _at(lists + 2 * first, count, np.uint16)
                low, high = np.searchsorted(offsets, start), np.searchsorted(offsets, stop)
                return LIST, lists + 2 * int(first + low), int(high - low)
            address = bitmaps + 8 * words * ~first
            bits = _set_bits(_at(address, words, np.uint64))
            return BITS, address, int(((bits >= start) & (bits < stop)).sum())
    return NOTHING, 0, 0


def _mixed(numbers: Array, slot: int, start: int, stop: int) -> Array:
    """The offsets of a slot in an open chunk."""
    _, _, _, slots, size, rows, blocks, height, width, used = numbers[:RUNS_AT].tolist()
    row = int(_at(slots, size, np.int32)[slot]) if slot < size else -1
    matches = [np.zeros(0, np.int64)]
    if 0 <= row < used:
        words = _at(rows, blocks * height * width, np.uint64).reshape(blocks, height, width)
        matches.append(_set_bits(words[:, row].reshape(-1)))
    for part, offsets, starts, count in numbers[RUNS_AT:].reshape(-1, RUN_NUMBERS).tolist():
        pairs = int(_at(starts, count * (BUCKETS + 1), np.int64)[-1]) if count else 0
        matches.append(_at(offsets, pairs, np.uint16)[_at(part, pairs, np.uint32) == slot])
    offsets = np.unique(np.concatenate(matches))
    return offsets[(offsets >= start) & (offsets < stop)]


def locate(chunks: Array, low: int, high: int, sqc_id: int, slot: int, located: Array) -> int:
    """See the kernel."""
    for (address, size, first, rows), out in zip(chunks.tolist(), located, strict=True):
        start, stop = max(low - first, 0), min(high - first, rows)
        out[:] = NOTHING, 0, start, stop, 0
        if start >= stop:
            continue
        if not address:
            out[0], out[4] = RANGE, stop - start
            continue
        numbers = _at(address, size, np.int64)
        if sqc_id >= numbers[1]:
            return -1
        if numbers[0] == PACKED:
            out[0], out[1], out[4] = _packed(numbers, sqc_id, start, stop, rows)
        else:
            out[0], out[1], out[4] = MIXED, address, len(_mixed(numbers, slot, start, stop))
    return int(located[:, 4].sum())


def write_rows(located: Array, chunks: Array, slot: int, rows: Array) -> int:
    """See the kernel."""
    matches = [np.zeros(0, np.int64)]
    for (form, address, start, stop, count), (_, size, *_) in zip(located.tolist(), chunks.tolist(), strict=True):
        if form == RANGE:
            matches.append(np.arange(start, stop))
        elif form == LIST:
            matches.append(_at(address, count, np.uint16))
        elif form == BITS:
            bits = _set_bits(_at(address, (stop + 63) >> 6, np.uint64))
            matches.append(bits[(bits >= start) & (bits < stop)])
        elif form == MIXED:
            matches.append(_mixed(_at(address, size, np.int64), slot, start, stop))
    rows[:] = np.concatenate(matches)
    return len(rows)
