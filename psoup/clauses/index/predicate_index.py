"""The predicate index: the boolean factors of many clauses as arrays, over the sorted constants of each attribute.

    clause  slot   factors           rows of attribute a             of attribute b
      0      7     a in [10, 20)     0: below 10   3: 35 and up       5: ...
      1      9     a = 35, b NULL    1: 10 to 19   4: NULL            base[1] = 6 + ...
                                     2: 20 to 34   5: error  (6: end)

An attribute with D boundaries has D + 4 rows from base[a] on; an interval is a pair of rows. The arrays are the input
of `psoup.kernels.arrive.index_probe`. Clauses with a selective factor are in posting lists, by the values that it
requires (`psoup.clauses.index.posting_lists`). The other clauses are the `rest`: a probe tests them for every piece. An
index is immutable; a `Part` adds flags of live clauses. `psoup.clauses.index.delta` makes small indexes,
`psoup.clauses.index.combine` large ones. Readers see a part as it was at its publication (`PartView`).
"""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar, cast

import numpy as np

from psoup.clauses.index.bounds import Bounds
from psoup.clauses.index.posting_lists import PostingLists
from psoup.invariants import ensure
from psoup.plan.factors import Interval, Key
from psoup.values.columns import Array

EXTRA_ROWS = 4
"""The number of rows that an attribute has in addition to its boundaries: below all values, NULL, error, end."""


