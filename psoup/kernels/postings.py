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
def match_postings(
    first, last, rows, attrs, pairs, post_ptr, alive, slots, clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr,
    codes, counts, order, start, out,
):  # fmt: skip
    """Test the tuples of rows first to last against the clauses of those rows.

    rows, attrs, pairs, post_ptr: see `reach`. alive: uint8[S]; slots: uint32[S]; the index, codes, counts, order,
    start: see `psoup.kernels.arrive`; no factor of a clause in a posting list is empty. All read.
    out: uint64[>= pairs[last]], written from pairs[first] on: slot << 16 | offset of the matches, in no order.
    Returns how many. O(tests * factors), without a branch on the outcome of a test.
    """
    place = pairs[first]
    own = np.empty(codes.shape[0], np.int32)
    for j in range(first, last):
        row, attr = rows[j], attrs[j]
        for p in range(counts[row], counts[row + 1]):
            t = order[attr, p]
            for a in range(codes.shape[0]):
                own[a] = codes[a, t]
            offset = np.uint64(start + t)
            for clause in range(post_ptr[row], post_ptr[row + 1]):
                factor, end = clause_ptr[clause], clause_ptr[clause + 1]
                interval, stop = factor_ptr[factor], factor_ptr[end]
                holds = alive[clause] != 0
                if stop - interval == end - factor:
                    for i in range(interval, stop):
                        code = own[iv_attr[i]]
                        holds &= (iv_lo[i] <= code) & (code < iv_hi[i])
                else:
                    while holds and factor < end:
                        holds = _holds(factor, factor_ptr, iv_lo, iv_hi, iv_attr, codes, t)
                        factor += 1
                out[place] = (np.uint64(slots[clause]) << np.uint64(16)) | offset
                place += holds
    return place - pairs[first]


@njit(cache=True, nogil=True)
def pairs_to_rows(pairs, row_of_slot, bits):
    """Move pairs of slots that have a row of bits there, and close the gaps.

    pairs: uint64[k], slot << 16 | offset; kept ones stay in order at its beginning. row_of_slot: int32[capacity],
    -1 = none, read. bits: uint64[R, words], ORed into. Returns how many are kept. O(k).
    """
    kept = 0
    for i in range(pairs.shape[0]):
        pair = pairs[i]
        row = row_of_slot[pair >> np.uint64(16)]
        if row >= 0:
            offset = np.int64(pair & np.uint64(0xFFFF))
            bits[row, offset >> 6] |= _ONE << np.uint64(offset & 63)
        else:
            pairs[kept] = pair
            kept += 1
    return kept
