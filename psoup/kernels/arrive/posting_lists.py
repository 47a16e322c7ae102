"""Posting lists: a clause that requires a value, or one of few, is tested only if a tuple has that value.

    codes of an attribute    0 .. 3      4 .. 7      8 .. 11     12 .. 15       a *grid* of cells, here 4 codes wide
    lists of the cells       clauses     none        clauses     clauses
                             7 9 | 8                 7 | 2 4     5              groups of one *kind* each
    tuple with code 9        its cell is the third: 7, and 2 and 4 are tested, nothing else

A kind names the attributes that the clauses of a group are tested on. The bounds of a group lie side by side, attribute
by attribute, first all lower ones and then all upper ones. So some entries are tested at a time.
Lists lie anywhere in memory, so they are prefetched. A cell one code wide says all about its attribute.
A *hot* cell has many tuples. `psoup.kernels.arrive.index_probe` takes its clauses that are in no other cell.
"""

# mypy: allow-untyped-defs, no-check-untyped-defs
from __future__ import annotations

import numpy as np
from numba import njit

from psoup.kernels.arrive.arrays import CellGrids, CellLists, IndexArrays, ListTests
from psoup.kernels.arrive.index_probe import _ALL, _ONE, _holds
from psoup.kernels.compile.inner import inner
from psoup.kernels.compile.lanes import LANES, fetch, inside, keep_hits
from psoup.kernels.rows.bitmaps import _popcount

_WHOLE, _SOLE = 1, 2
"""Flags of a kind: its tests are all that is left to know of its clauses; they are in no other cell."""
_AHEAD, _ASKED = 4, 1_024
"""Distance of a prefetch, in lists (1 is a tenth slower, from 3 on all are alike), and its elements.

The processor fetches the rest of a long list by itself."""


@njit(cache=True, nogil=True)
def reach(codes, base, grids, lists, limit, seen, candidates, tuples, cells):
    """Find the lists that the piece reaches.

    codes: int32[A, n], rows; base: int64[A + 1]; grids: `CellGrids`: grid k has the cells from first[k] on,
    each 2**shift[k] rows of attribute attr[k]. lists: `CellLists`, in which cell c has the groups cell_ptr[c] up to
    cell_ptr[c + 1], group g the entries group_ptr[g] up to group_ptr[g + 1] and a kind. limit: most tuples of a cell
    that is not hot. Read.
    seen: int32[cells], zeros before and after. candidates: int32[E], written: clauses of hot cells, in no order.
    tuples, cells: int32[k * n], written: what to test, by tuple and grid; ~cell if hot. Returns (candidates written,
    cells written, entries in the lists of those cells). O(k * n + clauses of hot cells).
    """
    grid_attr, grid_shift, grid_first = CellGrids(*grids)
    cell_ptr, group_ptr, group_kind, kind_flags, entries = CellLists(*lists)
    size, reached, tests = 0, 0, np.int64(0)
    for t in range(codes.shape[1]):
        for k in range(grid_attr.shape[0]):
            attr, shift = grid_attr[k], grid_shift[k]
            cell = grid_first[k] + ((codes[attr, t] - base[attr]) >> shift)
            begin, end = cell_ptr[cell], cell_ptr[cell + 1]
            if begin == end:
                continue
            seen[cell] += shift == 0
            tuples[reached], cells[reached] = t, cell
            tests += group_ptr[end] - group_ptr[begin]
            reached += 1
    for j in range(reached):
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
    for j in range(reached):
        seen[max(cells[j], ~cells[j])] = 0
    return size, reached, tests


@njit(cache=True, nogil=True, inline="always")
def _ask(cell, lists, tests):
    """Prefetch the lists of a cell."""
    first, last = np.uint64(lists.cell_ptr[cell]), np.uint64(lists.cell_ptr[cell + _ONE])
    begin, end = tests.group_test[first], tests.group_test[last]
    fetch(tests.bounds, begin, min(end, begin + _ASKED))
    begin, end = np.int64(lists.group_ptr[first]), np.int64(lists.group_ptr[last])
    fetch(lists.entries, begin, min(end, begin + _ASKED))


