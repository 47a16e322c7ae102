"""Twins of `psoup.kernels.postings`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.plain import Array


def reach(
    anchored: Array, base: Array, counts: Array, post_ptr: Array, rest: int, limit: int,
    candidates: Array, rows: Array, attrs: Array, pairs: Array,
) -> tuple[int, int]:  # fmt: skip
    """See the kernel."""
    chosen = list(range(rest))
    found = 0
    pairs[0] = 0
    for attr in anchored:
        for row in range(base[attr], base[attr + 1] - 1):
            tuples, clauses = int(counts[row + 1] - counts[row]), range(post_ptr[row], post_ptr[row + 1])
            if tuples > limit:
                chosen.extend(clauses)
            elif tuples and clauses:
                rows[found], attrs[found], pairs[found + 1] = row, attr, pairs[found] + tuples * len(clauses)
                found += 1
    candidates[: len(chosen)] = chosen
    return len(chosen), found


def match_postings(
    first: int, last: int, rows: Array, attrs: Array, pairs: Array, post_ptr: Array, alive: Array, slots: Array,
    clause_ptr: Array, factor_ptr: Array, iv_lo: Array, iv_hi: Array, iv_attr: Array, codes: Array, counts: Array,
    order: Array, start: int, out: Array,
) -> int:  # fmt: skip
    """See the kernel."""
    place = int(pairs[first])
    for row, attr in zip(rows[first:last], attrs[first:last], strict=True):
        for t in order[attr, counts[row] : counts[row + 1]]:
            for clause in (c for c in range(post_ptr[row], post_ptr[row + 1]) if alive[c]):
                holds = True
                for factor in range(clause_ptr[clause], clause_ptr[clause + 1]):
                    span = slice(factor_ptr[factor], factor_ptr[factor + 1])
                    own = codes[iv_attr[span], t]
                    holds &= bool(((own >= iv_lo[span]) & (own < iv_hi[span])).any())
                if holds:
                    out[place] = int(slots[clause]) << 16 | int(start + t)
                    place += 1
    return place - int(pairs[first])


def pairs_to_rows(pairs: Array, row_of_slot: Array, bits: Array) -> int:
    """See the kernel."""
    rows = row_of_slot[pairs >> np.uint64(16)]
    for row, pair in zip(rows[rows >= 0], pairs[rows >= 0], strict=True):
        offset = int(pair) & 0xFFFF
        bits[row, offset >> 6] |= np.uint64(1) << np.uint64(offset & 63)
    kept = pairs[rows < 0]
    pairs[: len(kept)] = kept
    return len(kept)
