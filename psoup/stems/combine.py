"""Large predicate indexes, made out of others without a loop over clauses.

    sources: (index, which of its clauses)  ──boundaries in use──> common boundaries ──new rows──> one index
                                                                      clauses with a rare value are listed by it

Pure functions of immutable arrays: any thread may run them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from psoup.columns import Array
from psoup.stems.bounds import Bounds, union
from psoup.stems.clause_rows import Rows, concatenate
from psoup.stems.posting_lists import STANDARD, Layout, list_clauses, unlisted
from psoup.stems.predicate_index import EXTRA_ROWS, PredicateIndex, bases


def combine(sources: Sequence[tuple[PredicateIndex, Array]], layout: Layout = STANDARD) -> PredicateIndex:
    """A new index of some clauses (positions, int64[k]) of others; no slot may come twice. O(n log n).

    Boundaries that nobody uses any more are left out. Pure: any thread may do it.
    """
    taken = []
    for index, keep in sources:
        own = Rows(index.slots, index.clause_ptr, index.factor_ptr, index.iv_attr, index.iv_lo, index.iv_hi)
        rows = own.take(np.asarray(keep, np.int64))
        taken.append(replace(rows, attributes=index.attributes[rows.attributes]))
    attributes = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows.attributes for rows in taken)]))
    bounds = tuple(_common_bounds(int(attribute), sources, taken) for attribute in attributes)
    base = bases(bounds)
    moved = [_translate(index, rows, attributes, bounds, base) for (index, _), rows in zip(sources, taken, strict=True)]
    return assemble(concatenate(moved), attributes, bounds, base, layout)


def assemble(
    rows: Rows, attributes: Array, bounds: tuple[Bounds, ...], base: Array, layout: Layout | None
) -> PredicateIndex:
    """The index of clauses whose rows are those of `bounds` already; puts them in order. O(n log n).

    Without a layout no clause is in a list: all are looked at for every piece.
    """
    if (np.diff(rows.slots.astype(np.int64)) < 0).any():
        rows = rows.take(np.argsort(rows.slots))
    attr = np.searchsorted(attributes, rows.attributes).astype(np.int32)
    lists, rest = unlisted(len(rows.slots)) if layout is None else list_clauses(rows, attr, base, layout)
    return PredicateIndex(
        attributes,
        bounds,
        base,
        rows.slots,
        rows.clause_ptr,
        rows.factor_ptr,
        attr,
        rows.low,
        rows.high,
        rest,
        lists,
    )


def _common_bounds(attribute: int, sources: Sequence[tuple[PredicateIndex, Array]], taken: Sequence[Rows]) -> Bounds:
    """The boundaries of one attribute that the taken clauses use."""
    parts = []
    for (index, _), rows in zip(sources, taken, strict=True):
        local = int(np.searchsorted(index.attributes, attribute))
        if local == len(index.attributes) or index.attributes[local] != attribute:
            continue
        first, size = int(index.base[local]), len(index.bounds[local])
        used = np.zeros(size + EXTRA_ROWS, bool)
        own = rows.attributes == attribute
        used[rows.low[own] - first] = True
        used[rows.high[own] - first] = True
        parts.append(index.bounds[local].select(used[1 : size + 1]))
    return union(parts)


def _translate(index: PredicateIndex, rows: Rows, attributes: Array, bounds: Sequence[Bounds], base: Array) -> Rows:
    """The clauses with the rows of the new boundaries."""
    target = np.zeros(index.rows, np.int32)
    for local, attribute in enumerate(index.attributes):
        new = int(np.searchsorted(attributes, attribute))
        if new == len(attributes) or attributes[new] != attribute:
            continue
        first, size = int(index.base[local]), len(index.bounds[local])
        target[first] = base[new]
        target[first + 1 : first + size + 1] = base[new] + bounds[new].positions(index.bounds[local])
        target[first + size + 1 : first + size + 4] = base[new] + len(bounds[new]) + np.arange(1, 4)
    return Rows(rows.slots, rows.clause_ptr, rows.factor_ptr, rows.attributes, target[rows.low], target[rows.high])