@inner
def _check(hits, entries, t, index, codes):
    """The bits of `hits` whose clauses hold for tuple t; bit i stands for entries[i]."""
    left = hits
    while left != 0:
        lowest = left & (~left + _ONE)
        left ^= lowest
        clause = entries[_popcount(lowest - _ONE)]
        for factor in range(index.clause_ptr[clause], index.clause_ptr[clause + 1]):
            if not _holds(factor, index, codes, t):
                hits ^= lowest
                break
    return hits


@njit(cache=True, nogil=True, inline="always")
def _match_group(group, kind, whole, lists, tests, base, codes, index, t, bits, wanted, out, place):
    """Write the keys of the entries of a group that tuple t matches, from `place` on; returns the place behind them."""
    kind_ptr, group_ptr = tests.kind_ptr, lists.group_ptr
    begin, count = np.uint64(kind_ptr[kind]), np.uint64(kind_ptr[kind + _ONE] - kind_ptr[kind])
    for k in range(count):
        attr = np.uint64(tests.kind_attr[begin + k])
        wanted[k] = codes[attr, t] - base[attr]
    first, size = np.int64(group_ptr[group]), np.int64(group_ptr[group + _ONE] - group_ptr[group])
    for e in range(0, size, LANES):
        hits, low = _ALL >> np.uint64(64 - min(size - e, LANES)), tests.group_test[group] + e
        for k in range(count):
            hits &= inside(tests.bounds, low, low + size, wanted[k])
            low += 2 * size
        if not whole:
            hits = _check(hits, lists.entries[first + e : first + size], t, index, codes)
        place += keep_hits(hits, lists.entries, first + e, np.int64(t), bits, out, place)
    return place


@inner
def _match(tuples, cells, lists, tests, base, codes, index, bits, out, wanted):
    """`match_lists`, without a reference counted for each list. wanted: int64[longest kind], scratch."""
    cell_ptr, group_kind, kind_flags = lists.cell_ptr, lists.group_kind, lists.kind_flags
    place, size = np.int64(0), np.uint64(tuples.shape[0])
    for j in range(size):
        if j + _AHEAD < size and cells[j + _AHEAD] >= 0:
            _ask(np.uint64(cells[j + _AHEAD]), lists, tests)
        hot, cell = cells[j] < 0, np.uint64(max(np.int64(cells[j]), ~np.int64(cells[j])))
        for group in range(np.uint64(cell_ptr[cell]), np.uint64(cell_ptr[cell + _ONE])):
            kind = np.uint64(group_kind[group])
            if not (hot and kind_flags[kind] & _SOLE):
                whole, t = kind_flags[kind] & _WHOLE, np.uint64(tuples[j])
                place = _match_group(
                    group, kind, whole, lists, tests, base, codes, index, t, bits, wanted, out, place
                )  # fmt: skip
    return place


@njit(cache=True, nogil=True)
def match_lists(tuples, cells, lists, tests, base, codes, index, bits, out):
    """Test the lists that `reach` found, in the order given.

    tuples, cells: int32[m], lists: see `reach`. tests: `ListTests`. Tests of group g are at bounds[group_test[g]]
    (uint16 or int32; codes, not rows): for each of the attributes kind_attr[kind_ptr[kind]] up to
    kind_attr[kind_ptr[kind + 1]] the lower bounds of all entries, then the upper bounds. LANES elements more lie behind
    the entries and behind the bounds. index, codes: see `psoup.kernels.arrive.index_probe`. All read.
    out: uint32 or uint64[>= entries tested + LANES], written: clause << bits | tuple of the matches, in the order
    given; n <= 2**bits. Returns how many. O(tests), without a branch on their outcome.
    """
    lists, tests, index = CellLists(*lists), ListTests(*tests), IndexArrays(*index)
    wanted = np.empty(tests.kind_attr.shape[0], np.int64)
    return _match(tuples, cells, lists, tests, base, codes, index, bits, out, wanted)
