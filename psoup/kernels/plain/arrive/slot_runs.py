"""Twins of `psoup.kernels.arrive.slot_runs`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.arrive.slot_runs import BUCKETS, MANY
from psoup.kernels.plain import Array
from psoup.kernels.plain.rows.bit_blocks import set_bits
from psoup.kernels.plain.rows.bitmaps import offsets_to_bits


def group_pairs(slots: Array, offsets: Array, at: int, starts: Array, out_slots: Array, out_offsets: Array) -> None:
    """See the kernel."""
    buckets = slots % BUCKETS
    sizes = np.bincount(buckets, minlength=BUCKETS)
    starts[:] = at + np.concatenate([[0], np.cumsum(sizes)])
    order = np.lexsort((np.where((sizes > MANY)[buckets], slots, 0), buckets))
    out_slots[at : at + len(slots)], out_offsets[at : at + len(slots)] = slots[order], offsets[order]


def name_slots(keys: Array, bits: int, alive: Array, slots: Array) -> int:
    """See the kernel."""
    clauses = (keys >> keys.dtype.type(bits)).astype(np.int64)
    named = slots[clauses].astype(np.int64) << bits | keys.astype(np.int64) & ((1 << bits) - 1)
    named = named[alive[clauses] == 1] if len(alive) else named
    keys[: len(named)] = named
    return len(named)


def group_keys(
    keys: Array, bits: int, start: int, first: int, starts: Array, block: Array, out_slots: Array, out_offsets: Array
) -> None:
    """See the kernel."""
    slots = (first + (keys >> keys.dtype.type(bits)).astype(np.int64)).astype(np.uint32)
    offsets = (start + (keys.astype(np.int64) & ((1 << bits) - 1))).astype(np.uint16)
    for number, block_starts in enumerate(starts):
        at = number * len(block)
        some = slice(at, at + len(block))
        group_pairs(slots[some], offsets[some], at, block_starts, out_slots, out_offsets)


def split_keys(keys: Array, bits: int, start: int, first: int, out_slots: Array, out_offsets: Array) -> None:
    """See the kernel."""
    out_slots[:] = first + (keys >> keys.dtype.type(bits)).astype(np.int64)
    out_offsets[:] = start + (keys.astype(np.int64) & ((1 << bits) - 1))


def find_pairs(slots: Array, offsets: Array, starts: Array, slot: int, start: int, stop: int, out: Array) -> int:
    """See the kernel."""
    matches = np.concatenate([offsets[:0], *(offsets[places] for places in _of_slot(slots, starts, slot))])
    matches = matches[(matches >= start) & (matches < stop)]
    out[: len(matches)] = matches
    return len(matches)


def mark_pairs(slots: Array, offsets: Array, starts: Array, slot: int, start: int, stop: int, words: Array) -> None:
    """See the kernel."""
    count = np.zeros(len(slots), offsets.dtype)
    offsets_to_bits(count[: find_pairs(slots, offsets, starts, slot, start, stop, count)], words)


def count_pairs(slots: Array, starts: Array, slot: int) -> int:
    """See the kernel."""
    return sum(len(places) for places in _of_slot(slots, starts, slot))


def put_together(
    slots: Array, offsets: Array, starts: Array, capacity: int, out_slots: Array, out_offsets: Array
) -> None:
    """See the kernel."""
    places = np.concatenate([np.arange(block[0], block[-1]) for block in starts])
    bucket_slots = slots[places]
    order = places[np.lexsort((bucket_slots // BUCKETS, bucket_slots % BUCKETS))]
    out_slots[:], out_offsets[:] = slots[order], offsets[order]


def busy_slots(slots: Array, starts: Array, capacity: int, cap: int, out: Array) -> int:
    """See the kernel."""
    busy = np.flatnonzero(np.bincount(slots) > cap)
    out[: len(busy)] = busy
    return len(busy)


def keys_to_rows(
    keys: Array, bits: int, start: int, alive: Array, slots: Array, row_of_slot: Array, rows: Array
) -> int:
    """See the kernel."""
    clauses = (keys >> keys.dtype.type(bits)).astype(np.int64)
    row_of_key = row_of_slot[slots[clauses]]
    offsets = start + (keys.astype(np.int64) & ((1 << bits) - 1))
    moved = (row_of_key >= 0) & (alive[clauses] == 1 if len(alive) else True)
    set_bits(rows, row_of_key[moved], offsets[moved])
    left = keys[row_of_key < 0]
    keys[: len(left)] = left
    return len(left)


def _of_slot(slots: Array, starts: Array, slot: int) -> list[Array]:
    bucket = slot % BUCKETS
    spans = [np.arange(block[bucket], block[bucket + 1]) for block in starts]
    return [span[slots[span] == slot] for span in spans]
