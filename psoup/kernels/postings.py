"""Clauses reached from the data: those that require a value are looked at only if a tuple has it.

    row (code of an attribute)   17          18         19
    posting list                 clauses 4-9 none       clauses 10-12
    tuples of the piece          2           5          0            -> 2 tuples x 6 clauses are tested, nothing else

The clauses of a row are neighbours in the arrays of the index, so testing them reads memory in order. A row that
many tuples have (a *hot* row) is left to `psoup.kernels.arrive`, which may know a better factor to start from.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.arrive import _holds

_ONE = np.uint64(1)


@njit(cache=True, nogil=True)
def reach(anchored, base, counts, post_ptr, rest, limit, candidates, rows, attrs, pairs):
    """Which posting lists the piece reaches.

    anchored: int32[k], attributes with anchors; base: int64[A + 1]; counts: int32[base[A]] (see `count_codes`);
    post_ptr: int32[base[A] + 1], the clauses of a row, all >= rest; rest: clauses without anchor; limit: most tuples
    of a row that is not hot. Read. candidates: int32[S], written: 0 to rest - 1, then the clauses of hot rows.
    rows, attrs: int32[base[A]], written: the other rows with tuples and clauses, and their attributes.
    pairs: int64[base[A] + 1], written: pairs[j] = tests before rows[j]. Returns (candidates written, rows written).
    O(rest + rows of anchored attributes + clauses of hot rows).
    """
    size, found = rest, 0
    pairs[0] = 0
    for clause in range(rest):
        candidates[clause] = clause
    for k in range(anchored.shape[0]):
        attr = anchored[k]
        for row in range(base[attr], base[attr + 1] - 1):
            tuples = counts[row + 1] - counts[row]
            if tuples == 0 or post_ptr[row] == post_ptr[row + 1]:
                continue
            if tuples > limit:
                for clause in range(post_ptr[row], post_ptr[row + 1]):
                    candidates[size] = clause
                    size += 1
                continue
            rows[found], attrs[found] = row, attr
            pairs[found + 1] = pairs[found] + np.int64(tuples) * np.int64(post_ptr[row + 1] - post_ptr[row])
            found += 1
    return size, found


@njit(cache=True, nogil=True)
def emit_postings(
    first, last, rows, attrs, pairs, post_ptr, alive, slots, clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr,
    codes, counts, order, start, row_of_slot, bits, out,
):  # fmt: skip
    """Test the tuples of rows first to last against the clauses of those rows.

    rows, attrs, pairs, post_ptr: see `reach`. alive: uint8[S]; slots: uint32[S]; the index, codes, counts, order,
    start, row_of_slot: see `psoup.kernels.arrive`. All read. bits: uint64[R, words], ORed into for slots with a row.
    out: uint64[>= pairs[last]], written from pairs[first] on for the others: slot << 16 | offset, in no order.
    Returns how many were written. O(tests * factors).
    """
    place = pairs[first]
    for j in range(first, last):
        row, attr = rows[j], attrs[j]
        for clause in range(post_ptr[row], post_ptr[row + 1]):
            if alive[clause] == 0:
                continue
            for p in range(counts[row], counts[row + 1]):
                t = order[attr, p]
                holds = True
                for factor in range(clause_ptr[clause], clause_ptr[clause + 1]):
                    if not _holds(factor, factor_ptr, iv_lo, iv_hi, iv_attr, codes, t):
                        holds = False
                        break
                if not holds:
                    continue
                slot, offset = slots[clause], start + t
                own = row_of_slot[slot]
                if own >= 0:
                    bits[own, offset >> 6] |= _ONE << np.uint64(offset & 63)
                else:
                    out[place] = (np.uint64(slot) << np.uint64(16)) | np.uint64(offset)
                    place += 1
    return place - pairs[first]
