"""Clauses for which an error counts as true. They find failures: tuples that match only if errors count as true.

    index        a in [10, 20)    CAST(n) in [5, 6)
    hopeful      a in [10, 20)    CAST(n) in [5, 6) or an error      matches all that the index does, and failures

For such a failure, an error alone prevented the match. Each factor that reads an expression gets one more interval: the
index's row of errors.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from psoup.clauses.index.clause_rows import ClauseRows
from psoup.clauses.index.combine import assemble
from psoup.clauses.index.posting_lists import Layout
from psoup.clauses.index.predicate_index import Part, PredicateIndex, bases
from psoup.values.columns import Array


@dataclass(frozen=True, slots=True)
class Hopeful:
    """The clauses of a part that read an expression and have more than one condition.

    `clauses`: int64[R], their positions in the part. `plain`: their index with errors as false. `hopeful`: their index
    with errors as true. The slots of both are 0, 1, 2 …
    """

    clauses: Array
    plain: PredicateIndex
    hopeful: PredicateIndex

    def parts(self, whole: Part) -> tuple[Part, Part]:
        """Both indexes as parts, with flags of the clauses that are live in `whole`."""
        alive = whole.alive[self.clauses]
        live = int(np.count_nonzero(alive))
        return replace(Part.of(self.plain), alive=alive, live=live), replace(
            Part.of(self.hopeful), alive=alive, live=live
        )

    def twin(self, part: Part) -> Hopeful:
        """Return this object, as it is immutable, and a copy of the part has the same index."""
        return self

    @property
    def nbytes(self) -> int:
        """An upper bound of the bytes of both indexes, which share some arrays."""
        return self.clauses.nbytes + 2 * self.hopeful.nbytes


def hopeful_of(index: PredicateIndex, computed: Array) -> Hopeful:
    """Make both indexes of the clauses that read an attribute of `computed` (bool[A]) and have several conditions.
    O(intervals)."""
    sizes = np.diff(index.clause_ptr)
    reads = np.zeros(len(index), np.bool_)
    owner = np.repeat(np.arange(len(index)), np.diff(index.factor_ptr[index.clause_ptr]))
    reads[owner[computed[index.iv_attr]]] = True
    first, last = index.factor_ptr[index.clause_ptr[:-1]], index.factor_ptr[index.clause_ptr[1:]]
    single = (sizes == 1) & (last > first)
    # the intervals of a factor are in order
    single[single] = index.iv_attr[first[single]] == index.iv_attr[last[single] - 1]
    clauses = np.flatnonzero(reads & ~single)
    plain = picked(index, clauses)
    return Hopeful(clauses, plain, with_errors(plain, computed[np.searchsorted(index.attributes, plain.attributes)]))


def picked(index: PredicateIndex, clauses: Array) -> PredicateIndex:
    """An index of some clauses (positions, int64[R]), with the slots 0, 1, 2 … and no posting lists. O(their size)."""
    origin = ClauseRows(index.slots, index.clause_ptr, index.factor_ptr, index.iv_attr, index.iv_lo, index.iv_hi)
    rows = origin.take(clauses)
    used = np.unique(rows.attributes)
    bounds = tuple(index.bounds[local] for local in used.tolist())
    base = bases(bounds)
    moved = base[np.searchsorted(used, rows.attributes)] - index.base[rows.attributes]
    moved_rows = replace(
        rows,
        slots=np.arange(len(clauses), dtype=np.uint32),
        attributes=index.attributes[rows.attributes],
        low=(rows.low + moved).astype(np.int32),
        high=(rows.high + moved).astype(np.int32),
    )
    return assemble(moved_rows, index.attributes[used], bounds, base, None)


def with_errors(index: PredicateIndex, computed: Array, layout: Layout | None = None) -> PredicateIndex:
    """A copy of the index in which an error satisfies each factor that reads an attribute of `computed` (bool[A]).
    O(intervals)."""
    owner = np.repeat(np.arange(len(index.factor_ptr) - 1), np.diff(index.factor_ptr))
    reading = np.flatnonzero(computed[index.iv_attr])
    pairs = np.unique(owner[reading] << 32 | index.iv_attr[reading])
    factors, attr = pairs >> 32, pairs & 0xFFFF_FFFF
    errors = index.base[attr + 1] - 2
    every = np.concatenate([owner, factors])
    low, high = np.concatenate([index.iv_lo, errors]), np.concatenate([index.iv_hi, errors + 1])
    local = np.concatenate([index.iv_attr, attr])
    order = np.lexsort((low, local, every))
    factor_ptr = np.zeros(len(index.factor_ptr), np.int32)
    np.cumsum(np.bincount(every, minlength=len(factor_ptr) - 1), out=factor_ptr[1:])
    rows = ClauseRows(
        index.slots,
        index.clause_ptr,
        factor_ptr,
        index.attributes[local[order]],
        low[order].astype(np.int32),
        high[order].astype(np.int32),
    )
    return assemble(rows, index.attributes, index.bounds, index.base, layout)
