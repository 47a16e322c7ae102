"""The rows of an operator's state: ends, keys, further numbers, and a list of the rows of each key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.delta.buffers import BUFFERS, BufferKind, Entries
from psoup.delta.value_table import new_places, wastes, with_room
from psoup.invariants import ensure
from psoup.kernels.delta import key_rows
from psoup.values.columns import Array

ABSENT = key_rows.ABSENT
_WALK = 16
"""The time to read a row of a list, as a multiple of the time in a scan."""


class LinkedRows:
    """Arrays by row number (`psoup.kernels.delta.band_presence` describes them), and the buffer of the ends.

    `numbers`: how many further int64 arrays there are, such as bounds.
    """

    def __init__(self, numbers: int, buffer: BufferKind) -> None:
        self.count = self.used = 0
        """The numbers of rows. `count` includes rows that left, `used` does not."""
        self.ends: Array = np.full(0, ABSENT)
        self.numbers: list[Array] = [np.zeros(0, np.int64) for _ in range(numbers)]
        self.keys: Array = np.zeros(0, np.int32)
        self.following: Array = np.zeros(0, np.int32)
        self._buffer = BUFFERS[buffer]()

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays and of the buffer."""
        return sum(part.nbytes for part in (self.ends, *self.numbers, self.keys, self.following)) + self._buffer.nbytes

    def add(self, ends: Array, keys: Array, numbers: Sequence[Array]) -> int:
        """Append rows, which are in no list yet. Returns the number of the first one. O(k), amortised."""
        first, stop = self.count, self.count + len(ends)
        self.ends, self.following = with_room(self.ends, stop, ABSENT), with_room(self.following, stop, -1)
        self.keys, self.numbers = with_room(self.keys, stop, -1), [with_room(part, stop) for part in self.numbers]
        self.ends[first:stop], self.keys[first:stop], self.following[first:stop] = ends, keys, -1
        for part, values in zip(self.numbers, numbers, strict=True):
            part[first:stop] = values
        self._buffer.put(np.arange(first, stop, dtype=np.int32), ends)
        self.count, self.used = stop, self.used + len(ends)
        return first

    def expire(self, until: int) -> Entries:
        """Remove and return the rows that leave up to `until`."""
        due = self._buffer.due(until)
        self.ends[due.rows] = ABSENT
        self.used -= len(due.rows)
        return due

    def wastes(self) -> bool:
        """Whether many rows have left."""
        return wastes(self.count, self.used)

    def keep(self) -> Array:
        """Remove the rows that left. Returns the old numbers of the rest, int64. The caller then calls `chain`."""
        stays = np.flatnonzero(self.ends != ABSENT)
        self._buffer.renumber(new_places(stays, self.count))
        self.ends, self.keys, self.following = self.ends[stays], self.keys[stays], self.following[stays]
        self.numbers = [part[stays] for part in self.numbers]
        self.count = len(stays)
        return stays

    def chain_new(self, first: int, head: Array, links: Array) -> None:
        """Put the rows from `first` on into the lists of their keys."""
        key_rows.chain_rows(self.keys[: self.count], first, self.following, head, links)

    def chain(self, places: Array | None, head: Array, links: Array) -> None:
        """Make the list of each key. `places`: the new number of each key, or None if the keys keep theirs. O(rows)."""
        if places is not None:
            self.keys = np.where(self.keys >= 0, places[self.keys], np.int32(-1))
        key_rows.chain_rows(self.keys[: self.count], 0, self.following, head, links)

    def of_keys(self, keys: Array, head: Array, links: Array) -> Array:
        """The rows of some keys (int64[k]) that are in their relation, int64. O(rows of the keys), at most O(rows)."""
        room = int(links[keys].sum())
        if room * _WALK < self.count:
            rows: Array = np.empty(room, np.int32)
            count = key_rows.gather_rows(keys, head, self.following, self.ends, rows)
            return rows[:count].astype(np.int64)
        wanted: Array = np.zeros(len(head), np.bool_)
        wanted[keys] = True
        return np.flatnonzero(wanted[self.keys[: self.count]] & (self.ends[: self.count] != ABSENT))

    def keys_in_use(self) -> Array:
        """The keys of the rows that are in their relation. O(rows)."""
        return self.keys[(self.ends != ABSENT) & (self.keys >= 0)]

    def check(self, until: int) -> None:
        """Raise Corrupt if an invariant does not hold. O(rows)."""
        used = self.ends != ABSENT
        ensure(int(np.count_nonzero(used)) == self.used, self, "each row in use has an end", used=self.used)
        ensure(bool((self.ends[used] >= until).all()), self, "no row stays after its end")
