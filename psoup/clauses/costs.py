"""The costs of each clause in the join with new tuples, which the join counts.

    looked     tuples tested one by one: they passed the clause's most selective factor
    anded      tuples tested as bits, 64 at a time
    hits       of a cell of the index: tests of its lists; a clause is tested once for each of its cells
    matched    matches in dropped chunks; other chunks have them in their results
    joined     seconds of the writer's time in all joins; computed: the part of it for each expression

Counts are by slot, and begin at 0 when a clause gets the slot. Counting costs O(1) for a tested clause, and nothing for
other clauses. The counts of a dropped chunk or index part stay in a list until maintenance adds them up by slot. A
reader may read while the writer counts, and then sees a part of a piece's counts. The evaluation of old tuples is not
counted.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from psoup.clauses.index.predicate_index import Part, PredicateIndex
from psoup.config import TextLimits
from psoup.expressions.error_guard import Compute
from psoup.expressions.tree import AttributeRef, Expr
from psoup.invariants import ensure
from psoup.kernels.arrive.work_counters import tally_cells, tally_work
from psoup.values.columns import Array, Column

_FIRST_SLOTS = 16
_MANY_GONE = 8
"""The number of dropped packs from which maintenance adds up their matches."""
_TEST = 1.0
"""The cost of one tuple that is tested in a posting list. It is the unit of cost."""
_WALK = 4.0
"""The cost of one tuple that is tested one by one, for each factor."""
_AND = 1 / 16
"""The cost of one tuple that is tested as a bit, for each factor."""


@dataclass(frozen=True, slots=True)
class SlotCosts:
    """The costs of the clause in each slot.

    `tuples`: int64, tuples joined since the clause was added. `candidates`: int64, tuples tested for it. `units`:
    float64, the estimated work, in tests of a tuple in a list. `matched`: int64, its matches.
    """

    tuples: Array
    candidates: Array
    units: Array
    matched: Array


@dataclass(frozen=True, slots=True)
class CostTally:
    """Counts of dropped chunks and index parts, added up by slot.

    `parts`, `gone`: the numbers of parts and of packs that are included. `tested`: for each part (slots, counts, number
    of tuples joined when the part was dropped). `matched`: for each pack (SQC IDs, slots, counts).
    """

    parts: int
    gone: int
    tested: tuple[tuple[Array, Array, int], ...]
    matched: tuple[tuple[Array, Array, Array], ...]


class ClauseCosts:
    """The counters of one stream's clauses. The writer counts, and any thread may read.

    `parts`: the list of the Query SteM's parts, which the Query SteM changes.
    """

    def __init__(self, parts: list[Part]) -> None:
        self._parts = parts
        self._recent: Part | None = None
        self.tuples = 0
        """The number of tuples joined so far."""
        self.joined = 0.0
        self.computed: dict[Expr, float] = {}
        self.noted: Mapping[int, float] = {}
        """The latest shares (0 to 1) of the writer's time that the stream's expensive queries took, by query ID.

        `psoup.answer.figures.arrival_shares` sets it to a new mapping.
        """
        self._by_slot: Array = np.zeros((4, _FIRST_SLOTS), np.int64)
        """Rows: looked, anded, matched, and the value of `tuples` when the clause was added."""
        self._left: list[tuple[Part, int]] = []
        """Parts that left the index in a merge, each with the value of `tuples` at that time."""
        self._gone: list[tuple[Array, Array]] = []
        """Pairs of arrays, one for each dropped pack: SQC IDs, each once, and their numbers of matches."""

    @property
    def nbytes(self) -> int:
        """Bytes of the counters."""
        hits = sum(part.hits.nbytes for part in [*self._parts] if part.hits is not None)
        left = sum(part.index.nbytes for part, _ in [*self._left])
        gone = sum(ids.nbytes + counts.nbytes for ids, counts in [*self._gone])
        return self._by_slot.nbytes + hits + left + gone

    def check(self) -> None:
        """Check that no count is negative, and no clause was added after the last tuple. Parts must have a count for
        each cell. Raises Corrupt."""
        ensure((self._by_slot >= 0).all(), self, "a count is negative", by_slot=self._by_slot.min(axis=1))
        born, left = self._by_slot[3].max(), max((upto for _, upto in self._left), default=0)
        ensure(max(born, left) <= self.tuples, self, "tuples are miscounted", born=born, left=left, tuples=self.tuples)
        for part in [*self._parts, *(part for part, _ in self._left)]:
            cells = len(part.index.lists.cell_ptr)
            ensure(part.hits is None or len(part.hits) == cells, self, "a part has other cells", cells=cells)

    # The writer ------------------------------------------------------------------------------------------

    def begin(self, slots: Array) -> None:
        """Start counting for new clauses in these slots, int64[k]. O(k), amortised."""
        slot_count = int(slots.max(initial=-1)) + 1
        if slot_count > self._by_slot.shape[1]:
            grown: Array = np.zeros((4, max(slot_count, 2 * self._by_slot.shape[1])), np.int64)
            grown[:, : self._by_slot.shape[1]] = self._by_slot
            self._by_slot = grown
        self._by_slot[:3, slots] = 0
        self._by_slot[3, slots] = self.tuples

    def timed(self, compute: Compute, timer: Callable[[], float]) -> Compute:
        """Wrap the computation of expressions, so that its time is added to each expression. O(1) for each call."""

        def computed(expr: Expr, columns: Sequence[Column], ids: Array, times: Array, texts: TextLimits) -> Column:
            if isinstance(expr, AttributeRef):
                return compute(expr, columns, ids, times, texts)
            began = timer()
            try:
                return compute(expr, columns, ids, times, texts)
            finally:
                self.computed[expr] = self.computed.get(expr, 0.0) + timer() - began

        return computed

    def spent(self, seconds: float) -> None:
        """Add the writer's time for a join of new tuples. O(1)."""
        self.joined += seconds

    def forget(self, used: Collection[Expr]) -> None:
        """Remove all expressions except for those in `used`."""
        for expr in [expr for expr in self.computed if expr not in used]:
            del self.computed[expr]

    def planned(self, index: PredicateIndex, clauses: Array, walked: Array, room: Array, tuples: int) -> None:
        """Count the tests that a plan makes over a piece of `tuples` tuples. O(clauses of the plan)."""
        tally_work(clauses, walked, room, index.slots, tuples, self._by_slot[0], self._by_slot[1])

    def looked(self, slots: Array) -> None:
        """Count one tested tuple for each occurrence of a slot. O(slots)."""
        counted = np.bincount(slots)
        self._by_slot[0, : len(counted)] += counted

    def reached(self, part: Part, cells: Array) -> None:
        """Count one test of the lists of each of these cells. O(cells)."""
        if part.hits is None:
            part.hits = np.zeros(len(part.index.lists.cell_ptr), np.int64)
        tally_cells(cells, part.hits)

    def recent(self, part: Part | None) -> None:
        """Set the delta's present part, or None. The hits of its previous part are added to the slots."""
        if part is not self._recent:
            last_part = self._recent
            if last_part is not None and not any(part is last_part for part in self._parts):
                for slots, counts in [_through_lists(last_part)]:  # the part is small
                    self._by_slot[0, slots] += counts
                last_part.hits = None
            self._recent = part

    def leave(self, parts: Sequence[Part]) -> None:
        """Keep the hits of parts that leave the index, until maintenance adds them up. O(parts)."""
        for part in parts:
            if part.hits is not None:
                self._left.append((part, self.tuples))
            if part is self._recent:
                self._recent = None

    def gone(self, columns: Iterable[tuple[Array, Array]]) -> None:
        """Keep the numbers of matches of dropped packs, until maintenance adds them up. O(packs).

        `columns`: for each pack its SQC IDs, each once, and their numbers of matches.
        """
        self._gone.extend(columns)

    def due(self, everything: bool) -> bool:
        """Whether maintenance should add up the kept counts. `everything`: even if they are few."""
        return bool(self._left) or len(self._gone) >= (1 if everything else _MANY_GONE)

    def install(self, tally: CostTally, sqc_of_slot: Array) -> None:
        """Add the sums of `tally` to the clauses that still have their slots. O(clauses in it)."""
        for slots, counts, upto in tally.tested:
            same = self._by_slot[3, slots] < upto
            self._by_slot[0, slots[same]] += counts[same]
        for ids, slots, counts in tally.matched:
            in_table = slots < len(sqc_of_slot)  # the table may have shrunk since
            same = np.flatnonzero(in_table)[sqc_of_slot[slots[in_table]] == ids[in_table]]
            self._by_slot[2, slots[same]] += counts[same]
        del self._left[: tally.parts], self._gone[: tally.gone]

    # Anyone ----------------------------------------------------------------------------------------------

    def tally(self, sqc_of_slot: Array) -> CostTally:
        """Add up the kept counts by slot. `sqc_of_slot`: int64, the clause in each slot. O(kept counts + slots)."""
        left, gone = [*self._left], [*self._gone]
        tested = tuple((*_through_lists(part), upto) for part, upto in left)
        return CostTally(len(left), len(gone), tested, tuple(_by_owner(*pair, sqc_of_slot) for pair in gone))

    def read(self, sqc_of_slot: Array | None = None) -> SlotCosts:
        """The present costs of all slots. `matched` is counted only with `sqc_of_slot`. O(slots + index entries).

        The writer may add clauses during the call. So the parts are read before the counters, and each slot of a part
        has its counters.
        """
        parts = {id(part): part for part in (*self._parts, self._recent) if part is not None}
        rest = self.tally(np.zeros(0, np.int64) if sqc_of_slot is None else sqc_of_slot)
        looked, anded, matched, born = self._by_slot.copy()
        tested: Array = np.zeros(len(looked), np.int64)
        factors: Array = np.ones(len(looked), np.int64)
        for slots, counts, upto in rest.tested:
            tested[slots] += np.where(born[slots] < upto, counts, 0)
        for _, slots, counts in rest.matched:
            counted = slots < len(matched)  # a clause may have its slot before its counters exist
            matched[slots[counted]] += counts[counted]
        for part in parts.values():
            alive = np.flatnonzero(part.alive)
            slots = part.index.slots[alive]
            factors[slots] = np.maximum(np.diff(part.index.clause_ptr)[alive], 1)
            slots, counts = _through_lists(part)
            tested[slots] += counts
        units = tested * _TEST + (looked * _WALK + anded * _AND) * factors
        return SlotCosts(self.tuples - born, looked + anded + tested, units, matched)


def _by_owner(sqc_ids: Array, counts: Array, sqc_of_slot: Array) -> tuple[Array, Array, Array]:
    """Find the slots of some clauses. Returns (SQC IDs, slots, counts) of those that have a slot."""
    owners, slots, mine = np.intersect1d(sqc_of_slot, sqc_ids, return_indices=True)
    return owners, slots, counts[mine]


def _through_lists(part: Part) -> tuple[Array, Array]:
    """The slots of a part's live clauses that were tested in lists, each once, and their numbers of tests."""
    hits = part.hits
    if hits is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    lists = part.index.lists
    by_group = np.repeat(hits[: len(lists.cell_ptr) - 1], np.diff(lists.cell_ptr))
    by_entry = np.repeat(by_group, np.diff(lists.group_ptr))
    counted = np.bincount(lists.entries[: len(lists)], by_entry, len(part.index)).astype(np.int64) * part.alive
    positions = np.flatnonzero(counted)
    return part.index.slots[positions].astype(np.int64), counted[positions]
