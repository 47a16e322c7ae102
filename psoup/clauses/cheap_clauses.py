"""A cheaper copy of each clause, without its slow factors. Only tuples that match it need the slow ones.

    index        0: a = 5 AND n LIKE '%x%'       stripped     0: a = 5              waits: n LIKE '%x%'
                 1: a = 7                                     1: a = 8 AND b < 3    waits: n LIKE '%y%', length(n) > 9
                 2: a = 8 AND b < 3 AND …        bare         clause 3: no factor is left
                 3: n LIKE '%z%'

The caller names the attributes that may be delayed. A stripped index is a small predicate index with the slots 0, 1,
2 and so on. It is made once for each part of the Query SteM; `renew` applies removals.
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

    `whole`: the part that it was made of. `waiting`: bool[A], the attributes of `whole` that may wait. `part`: R
    stripped clauses. `clauses`: int64[R], their positions in `whole`. `waits_ptr` (int32[R + 1]), `waits`: int64, the
    IDs of the attributes that each of them waits for. `bare`: int64, positions of the clauses without a factor left;
    `bare_waits_ptr`, `bare_waits`: the attributes that these wait for, in the same form.
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
        """Remove the clauses that were removed from `whole`. O(R)."""
        self.part.alive[:] = self.whole.alive[self.clauses]
        self.part.live = int(np.count_nonzero(self.part.alive))

    @property
    def nbytes(self) -> int:
        """Bytes of the stripped index."""
        return self.part.index.nbytes

    def twin(self, part: Part) -> Stripped:
        """The same clauses for a copy of the part, with another user. O(R) bytes."""
        return replace(self, whole=part, part=replace(self.part, alive=self.part.alive.copy()))

    def bare_attributes(self) -> Array:
        """The delayed attributes of live clauses without other factors, int64, with repetitions."""
        live = np.flatnonzero(self.whole.alive[self.bare])
        _, places = gather(self.bare_waits_ptr, live)
        attributes: Array = self.bare_waits[places]
        return attributes

    def attributes_of(self, clauses: Array) -> tuple[Array, Array]:
        """The delayed attributes of some stripped clauses (integers, [k]): for each a place in `clauses`, and an ID."""
        pointers, places = gather(self.waits_ptr, clauses.astype(np.int64))
        return np.repeat(np.arange(len(clauses)), np.diff(pointers)), self.waits[places]


def strip(whole: Part, waiting: Array, among: Array | None = None) -> Stripped:
    """The clauses that read an attribute of `waiting` (bool[A], by its place in the index), without those factors.

    `among`: bool[S], the clauses to consider; the default is all. O(intervals).
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
    """The attributes of `waiting` (bool[A]) that each clause reads: (pointers int32[S + 1], IDs). O(intervals)."""
    return _waits(index, _any(waiting[index.iv_attr], index.factor_ptr), waiting, np.arange(len(index)))


def listed(clauses: int) -> Layout | None:
    """The posting lists of an index with so many clauses; None: it has no lists."""
    return STANDARD if clauses > _UNLISTED else None


def _any(flags: Array, pointers: Array) -> Array:
    """Whether any element of each list has its flag: bool[lists]."""
    counted = np.concatenate([np.zeros(1, np.int64), np.cumsum(flags)])
    any_set: Array = counted[pointers[1:]] > counted[pointers[:-1]]
    return any_set


def _without(index: PredicateIndex, dear: Array, clauses: Array) -> PredicateIndex:
    """An index of clauses with only their factors that are not slow; each clause must have one."""
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
    """The delayed attributes of some clauses, as a list of lists: (pointers int32[k + 1], IDs)."""
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
