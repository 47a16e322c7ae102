"""The keys of the right rows of a semi-join: the latest end of each, and the left rows that are linked to it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from psoup.delta import value_table
from psoup.delta.buffers import Calendar
from psoup.delta.changes import Changes
from psoup.delta.match_keys import MatchKeys
from psoup.delta.value_table import new_places, wastes, with_room
from psoup.invariants import ensure
from psoup.kernels.delta import key_presence
from psoup.values.columns import Array

ABSENT = key_presence.ABSENT


class KeyEnds:
    """Arrays by key number, as `psoup.kernels.delta.key_presence` describes them, and the buffer of the ends."""

    def __init__(self, match: MatchKeys) -> None:
        self.match = match
        self._ends: Array = np.full(0, ABSENT)
        self._head: Array = np.zeros(0, np.int32)
        self._links: Array = np.zeros(0, np.int32)
        self._queued: Array = np.zeros(0, np.uint8)
        self._buffer = Calendar()
        self._limit = value_table.FEW
        """The number of keys from which on a step looks for unused keys."""

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """The ends, the first links, the numbers of links, and whether each key is in the buffer."""
        return self._ends, self._head, self._links, self._queued

    @property
    def count(self) -> int:
        """The number of keys with a right row in the relation: they are present. O(keys)."""
        return int(np.count_nonzero(self._ends != ABSENT))

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays, the values and the buffer."""
        return sum(array.nbytes for array in self.arrays) + self.match.table.nbytes + self._buffer.nbytes

    def grow(self) -> None:
        """Make room for all numbered keys. O(keys), amortised."""
        count = self.match.table.count
        self._ends, self._queued = with_room(self._ends, count, ABSENT), with_room(self._queued, count)
        self._head, self._links = with_room(self._head, count, -1), with_room(self._links, count)

    def queue(self, keys: Array) -> None:
        """Put present keys into the buffer. A key whose end is FOREVER never expires."""
        self._buffer.put(keys, self._ends[keys])

    def expire(self, until: int, rows: tuple[Array, ...], negated: bool, changes: Changes) -> None:
        """Remove the keys that leave up to `until`. Keys with a later end are queued again. O(k + changes)."""
        keys = self._buffer.due(until).rows
        later = self._ends[keys] >= until
        self.queue(keys[later])
        gone, place, at = keys[~later], 0, np.array([0, 0, changes.count, 0])
        while True:
            place = key_presence.expire_keys(gone, place, self.arrays, rows, negated, changes.room, at)
            if place >= len(gone):
                break
            changes.widen(int(at[2]))
        changes.count = int(at[2])

    def stays(self, row_keys: Callable[[], Array], rows: int) -> Array | None:
        """The keys to keep, int64, ascending, or None if few are unused.

        `row_keys`: returns the keys of rows in use. `rows`: the number of rows. O(1), and at times O(keys + rows).
        """
        count = self.match.table.count
        if count < self._limit:
            return None
        used = (self._ends[:count] != ABSENT) | (self._queued[:count] != 0)
        used[row_keys()] = True
        stays = np.flatnonzero(used)
        self._limit = 2 * len(stays) + max(value_table.FEW, rows // 4)
        return stays if wastes(count, len(stays)) else None

    def keep(self, stays: Array) -> Array:
        """Remove all keys but these (int64, ascending). Returns the new numbers. The caller makes the links again."""
        places = new_places(stays, self.match.table.count)
        self.match.table.keep(stays)
        self._ends, self._queued = self._ends[stays], self._queued[stays]
        self._buffer.renumber(places)
        return places

    def unlink(self) -> None:
        """Remove all links. O(keys)."""
        self._head, self._links = np.full(len(self._ends), -1, np.int32), np.zeros(len(self._ends), np.int32)

    def check(self, until: int) -> None:
        """Raise Corrupt if an invariant does not hold. `until`: the end of the last step. O(keys)."""
        present = self._ends != ABSENT
        ensure(bool((self._ends[present] >= until).all()), self, "no key stays after its end")
        entries = self._buffer.entries()
        ensure(len(np.unique(entries.rows)) == len(entries.rows), self, "the buffer has each key once")
        ensure(bool((entries.ends <= self._ends[entries.rows]).all()), self, "no key is queued after its end")
        ensure(bool(self._queued[entries.rows].all()), self, "each key in the buffer is marked")
        ensure(bool(self._queued[present].all()), self, "each present key was queued")
