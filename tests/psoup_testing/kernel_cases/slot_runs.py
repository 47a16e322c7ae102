"""Arguments for the kernels that group and order pairs: some blocks, buckets that are empty, crowded or alone."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from psoup.kernels.arrive import slot_runs
from psoup.kernels.names import tuple_queries
from psoup.kernels.plain.arrive import slot_runs as plain
from psoup.kernels.plain.names import tuple_queries as plain_named
from psoup.kernels.plain.rows import radix_sort as plain_order
from psoup.results import runs as runs_of

Rng = np.random.Generator
Arguments = tuple[Any, ...]


def _pairs(rng: Rng, count: int, capacity: int) -> tuple[Any, Any]:
    """Pairs in the order of their offsets, none twice; often many of few slots."""
    limit = capacity if rng.random() < 0.7 else max(1, capacity // 16)
    pairs = np.unique(rng.integers(0, 65_536, count) << 16 | rng.integers(0, limit, count))
    return (pairs & 0xFFFF).astype(np.uint32), (pairs >> 16).astype(np.uint16)


def _sizes(rng: Rng) -> tuple[int, int]:
    """Pairs, and slots."""
    return int(rng.choice([0, 3, 60, 3 * slot_runs.MANY])), int(rng.choice([3, 40, 300, 3_000]))


def _blocks(rng: Rng) -> tuple[Any, Any, Any, int]:
    """Slots, offsets and starts of some blocks, and the number of slots."""
    (count, capacity), blocks = _sizes(rng), int(rng.integers(1, 4))
    slots, offsets = _pairs(rng, count, capacity)
    out_slots, out_offsets, starts = np.zeros_like(slots), np.zeros_like(offsets), runs_of.new_starts(blocks)
    edges = [0, *sorted(rng.integers(0, len(slots) + 1, blocks - 1).tolist()), len(slots)]
    for block, (low, high) in enumerate(pairwise(edges)):
        plain.group_pairs(slots[low:high], offsets[low:high], low, starts[block], out_slots, out_offsets)
    return out_slots, out_offsets, starts, capacity


def group_pairs(rng: Rng) -> Arguments:
    slots, offsets = _pairs(rng, *_sizes(rng))
    size = len(slots) + 5
    return slots, offsets, 5, runs_of.new_starts(1)[0], np.zeros(size, np.uint32), np.zeros(size, np.uint16)


def _keys(rng: Rng) -> tuple[Any, Any, Any]:
    """Keys of 20 clauses and 32 tuples in the order of the tuples, who is alive, and the slots."""
    keys = rng.permutation(20 << 5)[: int(rng.integers(0, 200))]
    keys = keys[np.argsort(keys & 31, kind="stable")].astype(rng.choice(["uint32", "uint64"]))
    alive, slots = rng.integers(0, 2, 20).astype(np.uint8), np.sort(rng.permutation(99)[:20]).astype(np.uint32)
    if rng.random() < 0.5:
        alive, slots = alive[:0], slots if rng.random() < 0.5 else np.arange(7, 27, dtype=np.uint32)
    return keys, alive, slots


def name_slots(rng: Rng) -> Arguments:
    keys, alive, slots = _keys(rng)
    return keys, 5, alive, slots


def group_keys(rng: Rng) -> Arguments:
    keys, _, _ = _keys(rng)
    if rng.random() < 0.3:  # a bucket of so many that it is put in order
        keys = np.sort(rng.permutation(4 << 13)[: 3 * slot_runs.MANY]).astype(keys.dtype)
        keys = (keys & 3) << 8 + 5 | keys >> 2 & 31 | (keys >> 7) << 5 + 10
    size, limit, start, first = (
        len(keys),
        int(rng.choice([7, 64, 20_000])),
        int(rng.integers(0, 100)),
        int(rng.choice([0, 9])),
    )
    starts = runs_of.new_starts(-(-size // limit))
    out = np.zeros(size, np.uint32), np.zeros(size, np.uint16)
    return keys, 5, start, first, starts, np.zeros(limit, keys.dtype), *out


def find_pairs(rng: Rng) -> Arguments:
    slots, offsets, starts, capacity = _blocks(rng)
    low, high = sorted(rng.integers(0, 65_537, 2).tolist()) if rng.random() < 0.5 else (0, 65_536)
    slot = int(rng.choice(slots)) if len(slots) and rng.random() < 0.7 else int(rng.integers(0, 3 * capacity))
    return slots, offsets, starts, slot, low, high, np.zeros(len(slots), np.int64)


def mark_pairs(rng: Rng) -> Arguments:
    *arguments, stop, out = find_pairs(rng)
    return *arguments, stop, np.full(len(out) % 3 + (stop + 63) // 64, 1 << 63, np.uint64)


def count_pairs(rng: Rng) -> Arguments:
    slots, _, starts, capacity = _blocks(rng)
    return slots, starts, int(rng.integers(0, 2 * capacity))


def put_together(rng: Rng) -> Arguments:
    slots, offsets, starts, capacity = _blocks(rng)
    return slots, offsets, starts, capacity, np.zeros_like(slots), np.zeros_like(offsets)


def busy_slots(rng: Rng) -> Arguments:
    slots, _, starts, capacity = _blocks(rng)
    limit = int(rng.choice([1, 4, 300]))
    return slots, starts, capacity, limit, np.zeros(len(slots) // limit + 1, np.int64)


def keys_to_rows(rng: Rng) -> Arguments:
    keys, alive, slots = _keys(rng)
    row_of_slot = np.where(rng.random(99) < 0.5, rng.permutation(99), -1).astype(np.int32)
    shape = [(1, 99, 4), (2, 99, 2), (4, 99, 1)][int(rng.integers(0, 3))]
    rows = rng.integers(0, 2**64, shape, np.uint64) & rng.integers(0, 2**64, shape, np.uint64)
    return keys, 5, int(rng.integers(0, 100)), alive, slots, row_of_slot, rows


def longest_rising(rng: Rng) -> Arguments:
    """Positions in another order, or with some that come twice."""
    values = rng.permutation(40) if rng.random() < 0.5 else rng.integers(0, 30, int(rng.integers(0, 40)))
    return values, np.zeros(40, np.int64), np.zeros(40, np.int64), np.zeros(40, np.int64)


def digit_pass(rng: Rng) -> Arguments:
    """Keys of all bits or of few, and some of their rows."""
    keys = rng.integers(-(2**63), 2**63 - 1, 40) if rng.random() < 0.5 else rng.integers(-5, 5, 40)
    rows = rng.permutation(40)[: int(rng.integers(0, 41))].astype(rng.choice(["uint32", "int64"]))
    shift, ends = int(rng.integers(0, 60)), np.zeros(1 << int(rng.integers(1, 9)), np.int64)
    return keys, int(keys.min()), shift, rows, ends, np.zeros_like(rows)


def count_digits(rng: Rng) -> Arguments:
    """A piece of the rows: some are counted already."""
    *given, counts, _ = digit_pass(rng)
    return *given, counts + rng.integers(0, 5, len(counts))


def move_rows(rng: Rng) -> Arguments:
    """A piece of the rows: others come after it."""
    *given, starts, _ = digit_pass(rng)
    plain_order.count_digits(*given, starts)
    counts = starts + rng.integers(0, 3, len(starts))
    return *given, np.cumsum(counts) - counts, np.zeros(int(counts.sum()), given[-1].dtype)


def order_keys(rng: Rng) -> Arguments:
    """Few and many keys of narrow and of all bits, often in order or equal."""
    count = int(rng.choice([0, 1, 2, 30, 3_000]))
    kind = rng.choice(["int32", "int64"])
    limits = np.iinfo(kind)
    if rng.random() < 0.3:
        keys = rng.integers(limits.min, limits.max, count, kind, endpoint=True)
    else:
        keys = (int(rng.integers(-99, 99)) + rng.integers(0, int(rng.choice([1, 2, 300, 2**30])), count)).astype(kind)
    if rng.random() < 0.3:
        keys.sort()
    return keys, np.zeros(count, np.int64), np.zeros(count, np.int64)


def split_keys(rng: Rng) -> Arguments:
    keys, _, _ = _keys(rng)
    return keys, 5, int(rng.integers(0, 100)), 9, np.zeros(len(keys), np.uint32), np.zeros(len(keys), np.uint16)


def _in_stretches(rng: Rng) -> tuple[Any, Any, int]:
    """Pairs in the order of their offsets, in none, or in stretches; and the slots."""
    count, capacity = _sizes(rng)
    slots, offsets = _pairs(rng, count, capacity)
    if rng.random() < 0.5:
        offsets = np.sort(offsets % np.uint16(rng.choice([3, 50])))
    order = np.arange(len(slots)) if rng.random() < 0.7 else rng.permutation(len(slots))
    return slots[order], offsets[order], capacity


def count_offsets(rng: Rng) -> Arguments:
    """Of `psoup.kernels.names.tuple_queries.count_offsets`."""
    _, offsets, _ = _in_stretches(rng)
    return offsets, np.zeros(len(offsets), np.int32), rng.integers(0, 9, 65_536)


def place_by_offset(rng: Rng) -> Arguments:
    """Of `psoup.kernels.names.tuple_queries.place_by_offset`."""
    slots, offsets, capacity = _in_stretches(rng)
    ends = np.zeros(len(offsets), np.int32)
    sizes = np.zeros(65_536, np.int64)
    ends = ends[: plain_named.count_offsets(offsets, ends, sizes)]
    names = rng.integers(-9, 1_000, capacity).astype(rng.choice([np.int32, np.int64]))
    bases = rng.choice([tuple_queries.UNEVEN, 7, 2_000], -(-capacity // (1 << tuple_queries.TOGETHER)))
    out, several = np.zeros(len(slots), np.int64), np.zeros(len(slots) + 1, np.int64)
    return slots, offsets, ends, names, bases, 7, np.cumsum(sizes) - sizes, out, several


def _rows(rng: Rng) -> tuple[Any, int]:
    """Rows of bits in blocks of some words, sparse or dense, and how many are in use."""
    rows = rng.integers(0, 2**64, (int(rng.integers(1, 3)), 5, int(rng.choice([1, 8, 11]))), np.uint64, endpoint=False)
    return rows & np.roll(rows, 1) if rng.random() < 0.5 else rows, int(rng.integers(0, 6))


def count_bits(rng: Rng) -> Arguments:
    """Of `psoup.kernels.names.tuple_queries.count_bits`."""
    rows, count = _rows(rng)
    return rows, count, rng.integers(0, 9, rows.shape[0] * rows.shape[2] * 64)


def place_bits(rng: Rng) -> Arguments:
    """Of `psoup.kernels.names.tuple_queries.place_bits`."""
    rows, count = _rows(rng)
    sizes = np.zeros(rows.shape[0] * rows.shape[2] * 64, np.int64)
    plain_named.count_bits(rows, count, sizes)
    total = int(sizes.sum())
    queries = rng.integers(-3, 99, count)
    return rows, queries, np.cumsum(sizes) - sizes, np.zeros(total, np.int64), np.zeros(total + 1, np.int64)


def write_out(rng: Rng) -> Arguments:
    """Of `psoup.kernels.names.tuple_queries.write_out`."""
    sizes = np.append(0, rng.integers(0, 5, 3))
    queries = rng.integers(-4, 9, int(rng.choice([0, 3, 60])))
    several = np.flatnonzero(queries < 0)
    size = len(queries) - len(several) + int(sizes[-1 - queries[several]].sum())
    members = rng.integers(0, 99, int(sizes.sum()))
    return queries, several, np.append(0, np.cumsum(sizes)), members, np.zeros(size, np.int64)
