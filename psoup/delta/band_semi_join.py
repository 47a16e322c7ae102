"""Semi-join and anti-join by keys and a band: EXISTS with `right.number BETWEEN left.low AND left.high`.

    left row     a   3 ─────────────────── 20    key 5, bounds 10 … 18
    right rows         4 ─────── 12              key 5, number 9
                          7 ─────────── 16       key 5, number 11
    SEMI         a        7 ─────────── 16

The state is the left rows, each with the latest end of its partners, and the right rows. A new row is compared with the
rows of its key on the other side, the newest first. If numbers ascend, as times do, few rows are compared. NULL follows
the rules of a comparison: a row with NULL in a key, a bound or a number has no partner.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.delta import value_table
from psoup.delta.buffers import BUFFERS, BufferKind
from psoup.delta.changes import Changes
from psoup.delta.linked_rows import LinkedRows
from psoup.delta.match_keys import MatchKeys
from psoup.delta.row_store import RowStore
from psoup.delta.spans import LEAVES, Deltas, Spans, checked, netted
from psoup.delta.value_table import new_places, with_room
from psoup.invariants import ensure
from psoup.kernels.delta import band_presence
from psoup.model import DataType, Kind
from psoup.values.columns import Array, Column, plain

ABSENT = band_presence.ABSENT


class BandSemiJoin:
    """The left rows with a partner, or without one if `negated`. Input 0 has the left rows, input 1 the right rows.

    `types`: the types of the left columns. `keys`: the places of the key columns among them. `bounds`: the places of
    the least and of the greatest number of a partner, both inclusive. The right columns are the keys, in the same order
    with equal types. Then comes the number, of the type of the bounds. `shown`: the places of the result's columns;
    None for all. `buffer`: the kind of buffer for rows; `fifo` if each side's rows end in the order of start.
    """

    def __init__(
        self,
        types: Sequence[DataType],
        keys: Sequence[int],
        bounds: tuple[int, int],
        *,
        negated: bool = False,
        shown: Sequence[int] | None = None,
        buffer: BufferKind = "calendar",
    ) -> None:
        ensure(all(types[place].kind not in (Kind.TEXT, Kind.WIDE) for place in bounds), self, "a bound has 64 bits")
        self._key_places, self._bounds = tuple(keys), bounds
        self._shown = tuple(range(len(types))) if shown is None else tuple(shown)
        self._negated = negated
        self._until: int | None = None
        self._match = MatchKeys([types[place] for place in keys], "never")
        self._store = RowStore([types[place] for place in self._shown])
        self._left, self._right = LinkedRows(2, buffer), LinkedRows(1, buffer)
        self._partners: Array = np.full(0, ABSENT)
        """For each left row, the latest end of its partners."""
        self._queued: Array = np.zeros(0, np.uint8)
        self._buffer = BUFFERS["calendar"]()
        """The left rows with partners, by the end of the partners."""
        self._right_head: Array = np.zeros(0, np.int32)
        self._left_head: Array = np.zeros(0, np.int32)
        self._left_links: Array = np.zeros(0, np.int32)
        self._ordered: Array = np.ones(2, np.uint8)
        """Whether the numbers and the upper bounds of each key have ascended so far, as times do."""
        self._limit = value_table.FEW
        """The number of keys from which on a step looks for unused keys."""

    @property
    def rows(self) -> int:
        """The number of rows of both sides."""
        return self._left.used + self._right.used

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        parts = self._partners, self._queued, self._right_head, self._left_head, self._left_links
        owners = self._store, self._left, self._right, self._buffer, self._match.table
        return sum(part.nbytes for part in parts) + sum(part.nbytes for part in owners)

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """The changes up to `until`; see `Operator`. O(n + rows of the keys + changes), and a sort of the changes."""
        left, right = [checked(spans, self._until, until) for spans in inputs]
        self._until = until
        changes = Changes(2 * len(left.start) + len(right.start))
        self._arrive(left, right, changes)
        self._expire_partners(until, changes)
        gone = self._left.expire(until)
        shown = (self._partners[gone.rows] >= gone.ends) != self._negated
        changes.add(gone.rows[shown], LEAVES, gone.ends[shown] + 1)
        self._right.expire(until)
        rows, signs, instants = changes.all()
        deltas = netted(self._store.take(rows), signs, instants)
        self._evict()
        return deltas

    def _arrive(self, left: Spans, right: Spans, changes: Changes) -> None:
        """Put new rows of both sides into the state."""
        low, high = (left.columns[place] for place in self._bounds)
        keys = self._match.of_left([left.columns[place] for place in self._key_places], len(left.start))[0]
        for bound in (low, high):
            _clear(keys, bound)
        numbers, rows = self._match.of_right(right.columns[:-1], len(right.start))
        right, number = right.take(rows), right.columns[-1].take(rows)
        present = np.flatnonzero(_clear(numbers, number) >= 0)
        if len(present) < len(numbers):
            right, numbers, number = right.take(present), numbers[present], number.take(present)
        first_right = self._right.add(right.end, numbers, [number.order_keys()])
        first_left = self._left.add(left.end, keys, [low.order_keys(), high.order_keys()])
        self._store.add([left.columns[place] for place in self._shown], len(left.start))
        self._grow()
        lefts, rights = (first_left, plain(left.start)), (first_right, plain(right.start))
        entered, at = np.empty(self._left.count, np.int32), np.zeros(4, np.int64)
        state = (
            (self._right_head, self._left_head, self._left_links, self._ordered),
            (self._right.ends, self._right.numbers[0], self._right.keys, self._right.following),
            (self._left.ends, *self._left.numbers, self._left.keys, self._left.following, self._partners, self._queued),
            self._negated,
        )
        while not band_presence.meet_bands(rights, lefts, *state, changes.room, entered, at):
            changes.widen(int(at[2]))
        changes.count = int(at[2])
        self._queue(entered[: at[3]])

    def _grow(self) -> None:
        """Make room for all rows and keys."""
        rows, keys = self._left.count, self._match.table.count
        self._partners, self._queued = with_room(self._partners, rows, ABSENT), with_room(self._queued, rows)
        self._right_head, self._left_head = with_room(self._right_head, keys, -1), with_room(self._left_head, keys, -1)
        self._left_links = with_room(self._left_links, keys)

    def _queue(self, rows: Array) -> None:
        """Put left rows with partners into the buffer, until the partners have ended or the row itself has."""
        self._buffer.put(rows, np.minimum(self._partners[rows], self._left.ends[rows]))

    def _expire_partners(self, until: int, changes: Changes) -> None:
        """Record the left rows whose last partner leaves up to `until`. Rows with other partners are queued again."""
        rows = self._buffer.due(until).rows
        partners, ends = self._partners[rows], self._left.ends[rows]
        self._queued[rows] = 0
        again = rows[(partners >= until) & (ends >= until)]
        self._queued[again] = 1
        self._queue(again)
        lost = partners < np.minimum(ends, until)
        changes.add(rows[lost], np.int8(1 if self._negated else -1), partners[lost] + 1)
        self._partners[rows[lost]] = ABSENT

    def _evict(self) -> None:
        """Remove the rows that left, and the keys without rows, if they are many."""
        stays = self._keys_to_keep()
        if stays is None and not self._left.wastes() and not self._right.wastes():
            return
        if self._left.wastes():
            count = self._left.count
            rows = self._left.keep()
            self._store.keep(rows)
            self._buffer.renumber(new_places(rows, count))
            self._partners, self._queued = self._partners[rows], self._queued[rows]
        if self._right.wastes():
            self._right.keep()
        places = None
        if stays is not None:
            places = new_places(stays, self._match.table.count)
            self._match.table.keep(stays)
        count = self._match.table.count
        self._right_head, self._left_head = np.full(count, -1, np.int32), np.full(count, -1, np.int32)
        self._left_links = np.zeros(count, np.int32)
        self._right.chain(places, self._right_head, np.zeros(count, np.int32))
        self._left.chain(places, self._left_head, self._left_links)

    def _keys_to_keep(self) -> Array | None:
        count = self._match.table.count
        if count < self._limit:
            return None
        used: Array = np.zeros(count, np.bool_)
        used[self._left.keys_in_use()] = True
        used[self._right.keys_in_use()] = True
        stays = np.flatnonzero(used)
        self._limit = 2 * len(stays) + max(value_table.FEW, (self._left.count + self._right.count) // 4)
        return stays

    def check(self) -> None:
        """Raise Corrupt if an invariant does not hold. O(state)."""
        until = -(2**63) if self._until is None else self._until
        self._left.check(until)
        self._right.check(until)
        ensure(self._store.count == self._left.count, self, "each left row has its columns")
        partners = self._partners[: len(self._left.ends)]
        has = (partners != ABSENT) & (self._left.ends[: len(partners)] != ABSENT)
        ensure(bool((partners[has] >= until).all()), self, "no partner stays after its end")
        entries = self._buffer.entries()
        ensure(bool(self._queued[entries.rows].all()), self, "each row in the buffer is marked")
        ensure(bool((self._left.ends[entries.rows] != ABSENT).all()), self, "no row that left is in the buffer")
        ensure(bool(self._queued[np.flatnonzero(has)].all()), self, "each row with a partner was queued")


def _clear(keys: Array, column: Column) -> Array:
    """Set the keys of rows with NULL in a column to -1, in place."""
    if column.valid is not None:
        keys[~column.valid] = -1
    return keys
