"""The answer of the common join of two small sides, in one call.

    where the matches lie ─ answer_located ─> the bytes of Arrow
                                  └─> tuples of both sides, by code ─ gather_coded ─> messages, if there are several

For two sources and one equality of columns or one band, sides that are in memory and evaluated, and a SELECT list of
columns other than texts. It gives what `psoup.answer.joined_rows` gives, which takes all other joins: for a few rows
the objects of its steps took longer than the rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from psoup.answer.direct import DirectJoin, direct_join
from psoup.answer.joined_message import JoinedForm, joined_form
from psoup.answer.located import ChunkTable, Located
from psoup.answer.message import Message
from psoup.answer.source_rows import Reading
from psoup.columns import Array, scratch_array
from psoup.errors import ResourceExhausted
from psoup.joins.room import Room
from psoup.kernels.answered import answer_located
from psoup.kernels.coded import gather_coded, may_be_null
from psoup.plan.nodes import Join, Node, Project

_SMALL = 32_767
"""Rows of a side at most: what is done in one call takes less than a millisecond."""
_PAIRS, _LOOKED = 65_536, 262_144
"""Pairs, and places looked at, up to which they are found in one call."""
_PARTNERS, _FEW = 4, 1_024
"""Pairs for each row of both sides that there is room for, and at least."""
_ROW_BYTES = 32
_READY_BYTES = 1 << 20
"""Bytes of a message that is made with its pairs."""
_REMEMBERED = 4_096
_LEAST, _MOST = -(2**63), 2**63 - 1

Codes = tuple[Array, Array]
"""Tuples of both sides, by code: int32[n]."""


class _Known(NamedTuple):
    """What is known of a plan: the form of its answer, and what `answer_located` and `gather_coded` ask."""

    form: JoinedForm
    asked: Array
    columns: Array
    numbers: Array
    text: str
    shown: tuple[tuple[Array, Array, Array], ...]


def _known_of(plan: Node) -> _Known | None:
    """What is known of a plan; None if its joins are found in another way. O(1) if it is remembered."""
    known = _remembered.get(id(plan))
    if known is None:
        if len(_remembered) >= _REMEMBERED:
            _remembered.clear()
        known = _remembered[id(plan)] = plan, _made(plan)
    return known[1]


_remembered: dict[int, tuple[Node, _Known | None]] = {}
"""By the identity of the plan, not used again while it is here."""


def _made(plan: Node) -> _Known | None:
    if not (isinstance(plan, Project) and isinstance(plan.input, Join)):
        return None
    direct, form = direct_join(plan.input), joined_form(plan.schema, len(plan.input.inputs))
    if direct is None or form is None or any(form.texts) or not (direct.is_single or not direct.keys):
        return None
    both = direct.keys[0] if direct.is_single else direct.bands[0][0]
    bounds = (False, 0, False, 0) if direct.is_single else direct.bands[0][1].bounds
    asked = np.array([*both.kinds, *both.columns, direct.is_single, *bounds, *_fitting(direct)], np.int64)
    shown, batch = tuple(zip(form.which, form.kinds, form.columns, strict=True)), form.form
    columns: Array = np.empty((len(batch.kinds), 3), np.int64)
    for side, (which, *of) in enumerate(shown):
        columns[which] = np.stack([np.full(len(which), side), *of], axis=1)
    places = [batch.rows_at, batch.body_at, batch.nodes_at, batch.buffers_at, batch.buffers, batch.exact]
    return _Known(form, asked, columns, np.array(places, np.int64), direct.text, shown)


def _fitting(direct: DirectJoin) -> tuple[int, int, int, int]:
    """The least key and the greatest of the left side, and of the right one, with which `DirectJoin.fits`."""
    ends = [[_LEAST, _MOST], [_LEAST, _MOST]]
    for own in direct.sums:
        ends[own.side][0] = max(ends[own.side][0], own.least - own.shift)
        ends[own.side][1] = min(ends[own.side][1], own.greatest - own.shift)
    for _, band in direct.bands:
        for bound in (band.low or 0, band.high or 0):
            ends[0][0], ends[0][1] = max(ends[0][0], _LEAST - bound), min(ends[0][1], _MOST - bound)
    return ends[0][0], ends[0][1], ends[1][0], ends[1][1]


def paired(plan: Node, reading: Reading, most: int) -> Iterator[Message] | None:
    """The rows of a join in order, at most so many in a message; None if they are found in another way.

    Raises ResourceExhausted (JOIN_BUDGET), and what ends the read.
    """
    known = _known_of(plan)
    if known is None or reading.pairs is not None:
        return None
    one, other = reading.matches
    limits = reading.joins
    if not (isinstance(one, Located) and isinstance(other, Located)) or min(limits.rows, limits.pairs) < _PAIRS:
        return None
    if not (one.size and other.size):
        return iter(())
    if one.size > _SMALL or other.size > _SMALL:
        return None
    room, rows = Room(limits, reading.budget), one.size + other.size
    expected = min(max(_PARTNERS * rows, _FEW), _PAIRS)
    try:
        room.hold(_ROW_BYTES * rows + 8 * expected, "the keys of its sides")
    except ResourceExhausted:  # others give out what they have found before they hold more
        return None
    tables = one.table, other.table
    left, right = scratch_array(expected, np.int32), scratch_array(expected, np.int32)
    places: Array = np.empty((len(known.columns), 3), np.int64)
    sides = *one.found, *tables[0][:2], *other.found, *tables[1][:2]
    wanted = known.asked, known.columns, known.form.form.header, known.numbers
    pairs, message = answer_located(*sides, *wanted, _LOOKED, most, _READY_BYTES, left, right, places)
    room.close()
    if pairs < 0:
        return None
    room.look(pairs, known.text)
    if len(message):
        return iter([PairedMessage(known, (one, other), tables, (left[:pairs], right[:pairs]), places, message)])
    parts = [(left[at : min(at + most, pairs)], right[at : min(at + most, pairs)]) for at in range(0, pairs, most)]
    return iter([PairedRows(known, (one, other), tables, part) for part in parts])


class PairedRows(Message):
    """Rows of a join as a message, measured but not yet gathered."""

    def __init__(
        self, known: _Known, sides: Sequence[Located], tables: tuple[ChunkTable, ChunkTable], codes: Codes
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
        known: _Known,
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
