"""The predicate index: the boolean factors of many clauses as arrays, over the sorted constants of each attribute.

    clause  slot   factors           rows of attribute a             of attribute b
      0      7     a in [10, 20)     0: below 10   3: 35 and up       5: ...
      1      9     a = 35, b NULL    1: 10 to 19   4: NULL            base[1] = 6 + ...
                                     2: 20 to 34   5: error  (6: end)

An attribute with D boundaries has D + 4 rows from base[a] on; an interval is a pair of rows. The arrays are the
input of `psoup.kernels.arrive`. An index is immutable; a `Part` adds which of its clauses are still alive. Small
ones are made by `psoup.stems.delta`, larger ones here, out of others, without a loop over clauses.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from psoup.columns import Array
from psoup.errors import Internal
from psoup.query import Interval, Key
from psoup.stems.bounds import Bounds, union

_EXTRA_ROWS = 4
"""Rows of an attribute beyond its boundaries: below all, NULL, error, end."""


@dataclass(frozen=True, slots=True)
class PredicateIndex:
    """Clauses in order of their slots; see `psoup.kernels.arrive` for the arrays.

    `attributes`: int64[A], IDs, ascending. `bounds`: A. `base`: int64[A + 1]. `slots`: uint32[S]. `clause_ptr`:
    int32[S + 1]. `factor_ptr`: int32[F + 1]. `iv_attr` (position in `attributes`), `iv_lo`, `iv_hi` (rows): int32[I].
    """

    attributes: Array
    bounds: tuple[Bounds, ...]
    base: Array
    slots: Array
    clause_ptr: Array
    factor_ptr: Array
    iv_attr: Array
    iv_lo: Array
    iv_hi: Array
    everyone: Array = field(init=False)
    """int32[S]: the positions of all clauses."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "everyone", np.arange(len(self.slots), dtype=np.int32))

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def rows(self) -> int:
        """Rows of all attributes together."""
        return int(self.base[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        arrays = (self.slots, self.clause_ptr, self.factor_ptr, self.iv_attr, self.iv_lo, self.iv_hi, self.everyone)
        return sum(array.nbytes for array in arrays) + sum(bounds.nbytes for bounds in self.bounds)

    def find(self, slot: int) -> int:
        """The position of a slot's clause, or -1. O(log S)."""
        position = int(np.searchsorted(self.slots, slot))
        return position if position < len(self.slots) and self.slots[position] == slot else -1

    def factors(self, position: int) -> list[dict[int, tuple[list[Interval], bool]]]:
        """One clause as it was registered: for each factor {attribute ID: (intervals, whether NULL passes)}."""
        result = []
        for factor in range(self.clause_ptr[position], self.clause_ptr[position + 1]):
            terms: dict[int, tuple[list[Interval], bool]] = {}
            for i in range(self.factor_ptr[factor], self.factor_ptr[factor + 1]):
                attr = int(self.iv_attr[i])
                intervals, nulls = terms.get(int(self.attributes[attr]), ([], False))
                low, high = int(self.iv_lo[i] - self.base[attr]), int(self.iv_hi[i] - self.base[attr])
                size = len(self.bounds[attr])
                if low <= size:
                    intervals.append(Interval(self._key(attr, low), self._key(attr, high)))
                terms[int(self.attributes[attr])] = (intervals, nulls or high == size + 2)
            result.append(terms)
        return result

    def _key(self, attr: int, code: int) -> Key | None:
        bounds = self.bounds[attr]
        return bounds.key(code - 1) if 1 <= code <= len(bounds) else None

    def check(self) -> None:
        """The invariants; raises Internal. O(size)."""
        problems = []
        if len(self.slots) > 1 and not (np.diff(self.slots.astype(np.int64)) > 0).all():
            problems.append("slots are not ascending")  # emission relies on it: runs must come out sorted
        if (np.diff(self.clause_ptr) < 0).any() or self.clause_ptr[-1] != len(self.factor_ptr) - 1:
            problems.append("clause_ptr does not cover the factors")
        if (np.diff(self.factor_ptr) < 0).any() or self.factor_ptr[-1] != len(self.iv_lo):
            problems.append("factor_ptr does not cover the intervals")
        base, last = self.base[self.iv_attr], self.base[self.iv_attr + 1]
        if not ((base <= self.iv_lo) & (self.iv_lo < self.iv_hi) & (self.iv_hi < last - 1)).all():
            problems.append("an interval is empty or leaves its attribute")  # counts would be taken across attributes
        for bounds, rows in zip(self.bounds, np.diff(self.base), strict=True):
            keys = [bounds.key(k) for k in range(len(bounds))]
            if rows != len(bounds) + _EXTRA_ROWS or any(a >= b for a, b in itertools.pairwise(keys)):  # type: ignore[operator]
                problems.append("boundaries are not ascending, or have a wrong number of rows")
        if problems:
            raise Internal(f"predicate index of {len(self)} clauses: {'; '.join(problems)}: {self!r}")


@dataclass(slots=True)
class Part:
    """An index, and which of its clauses are alive: uint8[S], changed by the writer only."""

    index: PredicateIndex
    alive: Array
    live: int

    @classmethod
    def of(cls, index: PredicateIndex) -> Part:
        """All clauses alive."""
        return cls(index, np.ones(len(index), np.uint8), len(index))

    def find(self, slot: int) -> int:
        """The position of a live clause, or -1. O(log S)."""
        position = self.index.find(slot)
        return position if position >= 0 and self.alive[position] else -1

    def kill(self, slot: int) -> bool:
        """Take a clause out; whether it was there. O(log S)."""
        position = self.find(slot)
        if position < 0:
            return False
        self.alive[position] = 0
        self.live -= 1
        return True


def bases(bounds: Sequence[Bounds]) -> Array:
    """Where the rows of each attribute begin, and where the last end: int64[A + 1]."""
    base = np.zeros(len(bounds) + 1, np.int64)
    np.cumsum([len(own) + _EXTRA_ROWS for own in bounds], out=base[1:])
    return base


def gather(pointers: Array, keep: Array) -> tuple[Array, Array]:
    """The lists `keep` (int64[k]) of a list of lists: (their new pointers int32[k + 1], positions of elements)."""
    starts = pointers[keep].astype(np.int64)
    sizes = pointers[keep + 1] - starts
    new = np.zeros(len(keep) + 1, np.int64)
    np.cumsum(sizes, out=new[1:])
    return new.astype(np.int32), np.repeat(starts - new[:-1], sizes) + np.arange(new[-1])


@dataclass(frozen=True, slots=True)
class Rows:
    """Clauses without boundaries: the arrays of an index, with rows still those of where they come from."""

    slots: Array
    clause_ptr: Array
    factor_ptr: Array
    attributes: Array
    low: Array
    high: Array

    def take(self, keep: Array) -> Rows:
        """Some clauses, in the order of `keep` (int64[k]). O(their size)."""
        clause_ptr, factors = gather(self.clause_ptr, keep)
        factor_ptr, intervals = gather(self.factor_ptr, factors)
        return Rows(
            self.slots[keep],
            clause_ptr,
            factor_ptr,
            self.attributes[intervals],
            self.low[intervals],
            self.high[intervals],
        )


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
    whole = _concatenate(moved)
    whole = whole.take(np.argsort(whole.slots, kind="stable"))
    return PredicateIndex(
        attributes,
        bounds,
        base,
        whole.slots,
        whole.clause_ptr,
        whole.factor_ptr,
        np.searchsorted(attributes, whole.attributes).astype(np.int32),
        whole.low,
        whole.high,
    )


def _common_bounds(attribute: int, sources: Sequence[tuple[PredicateIndex, Array]], taken: Sequence[Rows]) -> Bounds:
    """The boundaries of one attribute that the taken clauses use."""
    parts = []
    for (index, _), rows in zip(sources, taken, strict=True):
        local = int(np.searchsorted(index.attributes, attribute))
        if local == len(index.attributes) or index.attributes[local] != attribute:
            continue
        first, size = int(index.base[local]), len(index.bounds[local])
        used = np.zeros(size + _EXTRA_ROWS, bool)
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


def _concatenate(parts: Sequence[Rows]) -> Rows:
    empty = np.zeros(0, np.int32)
    return Rows(
        np.concatenate([np.zeros(0, np.uint32), *(part.slots for part in parts)]),
        _chain([part.clause_ptr for part in parts]),
        _chain([part.factor_ptr for part in parts]),
        np.concatenate([np.zeros(0, np.int64), *(part.attributes for part in parts)]),
        np.concatenate([empty, *(part.low for part in parts)]),
        np.concatenate([empty, *(part.high for part in parts)]),
    )


def _chain(pointers: Sequence[Array]) -> Array:
    """Pointers of lists that are put one after the other."""
    sizes = [np.diff(own) for own in pointers]
    chained = np.zeros(sum(len(own) for own in sizes) + 1, np.int32)
    np.cumsum(np.concatenate([np.zeros(0, np.int32), *sizes]), out=chained[1:])
    return chained
