"""The left rows of a semi-join: their columns, ends and keys, and the links by which a key finds its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.delta.buffers import BUFFERS, BufferKind, Entries
from psoup.delta.row_store import RowStore
from psoup.delta.spans import Deltas, netted
from psoup.delta.value_table import new_places, wastes, with_room
from psoup.invariants import ensure
from psoup.kernels.delta import key_presence
from psoup.model import DataType
from psoup.values.columns import Array, Column

ABSENT = key_presence.ABSENT
LINKS = key_presence.LINKS


class LeftRows:
    """Arrays by row number (see `psoup.kernels.delta.key_presence`), the columns, and the buffer of the ends."""

    def __init__(self, types: Sequence[DataType], buffer: BufferKind) -> None:
        self._store = RowStore(types)
        self._ends: Array = np.full(0, ABSENT)
        self._keys: Array = np.zeros(0, np.int32)
        self._following: Array = np.zeros(0, np.int32)
        self._counted: Array = np.zeros(0, np.uint8)
        self._buffer = BUFFERS[buffer]()
        self.used = 0
        """The number of rows that are in their relation."""

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """The ends, the keys, the next links, and the flags of links with a present key."""
        return self._ends, self._keys, self._following, self._counted

    @property
    def count(self) -> int:
        """The number of rows, in use or not."""
        return self._store.count

    @property
    def nbytes(self) -> int:
        """The bytes of the arrays, the columns and the buffer."""
        return sum(array.nbytes for array in self.arrays) + self._store.nbytes + self._buffer.nbytes

    def add(self, columns: Sequence[Column], ends: Array, keys: Sequence[Array]) -> int:
        """Append rows with their keys. Returns the number of the first one. O(k), amortised."""
        first, stop = self.count, self.count + len(ends)
        self._store.add(columns, len(ends))
        self._ends, self._counted = with_room(self._ends, stop, ABSENT), with_room(self._counted, LINKS * stop)
        self._keys = with_room(self._keys, LINKS * stop, -1)
        self._following = with_room(self._following, LINKS * stop, -1)
        self._ends[first:stop] = ends
        for place, numbers in enumerate(keys):
            self._keys[LINKS * first + place : LINKS * stop : LINKS] = numbers
        self._buffer.put(np.arange(first, stop, dtype=np.int32), ends)
        self.used += len(ends)
        return first

    def expire(self, until: int, negated: bool) -> Entries:
        """Remove the rows that leave up to `until`. Returns those that were in the result."""
        due = self._buffer.due(until)
        self._ends[due.rows] = ABSENT
        self.used -= len(due.rows)
        return due.take(self._has_partner(due.rows) != negated)

    def _has_partner(self, rows: Array) -> Array:
        return np.logical_or.reduce(self._counted.reshape(-1, LINKS)[rows], axis=1)

    def deltas(self, rows: Array, signs: Array, instants: Array) -> Deltas:
        """The deltas of changes of rows."""
        return netted(self._store.take(rows), signs, instants)

    def wastes(self) -> bool:
        """Whether many rows have left."""
        return wastes(self.count, self.used)

    def keys_in_use(self) -> Array:
        """The keys of all rows in use, in any order. O(rows)."""
        keys = self._keys[: LINKS * self.count].reshape(-1, LINKS)[self._ends[: self.count] != ABSENT].reshape(-1)
        return keys[keys >= 0]

    def keep(self) -> None:
        """Remove the rows that left. The caller calls `link` afterwards. O(rows)."""
        count, stays = self.count, np.flatnonzero(self._ends != ABSENT)
        self._store.keep(stays)
        self._ends = self._ends[stays]
        self._keys, self._counted = [part.reshape(-1, LINKS)[stays].reshape(-1) for part in (self._keys, self._counted)]
        self._following = np.full(len(self._keys), -1, np.int32)
        self._buffer.renumber(new_places(stays, count))

    def link(self, places: Array | None, head: Array, links: Array) -> None:
        """Make all links. `places`: the new number of each key, or None if the keys keep their numbers. O(rows)."""
        if places is not None:
            self._keys = np.where(self._keys >= 0, places[self._keys], np.int32(-1))
        key_presence.link_rows(self._keys[: LINKS * self.count], self._following, head, links)

    def check(self, until: int, key_ends: Array) -> None:
        """Raise Corrupt if an invariant does not hold. `key_ends`: the end of each key. O(rows)."""
        used = self._ends != ABSENT
        ensure(int(np.count_nonzero(used)) == self.used, self, "each row in use has an end", used=self.used)
        ensure(bool((self._ends[used] >= until).all()), self, "no row stays after its end")
        links = np.repeat(used, LINKS)
        keys, counted = self._keys[: len(links)][links], self._counted[: len(links)][links] != 0
        present: Array = np.zeros(len(keys), np.bool_)
        present[keys >= 0] = key_ends[keys[keys >= 0]] != ABSENT
        ensure(bool((present == counted).all()), self, "each link tells whether its key is present")