@dataclass(frozen=True, slots=True)
class PredicateIndex:
    """S clauses in the order of their slots. `psoup.kernels.arrive.index_probe` explains the arrays.

    `attributes`: int64[A], IDs, ascending. `bounds`: the boundaries of each of the A attributes. `base`: int64[A + 1].
    `slots`: uint32[S], ascending. `clause_ptr`: int32[S + 1]. `factor_ptr`: int32[F + 1]. `iv_attr` (position in
    `attributes`), `iv_lo`, `iv_hi` (rows): int32[I]. `rest`: int32[r], the positions of clauses in no list, ascending.
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
    rest: Array
    lists: PostingLists

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def rows(self) -> int:
        """The number of rows of all attributes."""
        return int(self.base[-1])

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        clauses = (self.slots, self.clause_ptr, self.factor_ptr, self.iv_attr, self.iv_lo, self.iv_hi)
        bounds = sum(boundaries.nbytes for boundaries in self.bounds)
        return sum(array.nbytes for array in clauses) + self.rest.nbytes + self.lists.nbytes + bounds

    def find(self, slots: Array) -> Array:
        """The position of the clause in each of `slots`, or -1: int64[k]. O(k log S)."""
        wanted = np.asarray(slots, np.int64)
        if not len(self.slots):
            return np.full(len(wanted), -1, np.int64)
        alike = wanted.astype(self.slots.dtype)  # else NumPy would convert all of `slots` for one look-up
        position = np.minimum(np.searchsorted(self.slots, alike), len(self.slots) - 1)
        return np.where(self.slots[position] == wanted, position, -1)

    def factors(self, position: int) -> list[dict[int, tuple[list[Interval], bool]]]:
        """The factors of a clause, as registered: for each {attribute ID: (intervals, whether NULL passes)}."""
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

    def uses(self, positions: Array) -> dict[int, int]:
        """For each attribute, the number of clauses at `positions` (int64[k]) that read it. O(k + intervals)."""
        owners, factors = np.arange(len(positions)), positions
        for ends in (self.clause_ptr, self.factor_ptr):  # from clauses to their factors, to their intervals
            counts = ends[factors + 1] - ends[factors]
            starts = np.repeat(ends[factors] - (np.cumsum(counts) - counts), counts)
            owners, factors = np.repeat(owners, counts), starts + np.arange(len(starts))
        pairs = np.unique(owners * len(self.attributes) + self.iv_attr[factors])
        clause_counts = np.bincount(pairs % len(self.attributes), minlength=len(self.attributes))
        return {
            int(self.attributes[place]): int(clause_counts[place]) for place in np.flatnonzero(clause_counts).tolist()
        }

    def _key(self, attr: int, code: int) -> Key | None:
        bounds = self.bounds[attr]
        return bounds.key(code - 1) if 1 <= code <= len(bounds) else None

    def check(self) -> None:
        """Check the invariants. Raises Corrupt. O(size)."""
        problems = []
        if (np.diff(self.slots.astype(np.int64)) <= 0).any():
            problems.append("slots are not ascending")  # find would miss a clause, and pairs come out unsorted
        problems += self._check_lists()
        if (np.diff(self.clause_ptr) < 0).any() or self.clause_ptr[-1] != len(self.factor_ptr) - 1:
            problems.append("clause_ptr does not cover the factors")
        if (np.diff(self.factor_ptr) < 0).any() or self.factor_ptr[-1] != len(self.iv_lo):
            problems.append("factor_ptr does not cover the intervals")
        base, last = self.base[self.iv_attr], self.base[self.iv_attr + 1]
        if not ((base <= self.iv_lo) & (self.iv_lo < self.iv_hi) & (self.iv_hi < last - 1)).all():
            problems.append("an interval is empty or leaves its attribute")  # counts would be taken across attributes
        for bounds, rows in zip(self.bounds, np.diff(self.base), strict=True):
            keys = [bounds.key(k) for k in range(len(bounds))]
            if rows != len(bounds) + EXTRA_ROWS or any(a >= b for a, b in itertools.pairwise(keys)):  # type: ignore[operator]
                problems.append("boundaries are not ascending, or have a wrong number of rows")
        lists = (self.slots, self.clause_ptr, self.factor_ptr, self.iv_attr, self.iv_lo, self.iv_hi, self.rest)
        ensure(not problems, self, "; ".join(problems), attributes=self.attributes, base=self.base, lists=lists)

    def _check_lists(self) -> list[str]:
        lists, problems = self.lists, []
        listed: dict[int, list[int]] = {}
        for cell in np.flatnonzero(np.diff(lists.cell_ptr)).tolist():
            for group in range(lists.cell_ptr[cell], lists.cell_ptr[cell + 1]):
                for clause in lists.entries[lists.group_ptr[group] : lists.group_ptr[group + 1]].tolist():
                    listed.setdefault(clause, []).append(cell)
        if sorted([*listed, *self.rest.tolist()]) != list(range(len(self))):
            problems.append("a clause is both in a list and in `rest`, or in neither")
        for clause, cells in listed.items():
            factors = range(self.clause_ptr[clause], self.clause_ptr[clause + 1])
            # tuples of other cells would never meet the clause
            if not any(self._covered(factor, cells) for factor in factors):
                problems.append(f"clause {clause} is in cells {cells}, which are not those of a factor")
        return problems

    def _covered(self, factor: int, cells: list[int]) -> bool:
        """Whether the cells are on one attribute, and contain all values that pass the factor."""
        lists = self.lists
        grids = np.searchsorted(lists.grid_first, cells, "right") - 1
        spans = range(self.factor_ptr[factor], self.factor_ptr[factor + 1])
        rows: set[int] = set()
        for grid, cell in zip(grids.tolist(), cells, strict=True):
            shift, number = int(lists.grid_shift[grid]), cell - int(lists.grid_first[grid])
            first = int(self.base[lists.grid_attr[grid]]) + (number << shift)
            rows.update(range(first, first + (1 << shift)))
        return len(spans) > 0 and all(
            (lists.grid_attr[grids] == self.iv_attr[i]).all() and rows.issuperset(range(self.iv_lo[i], self.iv_hi[i]))
            for i in spans
        )


class IndexedAttribute(NamedTuple):
    """An attribute of an index: its position in the index, its ID, its boundaries, and its first row."""

    local: int
    attribute: int
    bounds: Bounds
    base: int


class PartExtra(Protocol):
    """A structure that another module derives from the clauses of a part, and keeps with the part."""

    @property
    def nbytes(self) -> int:
        """Bytes of the structure."""
        ...

    def twin(self, part: Part) -> PartExtra:
        """The structure for `part`, a copy of the part that another thread uses."""
        ...


Extra = TypeVar("Extra", bound=PartExtra)


@dataclass(slots=True)
class Part:
    """An index with flags of its live clauses, uint8[S]. Only the writer changes the flags."""

    index: PredicateIndex
    alive: Array
    live: int
    hits: Array | None = None
    """The number of tests of each cell's lists, int64; see `psoup.clauses.costs`. None before the first test."""
    extras: Mapping[type[PartExtra], PartExtra] = field(default_factory=dict)
    """Structures of other modules, by type. A change makes a new mapping, as other threads read the old one."""
    deaths: array[int] = field(default_factory=lambda: array("i"))
    """Positions of the removed clauses, in the order of removal. The writer appends here before it changes `alive`."""
    _reads: tuple[list[IndexedAttribute], list[IndexedAttribute]] | None = None
    """The result of `reads`, or None before its first call."""
    _view: PartView | None = None
    """The last result of `view`."""

    def view(self) -> PartView:
        """A view of the part in its present state, for readers. The same object until a clause is removed. O(1)."""
        if self._view is None or self._view.deaths != len(self.deaths):
            self._view = PartView(self)
        return self._view

    def reads(self, *, texts: bool) -> list[IndexedAttribute]:
        """The attributes whose keys are texts (`texts`), or all others, in the order of the index. Computed once."""
        if self._reads is None:
            index = self.index
            rows = zip(index.attributes.tolist(), index.bounds, index.base.tolist()[:-1], strict=True)
            every = [IndexedAttribute(local, *row) for local, row in enumerate(rows)]
            self._reads = [r for r in every if not r.bounds.text], [r for r in every if r.bounds.text]
        return self._reads[texts]

    def extra(self, kind: type[Extra]) -> Extra | None:
        """The structure of type `kind` that the part keeps, or None. O(1)."""
        return cast("Extra | None", self.extras.get(kind))

    def keep(self, extra: Extra) -> Extra:
        """Keep a structure with the part, in the place of an earlier one of its type. Returns it. O(1).

        If two threads call this at the same time, the part may lose one structure. Its module then makes it again.
        """
        self.extras = {**self.extras, type(extra): extra}
        return extra

    @property
    def nbytes(self) -> int:
        """Bytes of the index and of the structures that the part keeps."""
        extras = sum([extra.nbytes for extra in self.extras.values()])
        return self.index.nbytes + self.alive.nbytes + 4 * len(self.deaths) + extras

    @classmethod
    def of(cls, index: PredicateIndex) -> Part:
        """A part with all clauses alive."""
        return cls(index, np.ones(len(index), np.uint8), len(index))

    def find(self, slot: int) -> int:
        """The position of a live clause, or -1. O(log S)."""
        (position,) = self.index.find(np.array([slot])).tolist()
        return position if position >= 0 and self.alive[position] else -1

    def holds(self, slots: Array) -> bool:
        """Whether the part has a live clause in one of `slots` (int64[k]). O(k log S)."""
        positions = self.index.find(slots)
        return bool(self.alive[positions[positions >= 0]].any())

    def kill(self, slot: int) -> bool:
        """Remove the clause in a slot. Returns whether it was alive. O(log S)."""
        position = self.find(slot)
        if position < 0:
            return False
        self.deaths.append(position)
        self.alive[position] = 0
        self.live -= 1
        return True

    def kill_all(self, slots: Array) -> int:
        """Remove the live clauses in `slots` (int64[k], distinct). Returns their number. O(k log S)."""
        positions = self.index.find(slots)
        killed = positions[positions >= 0]
        killed = killed[self.alive[killed] == 1]
        self.deaths.frombytes(killed.astype(np.int32).tobytes())
        self.alive[killed] = 0
        self.live -= len(killed)
        return len(killed)

    def readers(self, attributes: Collection[int]) -> Array:
        """The slots of the live clauses that read one of `attributes`, int64, ascending. O(intervals)."""
        index = self.index
        local = np.flatnonzero(np.isin(index.attributes, list(attributes)))
        if not len(local):
            return np.zeros(0, np.int64)
        factors = np.searchsorted(index.factor_ptr, np.flatnonzero(np.isin(index.iv_attr, local)), "right") - 1
        clauses = np.unique(np.searchsorted(index.clause_ptr, factors, "right") - 1)
        slots: Array = index.slots[clauses[self.alive[clauses] == 1]].astype(np.int64)
        return slots


class PartView:
    """The state of a part after `deaths` of its clauses were removed. For readers, on any thread."""

    def __init__(self, seen: Part) -> None:
        self.seen = seen
        self.deaths = len(seen.deaths)
        self._part: Part | None = None

    def part(self) -> Part:
        """A copy of the part in that state. The first call copies O(clauses) bytes."""
        if self._part is None:
            self._part = self._restored()
        return self._part

    def _restored(self) -> Part:
        # the flags are copied before the deaths are read, so each clause with a flag of 0 is in the deaths already
        alive = self.seen.alive.copy()
        later = self.seen.deaths[self.deaths :]
        alive[np.frombuffer(later, np.int32)] = 1
        part = Part(self.seen.index, alive, int(np.count_nonzero(alive)))
        part.extras = {kind: extra.twin(part) for kind, extra in self.seen.extras.items()}
        return part


def bases(bounds: Sequence[Bounds]) -> Array:
    """The first row of each attribute, and the row after the last attribute: int64[A + 1]."""
    base = np.zeros(len(bounds) + 1, np.int64)
    np.cumsum([len(boundaries) + EXTRA_ROWS for boundaries in bounds], out=base[1:])
    return base
