"""The delta: a small predicate index of recent clauses. The cost of a registration depends only on the clause's size.

    add -> SortedDict of boundaries per attribute, rows of (attribute, low, high)     --at the next probe--> arrays
    remove -> a flag in the arrays, if they are made, and a gap in the rows

The Query SteM limits the delta's size, so that a probe can make arrays from it at a small cost. A full delta becomes a
part of the main index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from sortedcontainers import SortedDict

from psoup.clauses.index.bounds import Bounds, int_bounds, text_bounds
from psoup.clauses.index.clause_rows import ClauseRows
from psoup.clauses.index.combine import assemble
from psoup.clauses.index.posting_lists import STANDARD, Layout
from psoup.clauses.index.predicate_index import Part, PartView, PredicateIndex, bases
from psoup.invariants import ensure
from psoup.model import Kind
from psoup.plan.factors import Factor, Key, Term
from psoup.values.columns import Array

_CLAUSE_BYTES = 160
"""Approximate bytes of a clause."""
_INTERVAL_BYTES = 72
"""Approximate bytes of an interval."""
_BOUNDARY_BYTES = 120
"""Approximate bytes of a boundary."""
_UNLISTED = 1_024
"""The most clauses of an index without posting lists. For few clauses, making lists costs more than testing all clauses
for some pieces."""
START = object()
END = object()
PAST_NULL = object()
Edge = Key | object
"""An end of an interval: a boundary, START (below all values), END (above all values, at NULL) or PAST_NULL."""


def edges_of(term: Term) -> list[tuple[Edge, Edge]]:
    """The intervals of a term as pairs of ends. If NULL passes, it is an interval, too."""
    edges: list[tuple[Edge, Edge]] = [
        (START if i.low is None else i.low, END if i.high is None else i.high) for i in term.intervals
    ]
    if term.nulls and edges and edges[-1][1] is END:
        edges[-1] = (edges[-1][0], PAST_NULL)
    elif term.nulls:
        edges.append((END, PAST_NULL))
    return edges


Resolved = Sequence[tuple[Factor, Sequence[int]]]
"""Factors, each with the attribute IDs of its terms."""


class Delta:
    """The recent clauses, by slot. Only the writer may call this, except for `known`."""

    def __init__(self, layout: Layout = STANDARD) -> None:
        self._layout = layout
        self.bounds: dict[int, SortedDict] = {}
        self._text: set[int] = set()
        self._where: dict[int, int] = {}
        self._slots: list[int] = []
        self._clause_ptr: list[int] = [0]
        self._factor_ptr: list[int] = [0]
        self._attributes: list[int] = []
        self._low: list[Edge] = []
        self._high: list[Edge] = []
        self._gone: list[int] = []
        """Positions of removed clauses, in the order of their removal."""
        self._part: Part | None = None
        self._twin: Delta | None = None

    def __len__(self) -> int:
        return len(self._where)

    def __contains__(self, slot: int) -> bool:
        return slot in self._where

    def add(self, slot: int, factors: Resolved) -> None:
        """Add a clause. O(intervals * log(boundaries))."""
        first = len(self._low)
        self._append(slot, factors)
        for i in range(first, len(self._low)):
            self._count(self._attributes[i], [(self._low[i], self._high[i])], 1)

    def _count_all(self) -> None:
        """Count, for each boundary, the intervals of all rows that end there."""
        edges: dict[int, list[Edge]] = {attribute: [] for attribute in set(self._attributes)}
        for attribute, low, high in zip(self._attributes, self._low, self._high, strict=True):
            edges[attribute] += (low, high)
        for attribute, ends in edges.items():
            counted = Counter(ends)
            for end in (START, END, PAST_NULL):
                counted.pop(end, None)
            self.bounds[attribute] = SortedDict(counted)

    def _append(self, slot: int, factors: Resolved) -> None:
        """Append the rows of a clause, without counting its boundaries."""
        self._where[slot] = len(self._slots)
        self._slots.append(slot)
        for factor, attributes in factors:
            for term, attribute in zip(factor.terms, attributes, strict=True):
                edges = edges_of(term)
                if term.attribute.type.kind is Kind.TEXT:
                    self._text.add(attribute)
                self._attributes.extend([attribute] * len(edges))
                self._low.extend(low for low, _ in edges)
                self._high.extend(high for _, high in edges)
            self._factor_ptr.append(len(self._low))
        self._clause_ptr.append(len(self._factor_ptr) - 1)
        self._part = None

    def remove(self, slot: int) -> None:
        """Remove a clause, which must exist. O(intervals * log(boundaries)), amortised."""
        position = self._where.pop(slot)
        self._gone.append(position)
        for i in range(*self._intervals(position)):
            self._count(self._attributes[i], [(self._low[i], self._high[i])], -1)
        if self._part is not None:
            self._part.kill(slot)
        if len(self._slots) > 2 * len(self._where) + 16:
            self._compact()

    def part(self) -> Part:
        """The clauses as a part of the index. The same object until the next `add`. O(size) after it, else O(1)."""
        if self._part is None:
            self._part = Part.of(self._build())
        return self._part

    def view(self) -> PartView | RecentView:
        """A view of the present clauses, for readers. O(1)."""
        if self._part is not None:
            return self._part.view()
        if self._twin is None:
            self._twin = self._shared()
        return RecentView(self._twin, len(self._slots), len(self._gone))

    def _shared(self) -> Delta:
        """A delta that shares the lists of rows with this one, without boundaries and the map of slots.

        The writer only appends to these lists. Views of many publications share the object, until `_compact` makes new
        lists.
        """
        twin = Delta(self._layout)
        twin._text, twin._slots, twin._gone = self._text, self._slots, self._gone
        twin._clause_ptr, twin._factor_ptr = self._clause_ptr, self._factor_ptr
        twin._attributes, twin._low, twin._high = self._attributes, self._low, self._high
        return twin

    def known(self) -> Part | None:
        """The part that `part` has made, or None. Any thread may call this."""
        return self._part

    def slots(self) -> list[int]:
        """The slots of the clauses, in no order."""
        return list(self._where)

    def attributes(self) -> set[int]:
        """The IDs of the attributes with an interval in the delta. O(attributes)."""
        return set(self.bounds)

    @property
    def nbytes(self) -> int:
        """The approximate bytes of the clauses, estimated from usual sizes of Python objects."""
        boundaries = sum(len(counter) for counter in self.bounds.values())
        intervals = sum(b - a for a, b in map(self._intervals, self._where.values()))
        return _CLAUSE_BYTES * len(self) + _INTERVAL_BYTES * intervals + _BOUNDARY_BYTES * boundaries

    def check(self) -> None:
        """Check the invariants. Raises Corrupt. O(size)."""
        counted: dict[int, dict[Key, int]] = {}
        for position in self._where.values():
            for i in range(*self._intervals(position)):
                counter = counted.setdefault(self._attributes[i], {})
                for edge in (self._low[i], self._high[i]):
                    if isinstance(edge, int | bytes):
                        counter[edge] = counter.get(edge, 0) + 1
        in_bounds = {attribute: dict(counter) for attribute, counter in self.bounds.items()}
        # with a wrong count a boundary could vanish while a clause still needs its code
        wrong = [a for a in {*counted, *in_bounds} if counted.get(a, {}) != in_bounds.get(a, {})]
        ensure(not wrong, self, "boundaries are not those of the clauses", attributes=wrong)
        wrong = [slot for slot, position in self._where.items() if self._slots[position] != slot]
        ensure(not wrong, self, "slots are not where they should be", slots=wrong)
        self.part().index.check()

    def _intervals(self, position: int) -> tuple[int, int]:
        first, last = self._clause_ptr[position], self._clause_ptr[position + 1]
        return self._factor_ptr[first], self._factor_ptr[last]

    def _count(self, attribute: int, edges: Sequence[tuple[Edge, Edge]], change: int) -> None:
        """Count the boundaries of intervals up (`change` is 1) or down (-1).

        An attribute without boundaries stays while it has intervals.
        """
        boundaries = self.bounds.get(attribute)
        if boundaries is None:
            boundaries = self.bounds[attribute] = SortedDict()
        for pair in edges:
            for edge in pair:
                if not isinstance(edge, int | bytes):
                    continue
                count = boundaries.get(edge, 0) + change
                if count:
                    boundaries[edge] = count
                else:
                    del boundaries[edge]

    def pick(self, slots: Iterable[int]) -> PredicateIndex:
        """Some of the clauses as a separate index. O(their intervals * log(boundaries))."""
        return self.built(self._where[slot] for slot in slots)

    def built(self, positions: Iterable[int]) -> PredicateIndex:
        """The clauses at some positions as a separate index."""
        picked = self._copied(positions)
        picked._count_all()
        return picked._build()

    def _copied(self, positions: Iterable[int]) -> Delta:
        """A copy of the rows of the clauses at `positions`, without boundaries."""
        copy = Delta(self._layout)
        copy._text = self._text
        for position in positions:
            for factor in range(self._clause_ptr[position], self._clause_ptr[position + 1]):
                span = slice(self._factor_ptr[factor], self._factor_ptr[factor + 1])
                copy._attributes += self._attributes[span]
                copy._low += self._low[span]
                copy._high += self._high[span]
                copy._factor_ptr.append(len(copy._low))
            copy._where[self._slots[position]] = len(copy._slots)
            copy._slots.append(self._slots[position])
            copy._clause_ptr.append(len(copy._factor_ptr) - 1)
        return copy

    def _compact(self) -> None:
        """Drop the rows of removed clauses."""
        live, self._twin = self._copied(sorted(self._where.values())), None
        self._where = live._where
        self._slots = live._slots
        self._gone = []
        self._clause_ptr = live._clause_ptr
        self._factor_ptr = live._factor_ptr
        self._attributes = live._attributes
        self._low = live._low
        self._high = live._high
        used = set(self._attributes)
        self.bounds = {attribute: counter for attribute, counter in self.bounds.items() if attribute in used}

    def _build(self) -> PredicateIndex:
        return assemble(*self.rows(), self._layout if len(self) > _UNLISTED else None)

    def rows(self) -> tuple[ClauseRows, Array, tuple[Bounds, ...], Array]:
        """The clauses in the order of their addition, as the arguments of `combine.assemble`. O(size)."""
        if len(self._slots) != len(self._where):
            self._compact()
        attributes = sorted(set(self._attributes))
        bounds = tuple(
            text_bounds(list(self.bounds[a]))
            if a in self._text
            else int_bounds(np.array(list(self.bounds[a]), np.int64))
            for a in attributes
        )
        base = bases(bounds)
        owner = np.array(self._attributes, np.int64)
        low, high = np.zeros(len(owner), np.int32), np.zeros(len(owner), np.int32)
        order = np.argsort(owner, kind="stable")  # one pass over all rows for each attribute would be quadratic
        places = np.split(order, np.searchsorted(owner[order], attributes[1:]))
        for local, (attribute, interval_rows) in enumerate(zip(attributes, places, strict=False)):
            first, size = int(base[local]), len(bounds[local])
            row: dict[Edge, int] = {key: first + k for k, key in enumerate(self.bounds[attribute], 1)}
            row |= {START: first, END: first + size + 1, PAST_NULL: first + size + 2}
            listed = interval_rows.tolist()
            low[interval_rows] = [row[self._low[place]] for place in listed]
            high[interval_rows] = [row[self._high[place]] for place in listed]
        rows = ClauseRows(
            np.array(self._slots, np.uint32),
            np.array(self._clause_ptr, np.int32),
            np.array(self._factor_ptr, np.int32),
            owner,
            low,
            high,
        )
        return rows, np.array(attributes, np.int64), bounds, base


class RecentView:
    """The clauses of a delta at a moment, for readers. It holds the numbers of rows and of removals at that moment."""

    __slots__ = "_count", "_part", "_removed", "_rows"

    def __init__(self, rows: Delta, count: int, removed: int) -> None:
        self._rows = rows
        self._count = count
        self._removed = removed
        self._part: Part | None = None

    def part(self) -> Part:
        """The clauses as a part of an index. The first call is O(size), later ones O(1)."""
        if self._part is None:
            gone = set(self._rows._gone[: self._removed])
            self._part = Part.of(self._rows.built(p for p in range(self._count) if p not in gone))
        return self._part
