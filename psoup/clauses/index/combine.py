"""The merge of predicate indexes into a large one, without a loop over clauses.

    sources: (index, which of its clauses)  ──boundaries in use──> common boundaries ──new rows──> one index
                                                                      clauses with a rare value are listed by it

Pure functions of immutable arrays: any thread may run them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from psoup.clauses.index.bounds import Bounds, distinct, union
from psoup.clauses.index.clause_rows import ClauseRows, concatenate
from psoup.clauses.index.posting_lists import STANDARD, Layout, list_clauses, unlisted
from psoup.clauses.index.predicate_index import EXTRA_ROWS, Part, PredicateIndex, bases
from psoup.values.columns import Array


def combine(sources: Sequence[tuple[PredicateIndex, Array]], layout: Layout = STANDARD) -> PredicateIndex:
    """A new index of some clauses (positions, int64[k]) of other indexes. Each slot must occur once. O(n log n).

    The index has only boundaries that a clause uses, and shares those that do not change. The attributes of a source
    may have any order. Any thread may call this.
    """
    taken = []
    for index, keep in sources:
        origin = ClauseRows(index.slots, index.clause_ptr, index.factor_ptr, index.iv_attr, index.iv_lo, index.iv_hi)
        rows = origin.take(np.asarray(keep, np.int64))
        taken.append(
            _TakenClauses(index, _used(index, rows), replace(rows, attributes=index.attributes[rows.attributes]))
        )
    attributes = distinct(np.concatenate([np.zeros(0, np.int64), *(clauses.rows.attributes for clauses in taken)]))
    bounds = _common_bounds(taken, attributes)
    base = bases(bounds)
    moved = [_translate(clauses, attributes, bounds, base) for clauses in taken]
    return assemble(concatenate(moved), attributes, bounds, base, layout)


def assemble(
    rows: ClauseRows, attributes: Array, bounds: tuple[Bounds, ...], base: Array, layout: Layout | None
) -> PredicateIndex:
    """The index of clauses whose rows refer to `bounds` already. Sorts the clauses by slot. O(n log n).

    Without a layout the index has no posting lists. A probe then tests every clause for every piece.
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


@dataclass(frozen=True, slots=True)
class _TakenClauses:
    """Clauses taken from the index `index`. `used`: bool[rows], the boundaries that they use.

    `rows`: their arrays, with attribute IDs in place of the index's attribute numbers.
    """

    index: PredicateIndex
    used: Array
    rows: ClauseRows

    def places(self, attributes: Array) -> Array:
        """The place of each attribute of the source in `attributes` (int64[A], ascending), or -1."""
        place = np.searchsorted(attributes, self.index.attributes)
        shared = np.append(attributes, -1)[place] == self.index.attributes
        return np.where(shared & (self.index.attributes >= 0), place, -1)


def _used(index: PredicateIndex, rows: ClauseRows) -> Array:
    used: Array = np.zeros(index.rows, np.bool_)
    used[rows.low] = used[rows.high] = True
    for extra in (index.base[:-1], *(index.base[1:] - k for k in range(1, EXTRA_ROWS))):
        used[extra] = False
    return used


def _common_bounds(taken: Sequence[_TakenClauses], attributes: Array) -> tuple[Bounds, ...]:
    """The boundaries that the taken clauses use, for each attribute. A source that uses all its own shares them."""
    parts: list[list[tuple[Bounds, Array | None]]] = [[] for _ in attributes]
    for clauses in taken:
        base = clauses.index.base
        whole = np.add.reduceat(clauses.used, base[:-1], dtype=np.int64) + EXTRA_ROWS == np.diff(base)
        places = clauses.places(attributes).tolist()
        for bounds, place, first, all_used in zip(
            clauses.index.bounds, places, base.tolist(), whole.tolist(), strict=False
        ):
            if place >= 0:
                parts[place].append((bounds, None if all_used else clauses.used[first + 1 : first + 1 + len(bounds)]))
    return tuple(map(_union, parts))


def _union(parts: Sequence[tuple[Bounds, Array | None]]) -> Bounds:
    """The union of sets of boundaries, each restricted to the used ones (None: all)."""
    if len(parts) == 1 and parts[0][1] is None:
        return parts[0][0]
    return union([bounds if used is None else bounds.select(used) for bounds, used in parts])


def _translate(clauses: _TakenClauses, attributes: Array, bounds: Sequence[Bounds], base: Array) -> ClauseRows:
    """Translate the rows of clauses from their source's boundaries to the new boundaries."""
    index, rows, places = clauses.index, clauses.rows, clauses.places(attributes)
    moved_by = np.where(places < 0, 0, base[places] - index.base[:-1])
    target = np.arange(index.rows) + np.repeat(moved_by, np.diff(index.base))
    for local, place in enumerate(places.tolist()):
        if place < 0 or bounds[place] is index.bounds[local]:
            continue
        first, size = int(index.base[local]), len(index.bounds[local])
        target[first + 1 : first + size + 1] = base[place] + bounds[place].positions(index.bounds[local])
        target[first + size + 1 : first + size + 4] = base[place] + len(bounds[place]) + np.arange(1, 4)
    target = target.astype(np.int32)
    return ClauseRows(
        rows.slots, rows.clause_ptr, rows.factor_ptr, rows.attributes, target[rows.low], target[rows.high]
    )


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A merged part that can replace `sources`. `alive`: the live clauses of each source when the merge began."""

    sources: tuple[Part, ...]
    alive: tuple[Array, ...]
    merged: Part


@dataclass(frozen=True, slots=True)
class MergeTask:
    """A merge that any thread can compute from immutable arrays."""

    sources: tuple[Part, ...]
    alive: tuple[Array, ...]
    layout: Layout
    prepare: Callable[[Part], object] = id
    """Called with the merged part, to prepare its search structures."""

    def compute(self) -> MergeResult:
        """Merge the live clauses of the parts into one part. O(clauses of the sources)."""
        live_sources = [(p.index, np.flatnonzero(a)) for p, a in zip(self.sources, self.alive, strict=True)]
        merged = Part.of(combine(live_sources, self.layout))
        self.prepare(merged)
        return MergeResult(self.sources, self.alive, merged)
