"""Slots: small numbers under which the arrays of one stream name its standing query clauses.

    allocate ─> live ─ release ─> dead ─ (open chunk closed or rebuilt) ─> free ─> allocate …

A dead slot is not given out again while the open chunk's results may still name it. `sqc_of_slot` is shared with
readers, so it is copied before an entry that they may have seen is written again.
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array


class SlotTable:
    """Who owns which slot. `sqc_of_slot`: int64, -1 where never used."""

    def __init__(self) -> None:
        self.sqc_of_slot: Array = np.full(16, -1, np.int64)
        self.used = 0
        self._free: list[int] = []
        self._dead: list[int] = []
        self._shared = False

    def allocate(self, sqc_id: int) -> int:
        """A slot for a new clause. Amortised O(1); O(slots) once between two publications if a slot is used again."""
        if self._free:
            slot = self._free.pop()
        else:
            slot = self.used
            self.used += 1
            if slot == len(self.sqc_of_slot):
                grown: Array = np.full(2 * slot, -1, np.int64)
                grown[:slot] = self.sqc_of_slot
                self.sqc_of_slot = grown
                self._shared = False
        if self._shared and self.sqc_of_slot[slot] >= 0:
            self.sqc_of_slot = self.sqc_of_slot.copy()
            self._shared = False
        self.sqc_of_slot[slot] = sqc_id
        return slot

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

    @property
    def dead(self) -> Array:
        """The slots released since the last `free_dead`, int64."""
        return np.array(self._dead, np.int64)

    @property
    def dead_count(self) -> int:
        """How many slots are dead. O(1)."""
        return len(self._dead)

    def live_mapping(self) -> Array:
        """A copy of `sqc_of_slot` with -1 for the dead."""
        mapping = self.sqc_of_slot.copy()
        mapping[self.dead] = -1
        return mapping

    def check(self) -> None:
        """No slot is in two states."""
        assert len({*self._free, *self._dead}) == len(self._free) + len(self._dead), "a slot was released twice"
        assert all(0 <= slot < self.used for slot in self._free + self._dead), "a slot that was never used"
