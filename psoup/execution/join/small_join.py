"""The answer of the common join of two small sides, in one call.

    two clauses, chunks ─ answer_located ─> where the matches lie ─> the bytes of Arrow
                                  └─> tuples of both sides, by code ─ gather_coded ─> messages, if there are several

For two sources and one equality of columns or one band, sides that are in memory and evaluated, and a SELECT list of
columns other than texts. It gives what `psoup.execution.join.join_rows` gives, which takes all other joins: for a few
rows
the objects of its steps took longer than the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.columns import Array
from psoup.errors import ResourceExhausted
from psoup.execution.join.located_side import ChunkTable, Located
from psoup.execution.join.pair_form import PairForm, pair_form
from psoup.execution.join.parallel_join import halved
from psoup.execution.rows.record_batch import Message
from psoup.execution.rows.source_rows import Reading
from psoup.joins.budget import Room
from psoup.kernels.answered import answer_located
from psoup.kernels.coded import gather_coded, may_be_null
from psoup.plan.nodes import Node

_SMALL = 32_767
"""Rows of a side at most: what is done in one call takes less than a millisecond."""
_PAIRS, _LOOKED = 65_536, 262_144
"""Pairs, and places looked at, up to which they are found in one call."""
_BYTES = 2 * 32 * _SMALL + 8 * _PAIRS
"""What one call may hold: its rows, their keys, and its pairs."""
_SPARE = 8
"""Pairs of arrays, of half a megabyte, that are kept for the next calls."""
_READY_BYTES = 1 << 20
"""Bytes of a message that is made with its pairs."""

Codes = tuple[Array, Array]
"""Tuples of both sides, by code: int32[n]."""


def paired(plan: Node, reading: Reading, most: int) -> Iterator[Message] | None:
    """The rows of a join in order, at most so many in a message; None if they are found in another way.

    Raises ResourceExhausted (JOIN_BUDGET), and what ends the read.
    """
    known = pair_form(plan)
    if known is None or reading.pairs is not None:
        return None
    one, other = reading.matches
    limits = reading.joins
    if not (isinstance(one, Located) and isinstance(other, Located)) or min(limits.rows, limits.pairs) < _PAIRS:
        return None
    room = Room(limits, reading.budget)
    try:
        room.hold(_BYTES, "the keys of its sides")
    except ResourceExhausted:  # others give out what they have found before they hold more
        return None
    left, right = scratch = _scratch()
    places: Array = np.empty((len(known.columns), 3), np.int64)
    wanted = known.asked, known.columns, known.form.form.header, known.numbers
    most_looked = _SMALL, _LOOKED, most, _READY_BYTES
    pairs, size, other_size, message = answer_located(
        *one.asked, *other.asked, *wanted, *most_looked, left, right, places
    )
    room.close()
    one.note(size)
    other.note(other_size)
    if pairs > 0:
        left, right = left[:pairs].copy(), right[:pairs].copy()
    if len(_spare) < _SPARE:
        _spare.append(scratch)
    if pairs < 0:
        return halved(known, (one, other), reading, most) if max(size, other_size) > _SMALL else None
    room.look(pairs, known.text)
    tables = one.table, other.table
    if len(message):
        return iter([PairedMessage(known, (one, other), tables, (left, right), places, message)])
    parts = [(left[at : min(at + most, pairs)], right[at : min(at + most, pairs)]) for at in range(0, pairs, most)]
    return iter([PairedRows(known, (one, other), tables, part) for part in parts])


def _scratch() -> tuple[Array, Array]:
    """Two arrays, int32[_PAIRS], that nobody else has: those of a call before, as new ones took 5 to 10 us."""
    try:
        return _spare.pop()
    except IndexError:
        return np.empty(_PAIRS, np.int32), np.empty(_PAIRS, np.int32)


_spare: list[tuple[Array, Array]] = []
"""Arrays of calls that have ended; several threads take and give them."""


class PairedRows(Message):
    """Rows of a join as a message, measured but not yet gathered."""

    def __init__(
        self, known: PairForm, sides: Sequence[Located], tables: tuple[ChunkTable, ChunkTable], codes: Codes
    ) -> None:
        """`sides`: what keeps the chunks of the `tables`; `codes`: at least one row."""
        self._known, self._sides, self._tables, self._codes = known, sides, tables, codes
        one, other = tables
        self._ask = known.shown, (one.sources, other.sources), (one.stride, other.stride)
        form = known.form.form
        nullable: Array = np.zeros(len(form.kinds), np.uint8)
        if one.nullable or other.nullable:
            may_be_null(*self._ask, nullable)
        self._measure(form, len(codes[0]), nullable, np.zeros(len(nullable), np.int64))

    def _gather(self, out: Array, nulls: Array) -> None:
        gather_coded(*self._ask, *self._codes, self._places, out, nulls)

    def part(self, start: int, stop: int) -> PairedRows:
        """Some of the rows."""
        left, right = self._codes
        return PairedRows(self._known, self._sides, self._tables, (left[start:stop], right[start:stop]))

    def halves(self) -> tuple[Message, Message]:
        """The first and the second half of the rows, of which there are two at least."""
        middle = self.rows // 2
        return self.part(0, middle), self.part(middle, self.rows)


class PairedMessage(PairedRows):
    """The same, gathered with the pairs."""

    def __init__(
        self,
        known: PairForm,
        sides: Sequence[Located],
        tables: tuple[ChunkTable, ChunkTable],
        codes: Codes,
        places: Array,
        message: Array,
    ) -> None:
        """`places`, `message`: of `answer_located`."""
        self._known, self._sides, self._tables, self._codes = known, sides, tables, codes
        self._form, self.rows, self._places, self.size = known.form.form, len(codes[0]), places, len(message)
        self._header, self._message = self._form.header, message

    @property
    def can_be_cut(self) -> bool:
        """See `Message`."""
        return self._form.exact and bool((self._places[:, 0] < 0).all())

    def gathered(self) -> Array:
        """The message, uint8[size]; once it is given away, gathered anew."""
        message, self._message = self._message, self._message[:0]
        return message if len(message) else self.part(0, self.rows).gathered()
