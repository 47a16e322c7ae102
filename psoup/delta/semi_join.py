"""Semi-join and anti-join by keys: EXISTS, IN, NOT EXISTS and NOT IN, and the rows without a partner of a LEFT JOIN.

    left row     a   3 ───────────── 20      key 5
    right rows       5 ── 9                  key 5
                             12 ─────── 30   key 5
    SEMI         a   5 ── 9  12 ──── 20
    ANTI         a   3-4     10-11

A partner of a left row is a right row with its key. The result has the left rows with a partner (SEMI), or the ones
without (ANTI). The state is the left rows, and one entry for each key of the right rows, with its latest end.

For other conditions than equal keys, the right input is the inner join of both sides. The key is then the tuple ID of
the left row.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from psoup.delta.buffers import BufferKind
from psoup.delta.changes import Changes
from psoup.delta.key_ends import KeyEnds
from psoup.delta.left_rows import LeftRows
from psoup.delta.match_keys import MatchKeys, Nulls
from psoup.delta.spans import LEAVES, Deltas, Spans, checked
from psoup.kernels.delta import key_presence
from psoup.model import DataType
from psoup.values.columns import plain


class SemiJoin:
    """The left rows with a partner, or without one if `negated`. Input 0 has the left rows, input 1 the right keys.

    `types`: the types of the left columns. `keys`: the places of the key columns among them. The right columns are the
    keys alone, in the same order, with equal types. `shown`: the places of the result's columns; None for all.
    `nulls`: see `psoup.delta.match_keys`. `buffer`: the kind of buffer for left rows; `fifo` if they end in the order
    in which they start.
    """

    def __init__(
        self,
        types: Sequence[DataType],
        keys: Sequence[int],
        *,
        negated: bool = False,
        nulls: Nulls = "never",
        shown: Sequence[int] | None = None,
        buffer: BufferKind = "calendar",
    ) -> None:
        self._key_places = tuple(keys)
        self._shown = tuple(range(len(types))) if shown is None else tuple(shown)
        self._negated = negated
        self._until: int | None = None
        self._left = LeftRows([types[place] for place in self._shown], buffer)
        self._keys = KeyEnds(MatchKeys([types[place] for place in self._key_places], nulls))

    @property
    def rows(self) -> int:
        """The number of left rows and of keys of right rows. O(keys)."""
        return self._left.used + self._keys.count

    @property
    def nbytes(self) -> int:
        """The bytes of the state."""
        return self._left.nbytes + self._keys.nbytes

    def step(self, inputs: Sequence[Spans], until: int) -> Deltas:
        """The changes up to `until`; see `Operator`. O(n + changes) expected, and a sort of the changes."""
        left, right = [checked(spans, self._until, until) for spans in inputs]
        self._until = until
        changes = Changes(2 * len(left.start) + len(right.start))
        self._arrive(left, right, changes)
        self._keys.expire(until, self._left.arrays, self._negated, changes)
        gone = self._left.expire(until, self._negated)
        changes.add(gone.rows, LEAVES, gone.ends + 1)
        deltas = self._left.deltas(*changes.all())
        self._evict()
        return deltas

    def _arrive(self, left: Spans, right: Spans, changes: Changes) -> None:
        """Put new rows of both sides into the state."""
        columns = [left.columns[place] for place in self._key_places]
        keys = self._keys.match.of_left(columns, len(left.start))
        numbers, rows = self._keys.match.of_right(right.columns, len(right.start))
        self._keys.grow()
        first = self._left.add([left.columns[place] for place in self._shown], left.end, keys)
        rights = numbers, plain(right.start[rows]), plain(right.end[rows])
        lefts = first, plain(left.start)
        entered, at = np.empty(len(numbers), np.int32), np.zeros(4, np.int64)
        state = self._keys.arrays, self._left.arrays, self._negated
        while not key_presence.meet_keys(rights, lefts, *state, changes.room, entered, at):
            changes.widen(int(at[2]))
        changes.count = int(at[2])
        self._keys.queue(entered[: at[3]])

    def _evict(self) -> None:
        """Remove the rows that left, and the keys without rows, if they are many."""
        stays = self._keys.stays(self._left.keys_in_use, self._left.count)
        if stays is None and not self._left.wastes():
            return
        if self._left.wastes():
            self._left.keep()
        places = None if stays is None else self._keys.keep(stays)
        self._keys.unlink()
        _, head, links, _ = self._keys.arrays
        self._left.link(places, head, links)

    def check(self) -> None:
        """Raise Corrupt if an invariant does not hold. O(state)."""
        until = -(2**63) if self._until is None else self._until
        self._keys.check(until)
        self._left.check(until, self._keys.arrays[0])
