"""The clauses of one stream: one table, which is asked by name, by slot and by SQC ID.

    name (128 bits) ─> slot      equal clauses are one: `psoup.clauses.names`
    slot ─> SQC ID               shared with readers: `psoup.clauses.slots`
    SQC ID ─> slot               in the order in which they came: `psoup.clauses.live`

A clause comes into all three at once and leaves them at once; nobody else changes one of them. Its slot is free only
when nothing names it any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from psoup.clauses.live import LiveClauses
from psoup.clauses.names import ClauseNames
from psoup.clauses.slots import SlotTable
from psoup.columns import Array
from psoup.invariants import corrupt, ensure
from psoup.plan.factors import Factor
from psoup.plan.many import ClauseColumns


class ClauseTable:
    """See the module. Every method is the writer's; 60 bytes a clause, about."""

    def __init__(self, next_sqc: int) -> None:
        self._names = ClauseNames()
        self._slots = SlotTable()
        self._live = LiveClauses()
        self.next_sqc = next_sqc
        """The SQC ID below which those of all clauses are."""

    def __len__(self) -> int:
        return len(self._live)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self._names.nbytes + self._live.nbytes + self._slots.nbytes

    # Clauses come and go ---------------------------------------------------------------------------------

    def name_of(self, factors: Iterable[Factor]) -> Array:
        """The name of one clause, uint64[1, 2]."""
        return self._names.of_clause(factors)

    def names_of(self, columns: ClauseColumns) -> Array:
        """The names of many clauses of one form, uint64[n, 2]."""
        return self._names.of_columns(columns)

    def place(self, names: Array, first_sqc: int) -> tuple[Array, Array]:
        """The slots of clauses by their names (int64[n]), and the rows of new ones (int64[m]).

        These have the SQC IDs from `first_sqc` on, in order; no clause may have one of them yet.
        """
        slots, fresh = self._names.assign(names, lambda count: self._slots.allocate(first_sqc + np.arange(count)))
        if len(fresh):
            ensure(first_sqc >= self.next_sqc, self, "an SQC ID is given again", first=first_sqc, next=self.next_sqc)
            self.next_sqc = first_sqc + len(fresh)
            self._live.add(first_sqc + np.arange(len(fresh)), slots[fresh])
        return slots, fresh

    def remove(self, sqc_id: int) -> None:
        """A clause is gone; its slot is dead."""
        slot = self._live.slot(sqc_id)
        self._names.forget(slot)
        self._slots.release(slot)
        self._live.remove(sqc_id)

    # By slot, and by SQC ID ------------------------------------------------------------------------------

    @property
    def sqc_of_slot(self) -> Array:
        """The SQC ID of each slot, int64; -1 where none was. The writer's to read: readers get `share`."""
        return self._slots.sqc_of_slot

    def share(self) -> Array:
        """`sqc_of_slot` for a reader: what it sees of a slot stays."""
        return self._slots.share()

    def live_mapping(self) -> Array:
        """`sqc_of_slot` for a reader, with -1 for the dead."""
        return self._slots.live_mapping()

    def since(self, start: int, count: int) -> tuple[Array, Array]:
        """SQC IDs and slots of the clauses from the ID `start` on, at most `count` (int64[k] each). O(log n + k)."""
        return self._live.since(start, count)

    @property
    def used(self) -> int:
        """All slots are below it."""
        return self._slots.used

    @property
    def dead_count(self) -> int:
        """How many slots are dead. O(1)."""
        return self._slots.dead_count

    def free_dead(self) -> Array:
        """Nothing names the dead slots any more: they are free; returns them, int64."""
        dead = self._slots.dead
        self._slots.free_dead()
        return dead

    # Invariants ------------------------------------------------------------------------------------------

    def check_counts(self) -> None:
        """Names, slots and IDs are of as many clauses. O(1)."""
        counts = len(self._names), self._slots.live_count, len(self._live)
        if not counts[0] == counts[1] == counts[2]:
            raise corrupt(self, "names, slots and IDs are not of the same clauses", counts=counts)

    def check(self, clauses: Sequence[tuple[int, int]]) -> None:
        """It holds just these clauses (SQC ID, slot), each under one name, one slot and one ID."""
        for part in (self._slots, self._live):
            part.check()
        wanted = np.array(sorted(clauses), np.int64).reshape(-1, 2)
        ids, slots = self._live.since(0, len(wanted) + 1)
        same = np.array_equal(np.stack([ids, slots], 1), wanted)
        ensure(same, self, "other clauses stand than there are", ids=ids, slots=slots, wanted=wanted)
        ensure(bool((ids < self.next_sqc).all()), self, "an SQC ID was not given yet", ids=ids[-1:], next=self.next_sqc)
        owners = self.sqc_of_slot[slots]
        ensure(np.array_equal(owners, ids), self, "a slot belongs to another clause", ids=ids, owners=owners)
        self._slots.check_live(slots)
        self._names.check(slots)
