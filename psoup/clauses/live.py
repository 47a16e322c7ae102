"""The live clauses of a stream: the slot of each, in the order of their SQC IDs.

ids     1   2   4   7   8          only ever appended to, as IDs are given out in order
slots   0   1   -   2   5          - : gone; when half are, those that are left move together
"""

from __future__ import annotations

import numpy as np

from psoup.columns import Array
from psoup.invariants import ensure

_GONE = 2**32 - 1
_FIRST = 16


class LiveClauses:
    """A map SQC ID -> slot, 12 bytes a clause. Every method is the writer's."""

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
        """Append clauses: int64[n], ascending and above all others. Amortised O(n)."""
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

    def remove(self, sqc_id: int) -> None:
        """Take one out, which must be there. Amortised O(log n)."""
        self._slots[self._find(sqc_id)] = _GONE
        self._count -= 1
        if self._used > 2 * self._count + _FIRST:
            kept = np.flatnonzero(self._slots[: self._used] != _GONE)
            room = max(self._count, _FIRST)
            self._ids, self._slots = np.resize(self._ids[kept], room), np.resize(self._slots[kept], room)
            self._used = self._count

    def slot(self, sqc_id: int) -> int:
        """The slot of a live clause. O(log n)."""
        return int(self._slots[self._find(sqc_id)])

    def since(self, start: int, count: int) -> tuple[Array, Array]:
        """IDs and slots of the live clauses from the ID `start` on, at most `count` (int64[k] each). O(log n + k)."""
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
        """IDs ascend, and each live clause has a slot of its own. O(clauses)."""
        ids, slots = self._ids[: self._used], self._slots[: self._used]
        ensure((np.diff(ids) > 0).all(), self, "SQC IDs do not ascend", ids=ids)
        live = slots[slots != _GONE]
        ensure(len(live) == self._count, self, "live clauses are miscounted", counted=self._count, slots=live)
        ensure(len(np.unique(live)) == len(live), self, "two clauses have one slot", ids=ids, slots=slots)

    def _find(self, sqc_id: int) -> int:
        at = int(np.searchsorted(self._ids[: self._used], sqc_id))
        live = at < self._used and self._ids[at] == sqc_id and self._slots[at] != _GONE
        ensure(live, self, "a clause is asked for that is not live", sqc_id=sqc_id)
        return at
