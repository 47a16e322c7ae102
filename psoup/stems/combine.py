"""Large predicate indexes, made out of others without a loop over clauses.

    sources: (index, which of its clauses)  ──boundaries in use──> common boundaries ──new rows──> one index
                                                                      clauses with an equality are put by its row

Pure functions of immutable arrays: any thread may run them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.columns import Array
from psoup.stems.bounds import Bounds, union
from psoup.stems.clause_rows import Rows, concatenate
from psoup.stems.predicate_index import EXTRA_ROWS, PredicateIndex, bases


def combine(sources: Sequence[tuple[PredicateIndex, Array]]) -> PredicateIndex:
    """A new index of some clauses (positions, int64[k]) of others; no slot may come twice. O(n log n).

    Boundaries that nobody uses any more are left out. Pure: any thread may do it.
    """
    taken = []
    for index, keep in sources:
        rows = Rows(
            index.slots, index.clause_ptr, index.factor_ptr, index.attributes[index.iv_attr], index.iv_lo, index.iv_hi
        )
        taken.append(rows.take(np.asarray(keep, np.int64)))
    attributes = np.unique(np.concatenate([np.zeros(0, np.int64), *(rows.attributes for rows in taken)]))
    bounds = tuple(_common_bounds(int(attribute), sources, taken) for attribute in attributes)
    base = bases(bounds)
    moved = [_translate(index, rows, attributes, bounds, base) for (index, _), rows in zip(sources, taken, strict=True)]
    return assemble(concatenate(moved), attributes, bounds, base)


def assemble(rows: Rows, attributes: Array, bounds: tuple[Bounds, ...], base: Array) -> PredicateIndex:
    """The index of clauses whose rows are those of `bounds` already; puts them in order. O(n log n)."""
    attr = np.searchsorted(attributes, rows.attributes).astype(np.int32)
    anchor = _anchors(rows, attr, np.diff(base))
    order = np.lexsort((rows.slots, anchor))
    rest = int(np.count_nonzero(anchor < 0))
    rows, anchor = rows.take(order), anchor[order]
    attr = np.searchsorted(attributes, rows.attributes).astype(np.int32)
    anchored = np.unique(np.searchsorted(base, anchor[rest:], "right") - 1).astype(np.int32)
    edges = np.arange(int(base[-1]) + 1) if len(anchored) else np.zeros(1, np.int64)
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
        np.arange(rest, dtype=np.int32),
        anchored,
        np.searchsorted(anchor, edges).astype(np.int32),
        np.argsort(rows.slots, kind="stable").astype(np.int32),
    )


def _anchors(rows: Rows, attr: Array, sizes: Array) -> Array:
    """For each clause the row of its anchor, or -1: int64[S].

    An anchor is a factor of one interval of one row; of several, the one whose attribute has the most boundaries. A
    clause with a factor that is never true has none: tests of posting lists rely on it.
    """
    anchor = np.full(len(rows.slots), -1, np.int64)
    per_factor = np.diff(rows.factor_ptr)
    first = rows.factor_ptr[:-1][per_factor == 1]
    single = rows.high[first] == rows.low[first] + 1
    clause = np.repeat(np.arange(len(rows.slots)), np.diff(rows.clause_ptr))[per_factor == 1][single]
    interval = first[single]
    order = np.lexsort((-sizes[attr[interval]], clause))
    chosen, place = np.unique(clause[order], return_index=True)
    anchor[chosen] = rows.low[interval[order[place]]]
    anchor[np.repeat(np.arange(len(rows.slots)), np.diff(rows.clause_ptr))[per_factor == 0]] = -1
    return anchor


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
