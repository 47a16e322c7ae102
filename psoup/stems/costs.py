"""What joining new tuples costs each clause, counted while it is done.

    looked     tuples looked at one by one: they passed the clause's most selective factor
    anded      tuples looked at as bits, 64 at a time
    hits       of a cell of the index: how often its lists were tested; a clause is tested once for each of its cells
    matched    of chunks that are no longer there; of the others the results themselves say it

By slot, since the clause joined: a slot that is used again begins anew. Counting is O(1) for a clause that is looked
at, and nothing for one that is not. Readers read while the writer counts, and may see a piece half counted. Covering of
old tuples is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from psoup.columns import Array
from psoup.kernels.tally import tally_cells, tally_work
from psoup.stems.predicate_index import Part, PredicateIndex

_FIRST_SLOTS = 16
_TEST, _WALK, _AND = 1.0, 4.0, 1 / 16
"""Cost of a tuple tested in a list, looked at by itself (for each factor), and as a bit (for each factor)."""


@dataclass(frozen=True, slots=True)
class SlotCosts:
    """By slot. `tuples`: int64, joined since the clause came. `candidates`: int64, looked at for it. `units`: float64,
    an estimate of the work in a unit of its own."""

    tuples: Array
    candidates: Array
    units: Array
    matched: Array


class Costs:
    """The counters of one stream's clauses. `parts` is the Query SteM's list; the writer counts, anyone reads."""

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._recent: Part | None = None
        self.tuples = 0
        """Tuples joined so far."""
        self._by_slot: Array = np.zeros((4, _FIRST_SLOTS), np.int64)
        """looked, anded, matched, and `tuples` when the clause came."""

    @property
    def nbytes(self) -> int:
        """Bytes of the counters."""
        hits = sum(part.hits.nbytes for part in [*self._parts] if part.hits is not None)
        return self._by_slot.nbytes + hits

    # The writer ------------------------------------------------------------------------------------------

    def begin(self, slots: Array) -> None:
        """Clauses join in these slots, int64[k]. O(k), amortised."""
        most = int(slots.max(initial=-1)) + 1
        if most > self._by_slot.shape[1]:
            grown: Array = np.zeros((4, max(most, 2 * self._by_slot.shape[1])), np.int64)
            grown[:, : self._by_slot.shape[1]] = self._by_slot
            self._by_slot = grown
        self._by_slot[:3, slots] = 0
        self._by_slot[3, slots] = self.tuples

    def planned(self, index: PredicateIndex, clauses: Array, walked: Array, room: Array, tuples: int) -> None:
        """Count what a plan lets be done. O(clauses in it)."""
        tally_work(clauses, walked, room, index.slots, tuples, self._by_slot[0], self._by_slot[1])

    def reached(self, part: Part, cells: Array) -> None:
        """Count the cells whose lists are tested. O(cells reached)."""
        if part.hits is None:
            part.hits = np.zeros(len(part.index.lists.cell_ptr), np.int64)
        tally_cells(cells, part.hits)

    def recent(self, part: Part | None) -> None:
        """The part that the delta has built, or that it has none: the one before leaves its hits. O(1) if it is it."""
        if part is not self._recent:
            known = self._recent
            if known is not None and not any(own is known for own in self._parts):
                self.fold([known])
            self._recent = part

    def fold(self, parts: Sequence[Part]) -> None:
        """These parts go: what was counted by cell is kept by slot. O(their size)."""
        for part in parts:
            found = _through_lists(part)
            if found is not None:
                np.add.at(self._by_slot[0], part.index.slots[found[0]], found[1])
                part.hits = None
            if part is self._recent:
                self._recent = None

    def gone(self, slots: Array, counts: Array) -> None:
        """Matches of clauses in distinct `slots` leave with their chunk."""
        self._by_slot[2, slots] += counts

    # Anyone ----------------------------------------------------------------------------------------------

    def read(self) -> SlotCosts:
        """All counters now. O(slots + entries of the index)."""
        looked, anded, matched, born = self._by_slot.copy()
        tested: Array = np.zeros(len(looked), np.int64)
        factors: Array = np.ones(len(looked), np.int64)
        for part in {id(own): own for own in (*self._parts, self._recent) if own is not None}.values():
            alive = np.flatnonzero(part.alive)
            slots = part.index.slots[alive]
            factors[slots] = np.maximum(np.diff(part.index.clause_ptr)[alive], 1)
            found = _through_lists(part)
            if found is not None:
                np.add.at(tested, part.index.slots[found[0]], found[1])
        units = tested * _TEST + (looked * _WALK + anded * _AND) * factors
        return SlotCosts(self.tuples - born, looked + anded + tested, units, matched)


def _through_lists(part: Part) -> tuple[Array, Array] | None:
    """Positions of live clauses that were tested in lists, and how often; None if none was."""
    hits = part.hits
    if hits is None:
        return None
    lists = part.index.lists
    by_group = np.repeat(hits[: len(lists.cell_ptr) - 1], np.diff(lists.cell_ptr))
    by_entry = np.repeat(by_group, np.diff(lists.group_ptr))
    counted = np.bincount(lists.entries, by_entry, len(part.index)).astype(np.int64) * part.alive
    positions = np.flatnonzero(counted)
    return positions, counted[positions]
