"""Runs: the pairs (slot, offset) of a piece of tuples, grouped by slot without a comparison.

    pairs in the order of the tuples    9 2 14 3 | 8 2 15 | 3 9      slots; four buckets: the slot's last two bits
    grouped                             8 | 9 9 | 2 14 2 | 3 15 3    a bucket after the other, each in the order it had

A *block* is some pairs that were grouped together. A *bucket* of it has the pairs whose slots end in the same bits.
There are BUCKETS of them, as many as the first cache has lines to write to. Two passes group a block. A search for one
slot looks through one bucket of each block. A bucket of more than MANY pairs is in order of its slots. The pairs of one
slot always keep their order.
Buckets go by the last bits: neighbouring slots come together, and a counter that was just written is slow to read
again. A comparison sort took 3 to 67 ns a pair, by the processor.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.compile.inner import inner
from psoup.kernels.rows.bit_blocks import _set_bit

_BITS = 8
BUCKETS = 1 << _BITS
_LAST = BUCKETS - 1
MANY = 4_096


@njit(cache=True, nogil=True)
def _begin(starts, at):
    """Turn the number of pairs of bucket b - 1, in starts[b], into the place where each bucket begins."""
    total = np.int64(at)
    for b in range(starts.shape[0]):
        total += starts[b]
        starts[b] = total


@njit(cache=True, nogil=True)
def _order_large(slots, offsets, starts):
    """Order the buckets of more than MANY pairs by slot."""
    for b in range(starts.shape[0] - 1):
        low, high = starts[b], starts[b + 1]
        if high - low <= MANY:
            continue
        own_slots, own_offsets = slots[low:high].copy(), offsets[low:high].copy()
        places = np.zeros((np.int64(own_slots.max()) >> _BITS) + 2, np.int64)
        for i in range(own_slots.shape[0]):
            places[(own_slots[i] >> _BITS) + 1] += 1
        _begin(places, low)
        for i in range(own_slots.shape[0]):
            place = places[own_slots[i] >> _BITS]
            slots[place], offsets[place] = own_slots[i], own_offsets[i]
            places[own_slots[i] >> _BITS] = place + 1


@njit(cache=True, nogil=True)
def group_pairs(slots, offsets, at, starts, out_slots, out_offsets):
    """Group pairs as a block, from place `at` on.

    slots: uint32[k]; offsets: uint16[k], ascending for each slot. Read. starts: int64[BUCKETS + 1], written: bucket
    b has the places starts[b] up to starts[b + 1]. out_slots: uint32, out_offsets: uint16, written at the places `at`
    up to at + k. O(k + BUCKETS).
    """
    starts[:] = 0
    for i in range(slots.shape[0]):
        starts[(slots[i] & _LAST) + 1] += 1
    _begin(starts, at)
    cursor = starts.copy()
    for i in range(slots.shape[0]):
        slot = slots[i]
        place = cursor[slot & _LAST]
        out_slots[place], out_offsets[place] = slot, offsets[i]
        cursor[slot & _LAST] = place + 1
    _order_large(out_slots, out_offsets, starts)


@njit(cache=True, nogil=True)
def name_slots(keys, bits, alive, slots):
    """Name matches by slot instead of by clause, and drop the matches of removed clauses; returns how many are left.

    keys: uint32 or uint64[k], clause << bits | tuple, written: slot << bits | tuple, in their order at the beginning.
    alive: uint8[S], 0 = removed, or uint8[0] if none is; slots: uint32[S], by clause. Read. O(k).
    """
    shift, mask, all_alive = keys.dtype.type(bits), keys.dtype.type((1 << bits) - 1), alive.shape[0] == 0
    if all_alive:
        for i in range(keys.shape[0]):
            keys[i] = keys.dtype.type(slots[keys[i] >> shift]) << shift | keys[i] & mask
        return keys.shape[0]
    remaining = 0
    for i in range(keys.shape[0]):
        key = keys[i]
        clause = key >> shift
        keys[remaining] = keys.dtype.type(slots[clause]) << shift | key & mask
        remaining += alive[clause]
    return remaining


@njit(cache=True, nogil=True)
def _group_some(keys, shift, first, starts, cursor, block):
    """Write some keys bucket after bucket to `block`; starts[b]: where bucket b begins. See `group_keys`."""
    last = keys.dtype.type(_LAST)
    starts[:] = 0
    for i in range(keys.shape[0]):
        starts[np.int64((first + (keys[i] >> shift)) & last) + 1] += 1
    _begin(starts, 0)
    cursor[:] = starts
    for i in range(keys.shape[0]):
        key = keys[i]
        bucket = np.int64((first + (key >> shift)) & last)
        place = cursor[bucket]
        block[place] = key
        cursor[bucket] = place + 1


@njit(cache=True, nogil=True)
def group_keys(keys, bits, start, first, starts, block, out_slots, out_offsets):
    """Group matches as blocks, one behind the other.

    keys: uint32 or uint64[k], slot - first << bits | tuple, tuples ascending for each slot. start: the offset of tuple
    0. Read. block: as keys, [m], scratch: a block is of m keys. It stays in the cache and is taken apart as a whole:
    writing to new memory at 256 places would wait for each. starts: int64[blocks, BUCKETS + 1], out_slots: uint32[k],
    out_offsets: uint16[k], written; see `group_pairs`. O(k + blocks * BUCKETS).
    """
    shift, mask, low_slot = keys.dtype.type(bits), keys.dtype.type((1 << bits) - 1), keys.dtype.type(first)
    cap, cursor = block.shape[0], np.empty(BUCKETS + 1, np.int64)
    for number in range(starts.shape[0]):
        low, block_starts = number * cap, starts[number]
        some = keys[low : min(low + cap, keys.shape[0])]
        size = some.shape[0]
        _group_some(some, shift, low_slot, block_starts, cursor, block)
        slots, offsets = out_slots[low : low + size], out_offsets[low : low + size]
        for i in range(size):
            slots[i] = low_slot + (block[i] >> shift)
            offsets[i] = start + np.int64(block[i] & mask)
        _order_large(slots, offsets, block_starts)
        block_starts += low


@njit(cache=True, nogil=True)
def split_keys(keys, bits, start, first, out_slots, out_offsets):
    """Take matches apart, in their order: `group_keys` without the groups, for results that need none. O(k)."""
    shift, mask, low_slot = keys.dtype.type(bits), keys.dtype.type((1 << bits) - 1), keys.dtype.type(first)
    for i in range(keys.shape[0]):
        out_slots[i] = low_slot + (keys[i] >> shift)
        out_offsets[i] = start + np.int64(keys[i] & mask)


@inner
def _bucket(slots, starts, wanted):
    """The part of a slot's bucket in one block where its pairs are, from where to where; a small bucket whole."""
    bucket = np.int64(wanted) & _LAST
    low, high = starts[bucket], starts[bucket + 1]
    if high - low > MANY:  # in order: the first of the slot is found by halves
        end = high
        while low < high:
            middle = (low + high) >> 1
            if slots[middle] < wanted:
                low = middle + 1
            else:
                high = middle
        while high < end and slots[high] == wanted:
            high += 1
    return low, high


