"""Twins of `psoup.kernels.arrive.posting_lists`."""

from __future__ import annotations

import numpy as np

from psoup.kernels.arrive.arrays import CellGrids, CellLists, IndexArrays, ListTests
from psoup.kernels.plain import Array

_WHOLE, _SOLE = 1, 2


def reach(
    codes: Array,
    base: Array,
    grids: CellGrids,
    lists: CellLists,
    limit: int,
    seen: Array,
    candidates: Array,
    tuples: Array,
    cells: Array,
) -> tuple[int, int, int]:
    """See the kernel."""
    cell_ptr, group_ptr, group_kind, kind_flags, entries = lists
    pairs = [
        (t, int(first) + (int(codes[attr, t] - base[attr]) >> int(shift)), shift == 0)
        for t in range(codes.shape[1])
        for attr, shift, first in zip(*grids, strict=True)
    ]
    pairs = [(t, cell, narrow) for t, cell, narrow in pairs if cell_ptr[cell] < cell_ptr[cell + 1]]
    narrow_cells = [cell for _, cell, narrow in pairs if narrow]
    hot = [cell for cell in dict.fromkeys(narrow_cells) if narrow_cells.count(cell) > limit]
    chosen: list[int] = []
    for cell in hot:
        for group in range(cell_ptr[cell], cell_ptr[cell + 1]):
            if kind_flags[group_kind[group]] & _SOLE:
                chosen.extend(entries[group_ptr[group] : group_ptr[group + 1]])
    candidates[: len(chosen)] = chosen
    for j, (t, cell, _) in enumerate(pairs):
        tuples[j], cells[j] = t, ~cell if cell in hot else cell
    tests = sum(int(group_ptr[cell_ptr[cell + 1]] - group_ptr[cell_ptr[cell]]) for _, cell, _ in pairs)
    return len(chosen), len(pairs), tests


def match_lists(
    tuples: Array,
    cells: Array,
    lists: CellLists,
    tests: ListTests,
    base: Array,
    codes: Array,
    index: IndexArrays,
    bits: int,
    out: Array,
) -> int:
    """See the kernel."""
    cell_ptr, group_ptr, group_kind, kind_flags, entries = lists
    group_test, kind_ptr, kind_attr, values_of_tests = tests
    clause_ptr, factor_ptr, iv_lo, iv_hi, iv_attr = index
    place, values = 0, codes[iv_attr]
    inside = (values >= iv_lo[:, None]) & (values < iv_hi[:, None])
    for t, cell in zip(tuples, cells, strict=True):
        for group in range(cell_ptr[max(cell, ~cell)], cell_ptr[max(cell, ~cell) + 1]):
            kind = group_kind[group]
            if cell < 0 and kind_flags[kind] & _SOLE:
                continue
            group_entries = entries[group_ptr[group] : group_ptr[group + 1]]
            hit = np.ones(len(group_entries), bool)
            bounds = values_of_tests[group_test[group] : group_test[group + 1]].reshape(-1, 2, len(group_entries))
            for attr, (low, high) in zip(kind_attr[kind_ptr[kind] : kind_ptr[kind + 1]], bounds, strict=True):
                hit &= (low <= codes[attr, t] - base[attr]) & (codes[attr, t] - base[attr] < high)
            for e in () if kind_flags[kind] & _WHOLE else np.flatnonzero(hit):
                for factor in range(clause_ptr[group_entries[e]], clause_ptr[group_entries[e] + 1]):
                    hit[e] &= inside[factor_ptr[factor] : factor_ptr[factor + 1], t].any()
            matched = group_entries[hit].astype(np.int64) << bits | t
            out[place : place + len(matched)] = matched
            place += len(matched)
    return place
