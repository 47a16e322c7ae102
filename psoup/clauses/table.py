"""The table of one stream's clauses, with look-ups by name, by slot and by SQC ID.

    name (128 bits) ─> slot      equal clauses are one: `psoup.clauses.names`
    slot ─> SQC ID               `SlotTable`: small numbers that the arrays of the stream use for its clauses
    SQC ID ─> slot               `LiveClauses`: in the order of their registration

A clause enters all three maps in one step and leaves them in one step. No other step changes a map.

    allocate ─> live ─ release ─> dead ─ (open chunk closed or rebuilt) ─> free ─> allocate …

A dead slot is not reused while the open chunk's results may refer to it. Readers share `sqc_of_slot`. So the writer
copies it before it overwrites an entry that they may have seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from psoup.clauses.names import ClauseNames
from psoup.invariants import corrupt, ensure
from psoup.plan.factors import Factor
from psoup.plan.standing_query import ClauseColumns
from psoup.values.columns import Array

_FIRST = 16
_ROOMY = 4
"""If the table has more than this number of places for each slot, it is made smaller."""


class SlotTable:
    """The states of slots. `sqc_of_slot`: the SQC ID of each slot, int64; -1 for a slot that was never used."""

    def __init__(self) -> None:
        self.sqc_of_slot: Array = np.full(_FIRST, -1, np.int64)
        self.used = 0
        self._free: list[int] = []
        self._dead: list[int] = []
        self._shared = False

    def allocate(self, sqc_ids: Array) -> Array:
        """Slots for new clauses, int64[n]. Amortised O(n). If a slot is reused: O(slots) once between publications."""
        count = len(sqc_ids)
        again = self._free[max(len(self._free) - count, 0) :][::-1]
        del self._free[len(self._free) - len(again) :]
        last = self.used + count - len(again)
        slots = np.concatenate([np.array(again, np.int64), np.arange(self.used, last)])
        if last > len(self.sqc_of_slot):
            grown: Array = np.full(last + last // 4 + _FIRST, -1, np.int64)
            grown[: self.used] = self.sqc_of_slot[: self.used]
            self.sqc_of_slot = grown
            self._shared = False
        if self._shared and (self.sqc_of_slot[slots] >= 0).any():
            self.sqc_of_slot = self.sqc_of_slot.copy()
            self._shared = False
        self.sqc_of_slot[slots] = sqc_ids
        self.used = last
        return slots

    def release(self, slots: Array) -> None:
        """Mark the slots (int64[k]) of removed clauses as dead."""
        self._dead += slots.tolist()

    def share(self) -> Array:
        """Return `sqc_of_slot` for a reader, so that the writer copies it before an entry changes."""
        self._shared = True
        return self.sqc_of_slot

    def free_dead(self) -> None:
        """Make the dead slots free, as no result refers to them now. Smaller slots are reused first. O(f log f)."""
        self._free = sorted(self._free + self._dead, reverse=True)
        self._dead.clear()
        last = 0
        while last < len(self._free) and self._free[last] == self.used - 1:
            self.used -= 1
            last += 1
        del self._free[:last]
        if len(self.sqc_of_slot) > _ROOMY * max(self.used, _FIRST // 2):
            self.sqc_of_slot = self.sqc_of_slot[: max(self.used, _FIRST)].copy()
            self._shared = False

    @property
    def dead(self) -> Array:
        """The slots released since the last `free_dead`, int64."""
        return np.array(self._dead, np.int64)

    @property
    def dead_count(self) -> int:
        """The number of dead slots. O(1)."""
        return len(self._dead)

    @property
    def live_count(self) -> int:
        """The number of slots with a live clause. O(1)."""
        return self.used - len(self._free) - len(self._dead)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.sqc_of_slot.nbytes

    def live_mapping(self) -> Array:
        """Return `sqc_of_slot` for a reader, with -1 for dead slots. O(1) without dead slots, else O(slots)."""
        if not self._dead:
            return self.share()
        mapping = self.sqc_of_slot.copy()
        mapping[self.dead] = -1
        return mapping

    def check_live(self, slots: Array) -> None:
        """Check that exactly these slots (int64[k]) are in use, and that all others are dead or free."""
        idle = {*self._free, *self._dead}
        both = sorted(idle.intersection(slots.tolist()))
        ensure(not both, self, "slots are in use, and dead or free", slots=both)
        accounted = len(slots) + len(idle)
        ensure(accounted == self.used, self, "slots are miscounted", used=self.used, live=len(slots), idle=len(idle))

    def check(self) -> None:
        """Check that no slot is in two states."""
        idle = self._free + self._dead
        ensure(len(set(idle)) == len(idle), self, "a slot was released twice", free=self._free, dead=self._dead)
        unknown = [slot for slot in idle if not 0 <= slot < self.used]
        ensure(not unknown, self, "a slot is released that was never used", slots=unknown, used=self.used)
        owned = self.sqc_of_slot[np.setdiff1d(np.arange(self.used), idle)]
        ensure((owned >= 0).all() and len(np.unique(owned)) == len(owned), self, "a clause has two slots", owners=owned)


_GONE = 2**32 - 1
_FIRST = 16


class LiveClauses:
    """A map from SQC IDs to slots, of 12 bytes for each clause. Only the writer may call it."""

    def __init__(self) -> None:
        self._ids: Array = np.zeros(_FIRST, np.int64)
        self._slots: Array = np.zeros(_FIRST, np.uint32)
        self._used = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return self._ids.nbytes + self._slots.nbytes

    def add(self, ids: Array, slots: Array) -> None:
        """Append clauses: int64[n], ascending and above all earlier IDs. Amortised O(n)."""
        end = self._used + len(ids)
        if end > len(self._ids):
            room = end + end // 4
            for name, dtype in (("_ids", np.int64), ("_slots", np.uint32)):
                grown = np.zeros(room, dtype)
                grown[: self._used] = getattr(self, name)[: self._used]
                setattr(self, name, grown)
        self._ids[self._used : end], self._slots[self._used : end] = ids, slots
        self._used = end
        self._count += len(ids)

    def remove(self, sqc_ids: Array) -> Array:
        """Remove clauses (int64[k], distinct), which must exist. Returns their slots, int64[k].

        Amortised O(k log n).
        """
        places = self._find(sqc_ids)
        slots: Array = self._slots[places].astype(np.int64)
        self._slots[places] = _GONE
        self._count -= len(sqc_ids)
        if self._used > 2 * self._count + _FIRST:
            live = np.flatnonzero(self._slots[: self._used] != _GONE)
            room = max(self._count, _FIRST)
            self._ids, self._slots = np.resize(self._ids[live], room), np.resize(self._slots[live], room)
            self._used = self._count
        return slots

    def since(self, start: int, count: int) -> tuple[Array, Array]:
        """SQC IDs and slots of at most `count` live clauses, from the ID `start` on: int64[k] each. O(log n + k)."""
        ids, slots = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        at = int(np.searchsorted(self._ids[: self._used], start))
        while at < self._used and count > 0:
            end = min(at + count, self._used)
            alive = np.flatnonzero(self._slots[at:end] != _GONE) + at
            ids.append(self._ids[alive])
            slots.append(self._slots[alive].astype(np.int64))
            count -= len(alive)
            at = end
        return np.concatenate(ids), np.concatenate(slots)

    def check(self) -> None:
        """Check that IDs ascend, and that live clauses have different slots. O(clauses)."""
        ids, slots = self._ids[: self._used], self._slots[: self._used]
        ensure((np.diff(ids) > 0).all(), self, "SQC IDs do not ascend", ids=ids)
        live = slots[slots != _GONE]
        ensure(len(live) == self._count, self, "live clauses are miscounted", counted=self._count, slots=live)
        ensure(len(np.unique(live)) == len(live), self, "two clauses have one slot", ids=ids, slots=slots)

    def _find(self, sqc_ids: Array) -> Array:
        ids = self._ids[: self._used]
        places = np.searchsorted(ids, sqc_ids)
        if len(places) == 1:  # the usual case: each NumPy call costs a microsecond
            at = int(places[0])
            live = at < len(ids) and bool(ids[at] == sqc_ids[0]) and bool(self._slots[at] != _GONE)
        else:
            live = int(places.max()) < len(ids) and bool((ids[places] == sqc_ids).all())
            live = live and bool((self._slots[places] != _GONE).all())
        ensure(live, self, "a clause is asked for that is not live", sqc_ids=sqc_ids)
        return places


class ClauseTable:
    """The clauses of one stream; see the module. Only the writer may call it. Takes about 60 bytes for each clause."""

    def __init__(self, next_sqc: int) -> None:
        self._names = ClauseNames()
        self._slots = SlotTable()
        self._live = LiveClauses()
        self.next_sqc = next_sqc
        """A number above the SQC IDs of all clauses so far."""

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
        """The names of many clauses of one template, uint64[n, 2]."""
        return self._names.of_columns(columns)

    def find(self, names: Array) -> Array:
        """The SQC ID of each clause by its name (uint64[n, 2]), or -1 if there is none: int64[n]."""
        slots = self._names.find(names)
        return np.where(slots < 0, -1, self._slots.sqc_of_slot[slots])

    def place(self, names: Array, first_sqc: int) -> tuple[Array, Array]:
        """Find the slots of clauses by their names, and give slots to new clauses.

        Returns the slots, int64[n], and the rows of new clauses, int64[m]. New clauses get the SQC IDs from `first_sqc`
        on, in order, which must be unused.
        """
        slots, fresh = self._names.assign(names, lambda count: self._slots.allocate(first_sqc + np.arange(count)))
        if len(fresh):
            ensure(first_sqc >= self.next_sqc, self, "an SQC ID is given again", first=first_sqc, next=self.next_sqc)
            self.next_sqc = first_sqc + len(fresh)
            self._live.add(first_sqc + np.arange(len(fresh)), slots[fresh])
        return slots, fresh

    def remove(self, sqc_ids: Array) -> None:
        """Remove clauses by their SQC IDs (int64[k], distinct). Their slots become dead."""
        slots = self._live.remove(sqc_ids)
        self._names.forget(slots)
        self._slots.release(slots)

    # By slot, and by SQC ID ------------------------------------------------------------------------------

    @property
    def sqc_of_slot(self) -> Array:
        """The SQC ID of each slot, int64, or -1 for a slot that was never used. Only for the writer."""
        return self._slots.sqc_of_slot

    def share(self) -> Array:
        """Return `sqc_of_slot` for a reader. Its entries do not change, as the writer copies the array first."""
        return self._slots.share()

    def live_mapping(self) -> Array:
        """Return `sqc_of_slot` for a reader, with -1 for dead slots."""
        return self._slots.live_mapping()

    def since(self, start: int, count: int) -> tuple[Array, Array]:
        """SQC IDs and slots of at most `count` clauses, from the ID `start` on: int64[k] each. O(log n + k)."""
        return self._live.since(start, count)

    @property
    def used(self) -> int:
        """The number after the greatest slot that is live or dead."""
        return self._slots.used

    @property
    def dead_count(self) -> int:
        """The number of dead slots. O(1)."""
        return self._slots.dead_count

    def free_dead(self) -> Array:
        """Make the dead slots free, as no result refers to them any more. Returns these slots, int64."""
        dead = self._slots.dead
        self._slots.free_dead()
        return dead

    # Invariants ------------------------------------------------------------------------------------------

    def check_counts(self) -> None:
        """Check that there are as many names as slots and SQC IDs. O(1)."""
        counts = len(self._names), self._slots.live_count, len(self._live)
        if not counts[0] == counts[1] == counts[2]:
            raise corrupt(self, "names, slots and IDs are not of the same clauses", counts=counts)

    def check(self, clauses: Sequence[tuple[int, int]]) -> None:
        """Check that the table holds exactly these clauses (SQC ID, slot), each with one name, slot and ID."""
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