@njit(cache=True, nogil=True)
def find_pairs(slots, offsets, starts, slot, start, stop, out):
    """Find the offsets of one slot in [start, stop), block after block, each ascending; returns how many.

    slots: uint32[k], offsets: uint16[k], starts: int64[blocks, BUCKETS + 1]: see `group_pairs`. Read. out: int64, as
    long as there are such offsets, written. O(blocks * pairs of a bucket).
    """
    count, wanted = 0, np.uint32(slot)
    for block in range(starts.shape[0]):
        low, high = _bucket(slots, starts[block], wanted)
        for i in range(low, high):
            if slots[i] == wanted and start <= offsets[i] and offsets[i] < stop:
                out[count] = offsets[i]
                count += 1
    return count


@njit(cache=True, nogil=True)
def mark_pairs(slots, offsets, starts, slot, start, stop, words):
    """Set the bits of what `find_pairs` finds. words: uint64[w], 64 * w >= stop, written in place."""
    wanted = np.uint32(slot)
    for block in range(starts.shape[0]):
        low, high = _bucket(slots, starts[block], wanted)
        for i in range(low, high):
            if slots[i] == wanted and start <= offsets[i] and offsets[i] < stop:
                bit = np.uint64(offsets[i])
                words[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))


@njit(cache=True, nogil=True)
def count_pairs(slots, starts, slot):
    """The number of pairs of a slot. Arguments: as of `find_pairs`."""
    count, bucket, wanted = 0, slot & _LAST, np.uint32(slot)
    for block in range(starts.shape[0]):
        for i in range(starts[block, bucket], starts[block, bucket + 1]):
            count += slots[i] == wanted
    return count


