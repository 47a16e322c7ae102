"""The answer of the common join of two small sides, in one call.

    two clauses, chunks ─ answer_located ─> where the matches lie ─> the bytes of Arrow
                                  └─> tuples of both sides, by code ─ gather_coded ─> messages, if there are several

For two sources and one equality of columns or one band. Both sides are in memory and evaluated, and the SELECT list has
columns other than texts. For a few rows the objects of the general way took longer than the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.errors import ResourceExhausted
from psoup.execution.join.located_side import ChunkTable, Located
from psoup.execution.join.pair_form import SMALL, PairForm, pair_form
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.record_batch import Message
from psoup.joins.budget import JoinBudget
from psoup.kernels.join.code_columns import gather_coded, may_be_null
from psoup.kernels.join.small_join import answer_located
from psoup.plan.nodes import Node
from psoup.plan.way import TryNext
from psoup.values.columns import Array

_PAIRS = 65_536
"""Most pairs of one call."""
_LOOKED = 262_144
"""Most places of keys that one call looks at."""
_BYTES = 2 * 32 * SMALL + 8 * _PAIRS
"""Most bytes that one call holds: rows, their keys, and pairs."""
_SPARE = 8
"""Scratch arrays, of half a megabyte, that are kept for the next calls."""
_READY_BYTES = 1 << 20
"""Most bytes of a message that the call itself writes."""

Codes = tuple[Array, Array]
"""Tuples of both sides, by code: int32[n]."""


def serves(plan: Node) -> bool:
    """Whether a plan is a join by one equality or band, whose SELECT list has columns other than texts."""
    return pair_form(plan) is not None


def accepts(case: AnswerCase) -> bool:
    """Whether both sides are located, neither is known to be large, no pairs are kept, and limits allow one call."""
    one, other = case.reading.matches
    limits = case.reading.joins
    return (
        case.reading.pairs is None
        and isinstance(one, Located)
        and isinstance(other, Located)
        and max(one.known_size, other.known_size) <= SMALL
        and min(limits.rows, limits.pairs) >= _PAIRS
    )


def small_join(case: AnswerCase) -> Iterator[Message]:
    """The rows in order. Raises TryNext if a side or the pairs are too many, ResourceExhausted (JOIN_BUDGET)."""
    known, reading = pair_form(case.plan), case.reading
    one, other = reading.matches
    assert known is not None and isinstance(one, Located) and isinstance(other, Located)
    room, most = JoinBudget(reading.joins, reading.budget), case.most_rows
    try:
        room.hold(_BYTES, "the keys of its sides")
    except ResourceExhausted as problem:  # other ways give out what they have found before they hold more
        raise TryNext from problem
    left, right = scratch = _scratch()
    places: Array = np.empty((len(known.columns), 3), np.int64)
    wanted = known.asked, known.columns, known.form.form.header, known.numbers
    most_looked = SMALL, _LOOKED, most, _READY_BYTES
    pairs, size, other_size, message = answer_located(one.asked, other.asked, *wanted, most_looked, left, right, places)
    room.close()
    one.note(size)
    other.note(other_size)
    if pairs > 0:
        left, right = left[:pairs].copy(), right[:pairs].copy()
    if len(_spare) < _SPARE:
        _spare.append(scratch)
    if pairs < 0:
        raise TryNext
    room.look(pairs, known.text)
    tables = one.table, other.table
    if len(message):
        return iter([PairedMessage(known, (one, other), tables, (left, right), places, message)])
    parts = [(left[at : min(at + most, pairs)], right[at : min(at + most, pairs)]) for at in range(0, pairs, most)]
    return iter([PairedRows(known, (one, other), tables, part) for part in parts])


def _scratch() -> tuple[Array, Array]:
    """Two arrays, int32[_PAIRS], for this call alone: of an earlier call, as new ones took 5 to 10 us."""
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
        self._known = known
        self._sides = sides
        self._tables = tables
        self._codes = codes
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
        self._known = known
        self._sides = sides
        self._tables = tables
        self._codes = codes
        self._form = known.form.form
        self.rows = len(codes[0])
        self._places = places
        self.size = len(message)
        self._header = self._form.header
        self._message = message

    @property
    def can_be_cut(self) -> bool:
        """See `Message`."""
        return self._form.exact and bool((self._places[:, 0] < 0).all())

    def gathered(self) -> Array:
        """The message, uint8[size]; once it is given away, gathered anew."""
        message, self._message = self._message, self._message[:0]
        return message if len(message) else self.part(0, self.rows).gathered()
