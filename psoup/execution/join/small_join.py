"""The way that answers a join of two small sides in one kernel call.

    two clauses, chunks ─ answer_located ─> where the matches lie ─> the bytes of Arrow
                                  └─> tuples of both sides, by code ─ gather_coded ─> messages, if there are several

It serves one equality of columns or one band, and a SELECT list of columns other than texts. Both sides must be located
(in memory and evaluated). With few rows, the objects of the general way would take longer than the join itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from psoup.config import JoinLimits
from psoup.errors import ResourceExhausted
from psoup.execution.join.located_side import ChunkTable, Located
from psoup.execution.join.pair_form import SMALL, PairForm, pair_form
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.record_batch import Message
from psoup.joins.budget import JoinBudget
from psoup.kernels.join.code_columns import gather_coded, may_be_null
from psoup.kernels.join.small_join import answer_located
from psoup.kernels.join.small_outer import answer_outer
from psoup.plan.nodes import Node
from psoup.plan.way import TryNext
from psoup.values.columns import Array

_PAIRS = 65_536
"""The most pairs of one call."""
_LOOKED = 262_144
"""The most candidates of pairs that one call compares."""
_BYTES = 2 * 32 * SMALL + 8 * _PAIRS
"""The most bytes that one call holds: rows, their keys, and pairs."""
_SPARE = 8
"""The most scratch arrays that later calls may reuse, counted in twos. Two arrays take half a megabyte."""
_READY_BYTES = 1 << 20
"""The most bytes of a message that the kernel call itself writes."""

Codes = tuple[Array, Array]
"""The codes of the tuples of each row, in both sides: int32[n] each."""


def serves(plan: Node) -> bool:
    """Whether a plan is a join by one equality or band, whose SELECT list has columns other than texts."""
    return pair_form(plan) is not None


def accepts(case: AnswerCase) -> bool:
    """Whether both sides are located and may be small, no pairs are kept, and the limits allow one call."""
    one, other = case.reading.matches
    return (
        case.reading.pairs is None
        and isinstance(one, Located)
        and isinstance(other, Located)
        and max(one.known_size, other.known_size) <= SMALL
        and allows_call(case.reading.joins)
    )


def small_join(case: AnswerCase) -> Iterator[Message]:
    """Find the rows, in order. Raises ResourceExhausted (JOIN_BUDGET).

    Raises TryNext if the rows or the pairs are too many for one call, or the budget has no room.
    """
    return one_call(case, pair_form(case.plan), outer=False)


def one_call(case: AnswerCase, known: PairForm | None, *, outer: bool) -> Iterator[Message]:
    """Answer by one kernel call. `outer`: with all rows of the left, as in a LEFT JOIN. Raises as `small_join`."""
    one, other = case.reading.matches
    assert known is not None and isinstance(one, Located) and isinstance(other, Located)
    room, most = JoinBudget(case.reading.joins, case.reading.budget), case.most_rows
    try:
        room.hold(_BYTES, "the keys of its sides")
    except ResourceExhausted as problem:  # other ways need less memory, as they yield pieces while they join
        raise TryNext from problem
    left, right = scratch = _scratch()
    places: Array = np.empty((len(known.columns), 3), np.int64)
    wanted = known.asked, known.columns, known.form.form.header, known.numbers
    most_looked = SMALL, _LOOKED, most, _READY_BYTES
    answer, right_side = (answer_outer, other.asked_outer) if outer else (answer_located, other.asked)
    pairs, size, other_size, message = answer(one.asked, right_side, *wanted, most_looked, left, right, places)
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
    room.find(pairs)
    tables = one.table, other.outer_table if outer else other.table
    if len(message):
        return iter([PairedMessage(known, (one, other), tables, (left, right), places, message)])
    parts = [(left[at : min(at + most, pairs)], right[at : min(at + most, pairs)]) for at in range(0, pairs, most)]
    return iter([PairedRows(known, (one, other), tables, part) for part in parts])


def allows_call(limits: JoinLimits) -> bool:
    """Whether the limits allow the rows and the pairs of one call."""
    return min(limits.rows, limits.pairs) >= _PAIRS


def _scratch() -> tuple[Array, Array]:
    """Take two scratch arrays, int32[_PAIRS], of an ended call, or allocate them. New arrays took 5 to 10 us."""
    try:
        return _spare.pop()
    except IndexError:
        return np.empty(_PAIRS, np.int32), np.empty(_PAIRS, np.int32)


_spare: list[tuple[Array, Array]] = []
"""Scratch arrays of calls that have ended. Several threads take from and add to the list."""


class PairedRows(Message):
    """Some rows of a join as a message whose size is known, but whose bytes are not yet written."""

    def __init__(
        self, known: PairForm, sides: Sequence[Located], tables: tuple[ChunkTable, ChunkTable], codes: Codes
    ) -> None:
        """`sides`: they keep the chunks of the `tables` alive. `codes`: at least one row."""
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
        """The message of the rows [start, stop)."""
        left, right = self._codes
        return PairedRows(self._known, self._sides, self._tables, (left[start:stop], right[start:stop]))

    def halves(self) -> tuple[Message, Message]:
        """Split the message into its first and second half. It must have at least two rows."""
        middle = self.rows // 2
        return self.part(0, middle), self.part(middle, self.rows)


class PairedMessage(PairedRows):
    """Some rows of a join as a message whose bytes the kernel wrote when it found the pairs."""

    def __init__(
        self,
        known: PairForm,
        sides: Sequence[Located],
        tables: tuple[ChunkTable, ChunkTable],
        codes: Codes,
        places: Array,
        message: Array,
    ) -> None:
        """`places`, `message`: results of the kernel `answer_located`."""
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
        """Whether the message has no NULL and no padding, as `Cuts` requires."""
        return self._form.exact and bool((self._places[:, 0] < 0).all())

    def gathered(self) -> Array:
        """The message, uint8[size]. The caller owns the array. A second call gathers the rows again."""
        message, self._message = self._message, self._message[:0]
        return message if len(message) else self.part(0, self.rows).gathered()