@njit(cache=True, nogil=True)
def _count_slots(slots, starts, bucket, counts):
    """Add 1 to counts[slot >> _BITS] for each pair of a bucket of all blocks."""
    for block in range(starts.shape[0]):
        for i in range(starts[block, bucket], starts[block, bucket + 1]):
            counts[slots[i] >> _BITS] += 1


@njit(cache=True, nogil=True)
def put_together(slots, offsets, starts, capacity, out_slots, out_offsets):
    """Write all pairs of some blocks slot by slot, in the order of the blocks.

    slots: uint32[k], below capacity; offsets: uint16[k]; starts: int64[blocks, BUCKETS + 1], every place in a bucket.
    Read. out_slots: uint32[k], out_offsets: uint16[k], written, by the last bits of the slots and then by the first.
    O(k + capacity): a bucket of all blocks after the other, which the caches hold.
    """
    places, at = np.zeros((capacity >> _BITS) + 2, np.int64), np.int64(0)
    for bucket in range(BUCKETS):
        places[:] = 0
        _count_slots(slots, starts, bucket, places[1:])
        _begin(places, at)
        at = places[places.shape[0] - 1]
        for block in range(starts.shape[0]):
            for i in range(starts[block, bucket], starts[block, bucket + 1]):
                place = places[slots[i] >> _BITS]
                out_slots[place], out_offsets[place] = slots[i], offsets[i]
                places[slots[i] >> _BITS] = place + 1


@njit(cache=True, nogil=True)
def busy_slots(slots, starts, capacity, cap, out):
    """Find the slots with more than `cap` pairs, in no order; returns how many.

    slots, starts, capacity: see `put_together`, read. out: int64[k // most + 1], written. O(BUCKETS * blocks), and the
    pairs of the buckets that have so many.
    """
    count, counts = 0, np.zeros((capacity >> _BITS) + 1, np.int64)
    for bucket in range(BUCKETS):
        total = np.int64(0)
        for block in range(starts.shape[0]):
            total += starts[block, bucket + 1] - starts[block, bucket]
        if total <= cap:
            continue
        counts[:] = 0
        _count_slots(slots, starts, bucket, counts)
        for k in range(counts.shape[0]):
            if counts[k] > cap:
                out[count] = (np.int64(k) << _BITS) + bucket
                count += 1
    return count


@njit(cache=True, nogil=True)
def keys_to_rows(keys, bits, start, alive, slots, row_of_slot, rows):
    """Move matches of slots that have a row of bits there, and close the gaps; returns how many keys are left.

    keys, bits, alive, slots: see `name_slots`; keys that are left stay as they are, in order at the beginning. start:
    the offset of tuple 0. row_of_slot: int32[capacity], -1 = none, read. rows: uint64[B, R, W] (see
    `psoup.kernels.rows.bit_blocks`), ORed into. O(k).
    """
    remaining, mask = 0, (1 << bits) - 1
    for i in range(keys.shape[0]):
        key = np.int64(keys[i])
        clause = key >> bits
        row = row_of_slot[slots[clause]]
        if row < 0:
            keys[remaining] = keys[i]
            remaining += 1
        elif alive.shape[0] == 0 or alive[clause]:
            _set_bit(rows, row, start + (key & mask))
    return remaining
