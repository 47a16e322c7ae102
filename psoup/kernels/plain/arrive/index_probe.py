"""Twins of `psoup.kernels.arrive.index_probe`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.arrive.arrays import AttributeUses, EmittedPairs, IndexArrays, PieceArrays, PlannedWork, SlotRows
from psoup.kernels.plain import Array
from psoup.kernels.plain.arrive.codes import count_codes, sort_tuples
from psoup.kernels.plain.arrive.prefix_bitmaps import prefix_bitmaps
from psoup.kernels.plain.rows.bit_blocks import set_bits


def plan(
    clauses: Array,
    alive: Array,
    index: IndexArrays,
    counts: Array,
    rows: int,
    walk: int,
    limit: int,
    work: PlannedWork,
    uses: AttributeUses,
) -> int:
    """See the kernel."""
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = index
    planned, walked, room = work
    use_order, use_prefix = uses
    size = 0
    room[0] = 0
    for clause in clauses:
        factors = range(clause_ptr[clause], clause_ptr[clause + 1])
        spans = {f: slice(factor_ptr[f], factor_ptr[f + 1]) for f in factors}
        passed = {f: int((counts[iv_hi[s]] - counts[iv_lo[s]]).sum()) for f, s in spans.items()}
        passed = {f: count for f, count in passed.items() if count <= rows}
        best = min(passed, key=lambda f: passed[f], default=-1)
        fewest = passed.get(best, rows + 1)
        if not alive[clause] or fewest == 0:
            continue
        few = best >= 0 and fewest <= walk
        planned[size], walked[size] = clause, best if few else -1
        if few:
            use_order[iv_attr[spans[best]]] = 1
        for span in () if few else spans.values():
            use_prefix[iv_attr[span]] = 1
        room[size + 1] = room[size] + min(fewest, max(walk, limit))
        size += 1
    return size


def count_and_plan(
    base: Array,
    codes: Array,
    ranks: Array,
    starts: Array,
    clauses: Array,
    alive: Array,
    index: IndexArrays,
    counts: Array,
    rows: int,
    walk: int,
    limit: int,
    work: PlannedWork,
    uses: AttributeUses,
) -> int:
    """See the kernel."""
    count_codes(codes, base, counts, ranks, starts)
    return plan(clauses, alive, index, counts, rows, walk, limit, work, uses)


def emit(
    first: int,
    last: int,
    work: PlannedWork,
    slots: Array,
    index: IndexArrays,
    piece: PieceArrays,
    prefix: Array,
    start: int,
    cap: int,
    target: SlotRows,
    out: EmittedPairs,
) -> tuple[int, int]:
    """See the kernel."""
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = index
    clauses, walked, room = work
    row_of_slot, rows = target
    out_slots, out_offsets, needs = out
    codes = piece[0]
    place, needed = int(room[first]), 0
    for j in range(first, last):
        matching = np.ones(codes.shape[1], bool)
        for factor in range(clause_ptr[clauses[j]], clause_ptr[clauses[j] + 1]):
            either = np.zeros(codes.shape[1], bool)
            for i in range(factor_ptr[factor], factor_ptr[factor + 1]):
                attribute_codes = codes[iv_attr[i]]
                either |= (attribute_codes >= iv_lo[i]) & (attribute_codes < iv_hi[i])
            matching &= either
        offsets = start + np.flatnonzero(matching)
        slot = slots[clauses[j]]
        if row_of_slot[slot] >= 0:
            set_bits(rows, np.full(len(offsets), row_of_slot[slot]), offsets)
        elif walked[j] < 0 and len(offsets) > cap:
            needs[first + needed] = j
            needed += 1
        else:
            out_slots[place : place + len(offsets)] = slot
            out_offsets[place : place + len(offsets)] = offsets
            place += len(offsets)
    return place - int(room[first]), needed


def prepare_and_emit(
    base: Array,
    uses: AttributeUses,
    cursor: Array,
    first: int,
    last: int,
    work: PlannedWork,
    slots: Array,
    index: IndexArrays,
    piece: PieceArrays,
    prefix: Array,
    start: int,
    cap: int,
    target: SlotRows,
    out: EmittedPairs,
) -> tuple[int, int]:
    """See the kernel."""
    codes, counts, ranks, starts, order = piece
    use_order, use_prefix = uses
    sort_tuples(codes, base, counts, use_order, cursor, order)
    prefix_bitmaps(codes, ranks, starts, use_prefix, start & 63, prefix)
    return emit(first, last, work, slots, index, piece, prefix, start, cap, target, out)
