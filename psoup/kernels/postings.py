"""Clauses reached from the data: those that require a value, or one of few, are looked at only if a tuple has it.

    codes of an attribute    0 .. 3      4 .. 7      8 .. 11     12 .. 15       a *grid* of cells, here 4 codes wide
    lists of the cells       clauses     none        clauses     clauses
                             7 9 | 8                 7 | 2 4     5              groups of one *kind* each
    tuple with code 9        its cell is the third: 7, and 2 and 4 are tested, nothing else

A kind names the attributes that the clauses of a group are tested on, so a group is tested as a whole: first all
lower bounds of the first attribute, then all upper bounds, then those of the second, each contiguous in memory. A
cell one code wide says all about its attribute. Cells that many tuples are in (*hot* ones) are left to
`psoup.kernels.arrive`, as far as their clauses are in no other cell.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.arrive import _holds
from psoup.kernels.inner import inner
from psoup.kernels.lanes import LANES, keep_hits

_WHOLE, _SOLE = 1, 2
"""Flags of a kind: its tests are all that is left to know of its clauses; they are in no other cell."""


@njit(cache=True, nogil=True)
def reach(
    codes, base, grid_attr, grid_shift, grid_first, cell_ptr, group_ptr, group_kind, kind_flags, entries, limit,
    seen, candidates, tuples, cells,
):  # fmt: skip
    """Which lists the piece reaches.

    codes: int32[A, n], rows; base: int64[A + 1]; grid k has the cells from grid_first[k] on, each 2**grid_shift[k]
    rows of attribute grid_attr[k]; cell c has the groups cell_ptr[c] up to cell_ptr[c + 1]; group g the entries
    group_ptr[g] up to group_ptr[g + 1] and a kind. limit: most tuples of a cell that is not hot. Read.
    seen: int32[cells], zeros before and after. candidates: int32[E], written: clauses of hot cells, in no order.
    tuples, cells: int32[k * n], written: what to test, by tuple and grid; ~cell if hot. Returns (candidates written,
    cells written, entries in the lists of those cells). O(k * n + clauses of hot cells).
    """
    size, found, tests = 0, 0, np.int64(0)
    for t in range(codes.shape[1]):
        for k in range(grid_attr.shape[0]):
            attr, shift = grid_attr[k], grid_shift[k]
            cell = grid_first[k] + ((codes[attr, t] - base[attr]) >> shift)
            begin, end = cell_ptr[cell], cell_ptr[cell + 1]
            if begin == end:
                continue
            seen[cell] += shift == 0
            tuples[found], cells[found] = t, cell
            tests += group_ptr[end] - group_ptr[begin]
            found += 1
    for j in range(found):
        cell = cells[j]
        if seen[cell] > limit:
            for group in range(cell_ptr[cell], cell_ptr[cell + 1]):
                if kind_flags[group_kind[group]] & _SOLE:
                    for e in range(group_ptr[group], group_ptr[group + 1]):
                        candidates[size] = entries[e]
                        size += 1
            seen[cell] = -1
        if seen[cell] < 0:
            cells[j] = ~cell
    for j in range(found):
        seen[max(cells[j], ~cells[j])] = 0
    return size, found, tests


@njit(cache=True, nogil=True, inline="always")
def _keep(hit, size, entries, first, t, bits, out, place):
    """Write the keys of the entries that hit; returns the place behind them. hit: uint8[>= size + LANES]."""
    hit[size : size + LANES] = 0
    for e in range(0, size, LANES):
        if first + e + LANES <= entries.shape[0]:
            place += keep_hits(hit[e : e + LANES], entries, first + e, t, bits, out, place)
        else:  # so few are left of all
            for more in range(e, size):
                out[place] = (np.int64(entries[first + more]) << bits) | t
                place += hit[more]
    return place


@inner
def _test(first, size, kind, kind_ptr, kind_attr, base, codes, tests, t, hit):
    """hit[e] = whether tuple t passes the tests of entry e of a group that has `size` and its tests at `first`."""
    k, stop = kind_ptr[kind], kind_ptr[kind + 1]
    if stop - k < 2:
        hit[:size] = 1
    else:  # what is most frequent, without a pass to set and one more to combine
        attr, other = kind_attr[k], kind_attr[k + 1]
        code, code_2 = tests.dtype.type(codes[attr, t] - base[attr]), tests.dtype.type(codes[other, t] - base[other])
        second = first + 2 * size
        low, high = tests[first : first + size], tests[first + size : second]
        low_2, high_2 = tests[second : second + size], tests[second + size : second + 2 * size]
        for e in range(size):
            hit[e] = (low[e] <= code) & (code < high[e]) & (low_2[e] <= code_2) & (code_2 < high_2[e])
        k, first = k + 2, first + 4 * size
    for more in range(k, stop):
        attr = kind_attr[more]
        code = tests.dtype.type(codes[attr, t] - base[attr])
        low, high = tests[first : first + size], tests[first + size : first + 2 * size]
        for e in range(size):
            hit[e] &= (low[e] <= code) & (code < high[e])
        first += 2 * size


@njit(cache=True, nogil=True)
def match_lists(
    tuples, cells, cell_ptr, group_ptr, group_kind, group_test, kind_ptr, kind_attr, kind_flags, entries, tests,
    longest, base, codes, clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr, bits, out,
):  # fmt: skip
    """Test what `reach` found, in the order given.

    tuples, cells: int32[m], and the lists: see `reach`. Tests of group g are at tests[group_test[g]] (uint16 or int32;
    codes, not rows): for each of the attributes kind_attr[kind_ptr[kind]] up to kind_attr[kind_ptr[kind + 1]] the
    lower bounds of all entries, then the upper bounds. group_test: int64[G + 1]. longest: entries of the longest
    group. The index, codes: see `psoup.kernels.arrive`. All read.
    out: uint32 or uint64[>= entries tested + LANES], written: clause << bits | tuple of the matches, in the order
    given; n <= 2**bits. Returns how many. O(tests), without a branch on their outcome.
    """
    place = np.int64(0)
    hit = np.empty(longest + LANES, np.uint8)
    for j in range(tuples.shape[0]):
        t, cell, hot = tuples[j], cells[j], cells[j] < 0
        cell = ~cell if hot else cell
        for group in range(cell_ptr[cell], cell_ptr[cell + 1]):
            kind = group_kind[group]
            flags = kind_flags[kind]
            if hot and flags & _SOLE:
                continue
            first, stop = group_ptr[group], group_ptr[group + 1]
            size = stop - first
            _test(group_test[group], size, kind, kind_ptr, kind_attr, base, codes, tests, t, hit)
            own = entries[first:stop]
            if not flags & _WHOLE:
                for e in range(size):
                    for factor in range(clause_ptr[own[e]], clause_ptr[own[e] + 1]):
                        if hit[e] == 0:
                            break
                        hit[e] = _holds(factor, factor_ptr, iv_lo, iv_hi, iv_attr, codes, t)
            place = _keep(hit, size, entries, first, t, bits, out, place)
    return place
