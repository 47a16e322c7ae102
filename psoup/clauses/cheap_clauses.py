"""A cheaper copy of each clause, without its slow factors. Only tuples that match the copy need the slow factors.

    index        0: a = 5 AND n LIKE '%x%'       stripped     0: a = 5              waits: n LIKE '%x%'
                 1: a = 7                                     1: a = 8 AND b < 3    waits: n LIKE '%y%', length(n) > 9
                 2: a = 8 AND b < 3 AND …        bare         clause 3: no factor is left
                 3: n LIKE '%z%'

The caller names the attributes whose evaluation may wait. A stripped index is a small predicate index with the slots 0,
1, 2 and so on. Each part of the Query SteM has one. If the writer removes clauses from the part, `renew` removes their
copies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from psoup.clauses.index.clause_rows import ClauseRows, gather
from psoup.clauses.index.combine import assemble
from psoup.clauses.index.posting_lists import STANDARD, Layout
from psoup.clauses.index.predicate_index import Part, PredicateIndex, bases
from psoup.values.columns import Array

_UNLISTED = 1_024
"""The most clauses of an index without posting lists, as in `psoup.clauses.index.delta`."""


@dataclass(frozen=True, slots=True)
class Stripped:
    """The stripped clauses of one part; see the module.

    `whole`: the part with the whole clauses. `waiting`: bool[A], the attributes of `whole` that may wait. `part`: R
    stripped clauses. `clauses`: int64[R], their positions in `whole`. `waits`, `waits_ptr`: the IDs (int64) of the
    attributes that each stripped clause lacks, and their CSR offsets (int32[R + 1]). `bare`: int64, the positions of
    clauses without any factor left. `bare_waits`, `bare_waits_ptr`: the attributes that these lack, in the same form.
    """

    whole: Part
    waiting: Array
    part: Part
    clauses: Array
    waits_ptr: Array
    waits: Array
    bare: Array
    bare_waits_ptr: Array
    bare_waits: Array

    def renew(self) -> None:
        """Remove the copies of clauses that the writer has removed from `whole`. O(R)."""
        self.part.alive[:] = self.whole.alive[self.clauses]
        self.part.live = int(np.count_nonzero(self.part.alive))

    @property
    def nbytes(self) -> int:
        """Bytes of the stripped index."""
        return self.part.index.nbytes

    def twin(self, part: Part) -> Stripped:
        """The same stripped clauses for `part`, a copy of the whole part for another thread. Copies O(R) bytes."""
        return replace(self, whole=part, part=replace(self.part, alive=self.part.alive.copy()))

    def bare_attributes(self) -> Array:
        """The waiting attributes of live clauses without other factors: int64, with repetitions."""
        live = np.flatnonzero(self.whole.alive[self.bare])
        _, places = gather(self.bare_waits_ptr, live)
        attributes: Array = self.bare_waits[places]
        return attributes

    def attributes_of(self, clauses: Array) -> tuple[Array, Array]:
        """The waiting attributes of some stripped clauses (integers, [k]).

        Returns pairs as two arrays: a place in `clauses`, and an attribute ID.
        """
        pointers, places = gather(self.waits_ptr, clauses.astype(np.int64))
        return np.repeat(np.arange(len(clauses)), np.diff(pointers)), self.waits[places]


def strip(whole: Part, waiting: Array, among: Array | None = None) -> Stripped:
    """Strip the clauses of a part of all factors that read an attribute of `waiting` (bool[A], as in the index).

    Clauses without such factors are left out. `among`: bool[S], the clauses to consider; None for all. O(intervals).
    """
    index = whole.index
    dear = _any(waiting[index.iv_attr], index.factor_ptr)
    reads = _any(dear, index.clause_ptr)
    readers = np.flatnonzero(reads if among is None else reads & among)
    pointers, factors = gather(index.clause_ptr, readers)
    left = np.add.reduceat(~dear[factors], pointers[:-1]) if len(readers) else np.zeros(0, np.int64)
    clauses, bare = readers[left > 0], readers[left == 0]
    part = Part.of(_without(index, dear, clauses))
    waits = [_waits(index, dear, waiting, some) for some in (clauses, bare)]
    return Stripped(whole, waiting, part, clauses, *waits[0], bare, *waits[1])


def waits_of(index: PredicateIndex, waiting: Array) -> tuple[Array, Array]:
    """The attributes of `waiting` (bool[A]) that each clause reads, as CSR offsets (int32[S + 1]) and IDs.
    O(intervals)."""
    return _waits(index, _any(waiting[index.iv_attr], index.factor_ptr), waiting, np.arange(len(index)))


def listed(clauses: int) -> Layout | None:
    """The layout of posting lists for an index with this number of clauses. None if it needs no lists."""
    return STANDARD if clauses > _UNLISTED else None


def _any(flags: Array, pointers: Array) -> Array:
    """For each list, whether one of its elements has a flag: bool[lists]. `pointers`: the CSR offsets of the lists."""
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(flags)])
    any_set: Array = counted[pointers[1:]] > counted[pointers[:-1]]
    return any_set


def _without(index: PredicateIndex, dear: Array, clauses: Array) -> PredicateIndex:
    """An index of some clauses without their `dear` (slow) factors. Each clause must have another factor."""
    pointers, factors = gather(index.clause_ptr, clauses)
    quick = ~dear[factors]
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(quick)])
    factor_ptr, intervals = gather(index.factor_ptr, factors[quick])
    attr = index.iv_attr[intervals]
    used = np.unique(attr)
    bounds = tuple(index.bounds[local] for local in used.tolist())
    base = bases(bounds)
    places = np.searchsorted(used, attr)
    moved = base[places] - index.base[attr]
    slots = np.arange(len(clauses), dtype=np.uint32)
    rows = ClauseRows(
        slots,
        counted[pointers].astype(np.int32),
        factor_ptr,
        index.attributes[attr],
        (index.iv_lo[intervals] + moved).astype(np.int32),
        (index.iv_hi[intervals] + moved).astype(np.int32),
    )
    return assemble(rows, index.attributes[used], bounds, base, listed(len(clauses)))


def _waits(index: PredicateIndex, dear: Array, waiting: Array, clauses: Array) -> tuple[Array, Array]:
    """The waiting attributes of some clauses, as CSR offsets (int32[k + 1]) and IDs."""
    pointers, factors = gather(index.clause_ptr, clauses)
    owner = np.repeat(np.arange(len(clauses)), np.diff(pointers))
    mine = dear[factors]
    factor_ptr, intervals = gather(index.factor_ptr, factors[mine])
    attr, owner = index.iv_attr[intervals], np.repeat(owner[mine], np.diff(factor_ptr))
    some = waiting[attr]
    pairs = np.unique(owner[some] << 32 | attr[some])
    sizes = np.bincount(pairs >> 32, minlength=len(clauses))
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int32)
    return starts, index.attributes[pairs & 0xFFFF_FFFF]
