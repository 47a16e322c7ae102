"""Slots: small numbers under which the arrays of one stream name its standing query clauses.

    allocate ─> live ─ release ─> dead ─ (open chunk closed or rebuilt) ─> free ─> allocate …

A dead slot is not given out again while the open chunk's results may still name it. `sqc_of_slot` is shared with
readers, so it is copied before an entry that they may have seen is written again.
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array
from psoup.invariants import ensure

_FIRST = 16
_ROOMY = 4
"""A table of this many places a slot is made smaller."""


class SlotTable:
    """Who owns which slot. `sqc_of_slot`: int64, -1 where never used."""

    def __init__(self) -> None:
        self.sqc_of_slot: Array = np.full(_FIRST, -1, np.int64)
        self.used = 0
        self._free: list[int] = []
        self._dead: list[int] = []
        self._shared = False

    def allocate(self, sqc_ids: Array) -> Array:
        """Slots for new clauses, int64[n]. Amortised O(n); O(slots) once between publications if one is used again."""
        count = len(sqc_ids)
        again = self._free[max(len(self._free) - count, 0) :][::-1]
        del self._free[len(self._free) - len(again) :]
        last = self.used + count - len(again)
        slots = np.concatenate([np.array(again, np.int64), np.arange(self.used, last)])
        if last > len(self.sqc_of_slot):
            grown: Array = np.full(last + last // 4 + _FIRST, -1, np.int64)
            grown[: self.used] = self.sqc_of_slot[: self.used]
            self.sqc_of_slot, self._shared = grown, False
        if self._shared and (self.sqc_of_slot[slots] >= 0).any():
            self.sqc_of_slot = self.sqc_of_slot.copy()
            self._shared = False
        self.sqc_of_slot[slots] = sqc_ids
        self.used = last
        return slots

    def release(self, slot: int) -> None:
        """The clause in `slot` is gone."""
        self._dead.append(slot)

    def share(self) -> Array:
        """`sqc_of_slot` for a reader."""
        self._shared = True
        return self.sqc_of_slot

    def free_dead(self) -> None:
        """Nothing names the dead slots any more: they may be used again, the smallest first. O(f log f)."""
        self._free = sorted(self._free + self._dead, reverse=True)
        self._dead.clear()
        last = 0
        while last < len(self._free) and self._free[last] == self.used - 1:
            self.used -= 1
            last += 1
        del self._free[:last]
        if len(self.sqc_of_slot) > _ROOMY * max(self.used, _FIRST // 2):
            self.sqc_of_slot, self._shared = self.sqc_of_slot[: max(self.used, _FIRST)].copy(), False

    @property
    def dead(self) -> Array:
        """The slots released since the last `free_dead`, int64."""
        return np.array(self._dead, np.int64)

    @property
    def dead_count(self) -> int:
        """How many slots are dead. O(1)."""
        return len(self._dead)

    @property
    def live_count(self) -> int:
        """How many slots have a clause that stands. O(1)."""
        return self.used - len(self._free) - len(self._dead)

    @property
    def nbytes(self) -> int:
        """Bytes of the table."""
        return self.sqc_of_slot.nbytes

    def live_mapping(self) -> Array:
        """`sqc_of_slot` for a reader, with -1 for the dead. O(1) if there are none: a million slots are 8 MB."""
        if not self._dead:
            return self.share()
        mapping = self.sqc_of_slot.copy()
        mapping[self.dead] = -1
        return mapping

    def check_live(self, slots: Array) -> None:
        """Of all slots, these (int64[k]) are in use and the others dead or free."""
        idle = {*self._free, *self._dead}
        both = sorted(idle.intersection(slots.tolist()))
        ensure(not both, self, "slots are in use, and dead or free", slots=both)
        held = len(slots) + len(idle)
        ensure(held == self.used, self, "slots are miscounted", used=self.used, live=len(slots), idle=len(idle))

    def check(self) -> None:
        """No slot is in two states."""
        idle = self._free + self._dead
        ensure(len(set(idle)) == len(idle), self, "a slot was released twice", free=self._free, dead=self._dead)
        unknown = [slot for slot in idle if not 0 <= slot < self.used]
        ensure(not unknown, self, "a slot is released that was never used", slots=unknown, used=self.used)
        owned = self.sqc_of_slot[np.setdiff1d(np.arange(self.used), idle)]
        ensure((owned >= 0).all() and len(np.unique(owned)) == len(owned), self, "a clause has two slots", owners=owned)
