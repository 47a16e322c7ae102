"""The way that answers a join of two larger sides by one equality. Two threads share the work, if the read has them.

    left ── read_side ──┐     ┌── meet_chained ── first half of the pairs ── gather_pairs ──> the bytes of Arrow
    right ── read_side ─┴─────┴── meet_chained ── second half ────────────── gather_pairs ──> …

Each thread reads the keys of one side. Then each finds the pairs of half of the left rows and gathers their messages.
An earlier design, where one thread found growing pieces and two gathered them, took 1.5 times as long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from psoup.errors import ResourceExhausted
from psoup.execution.join.located_side import ChunkTable, Located
from psoup.execution.join.pair_form import SMALL, PairForm, pair_form
from psoup.execution.rows.answer_case import AnswerCase
from psoup.execution.rows.record_batch import Message
from psoup.execution.rows.source_rows import Reading
from psoup.joins.budget import JoinBudget
from psoup.kernels.join.code_columns import may_be_null
from psoup.kernels.join.parallel_pairs import gather_pairs, read_side
from psoup.kernels.join.small_pairs import meet_chained
from psoup.kernels.rows.batch_body import WIDE
from psoup.plan.nodes import Node
from psoup.plan.way import TryNext
from psoup.values.columns import Array, new_array, scratch_array

_MOST = 262_144
"""The most rows of a side. One call then takes some milliseconds, after which the read checks its budget."""
_UNLIKE = 16
"""The greatest ratio of rows of both sides. If it is greater, other ways first reduce the larger side by a semi-join.
"""
_PAIRS = 524_288
"""The most pairs that this way finds. It finds all of them before it yields the first message."""
_ROW_BYTES = 16
"""Bytes of a row of a side: its code, its key, and the next row of its chain."""
_PLACES = 131_072
"""The least length of the array of keys. Such an array fits in the cache of a core."""
_SPREAD = 8
"""The array of keys has this many elements for each row of the right side, and at least `_PLACES`.

Measured with two million tuples a side, 2 % selected, and six elements a row: a hash join in pieces took 1.7 times as
long. With four million tuples it took 1.25 times as long.
"""
_SPARE = 1_024
"""The pairs for which each thread has room beyond the expected number."""
_CROWDED = 64
"""The number of invocations of a plan that skip this way after it has given up."""
_NOTHING = np.zeros(0, np.int32)


class _Side(NamedTuple):
    """The rows of a side by position: their codes (int32) and their keys (int64). `located` keeps the chunks alive."""

    located: Located
    table: ChunkTable
    rows: Array
    keys: Array


class _Chains(NamedTuple):
    """The rows of each key as chains. `heads[key - least]` starts a chain (`psoup.kernels.join.parallel_pairs`)."""

    least: int
    heads: Array
    following: Array


def serves(plan: Node) -> bool:
    """Whether a plan is a join by one equality, whose SELECT list has columns other than texts."""
    known = pair_form(plan)
    return known is not None and known.is_equality


def accepts(case: AnswerCase) -> bool:
    """Whether both sides are located, no pairs are kept, and the sizes of the sides are in this module's bounds."""
    one, other = case.reading.matches
    if case.reading.pairs is not None or not (isinstance(one, Located) and isinstance(other, Located)):
        return False
    sizes = one.size, other.size
    return SMALL < max(sizes) <= min(_MOST, _UNLIKE * min(sizes)) and case.reading.joins.pairs >= _PAIRS


def parallel_join(case: AnswerCase) -> Iterator[Message]:
    """Find the rows, in order. Raises TryNext if keys are far apart or may be NULL, or if there are too many pairs.

    After that the next `_CROWDED` invocations of the plan raise TryNext at once.
    """
    known, reading = pair_form(case.plan), case.reading
    one, other = reading.matches
    assert known is not None and isinstance(one, Located) and isinstance(other, Located)
    if known.crowded:
        known.crowded -= 1
        raise TryNext
    sides = one, other
    room = JoinBudget(reading.joins, reading.budget)
    try:
        room.hold(_ROW_BYTES * (one.size + other.size) + 4 * _places(sides), "the keys of its sides")
        messages = _found(known, sides, reading, room, case.most_rows)
        rows = sum([message.rows for message in messages])
        room.look(rows, known.text)
        room.find(rows)
    except (ResourceExhausted, TryNext) as problem:  # other ways need less memory, as they yield pieces while they join
        room.close()
        known.crowded = _CROWDED
        raise TryNext from problem
    except BaseException:
        room.close()
        raise
    return _given(messages, room)


def _places(sides: Sequence[Located]) -> int:
    """The greatest difference of two keys, plus 1, that this way accepts: the length of the array of keys."""
    return max(_SPREAD * sides[1].size, _PLACES)


def _given(messages: list[HalvedMessage], room: JoinBudget) -> Iterator[Message]:
    try:
        yield from messages
    finally:
        room.close()


def _found(
    known: PairForm, sides: Sequence[Located], reading: Reading, room: JoinBudget, most: int
) -> list[HalvedMessage]:
    """Find all pairs and gather all messages. Raises TryNext as `parallel_join`."""
    for own, kind, column in zip(sides, known.asked[:2], known.asked[2:4], strict=True):
        if kind == WIDE and reading.keys is not None:
            own.shorten(column, reading.keys)
    read = [
        _Side(own, own.table, scratch_array(own.size, np.int32), scratch_array(own.size, np.int64)) for own in sides
    ]
    heads, following = scratch_array(_places(sides), np.int32), scratch_array(sides[1].size + 1, np.int32)
    ends: list[tuple[bool, int, int]] = [(False, 0, 0)] * 2

    def keys(place: int, *chains: Array) -> None:
        own = read[place]
        kind, column = known.asked[place], known.asked[2 + place]
        ends[place] = read_side(*own.located.found[:3], *own.table[:2], kind, column, own.rows, own.keys, *chains)

    reading.run([partial(keys, 1, heads, following), partial(keys, 0, _NOTHING, _NOTHING)])
    (ready, _, _), (other_ready, least, greatest) = ends
    keys_there = min(greatest - least + 1, sides[1].size)  # at most one key for each row of the right side
    expected = sides[0].size * sides[1].size // keys_there
    if not (ready and other_ready) or expected > _PAIRS // 2:
        raise TryNext
    pairs = 2 * expected + _SPARE
    room.hold(2 * pairs * (8 + known.form.form.row_bytes), "its pairs")
    chains, middle = _Chains(least, heads[: greatest - least + 1], following), sides[0].size // 2
    halves: list[list[HalvedMessage] | None] = [None, None]

    def half(place: int, start: int, stop: int) -> None:
        left, right = scratch_array(pairs, np.int32), scratch_array(pairs, np.int32)
        found = meet_chained(read[0].keys, start, stop, *chains, left, right)
        if found < 0:
            return
        parts = [slice(at, min(at + most, found)) for at in range(0, found, most)]
        halves[place] = [HalvedMessage(known, read, (left[part], right[part])) for part in parts]
        for message in halves[place] or ():
            message.gather_early()

    reading.budget.check()
    reading.run([partial(half, 0, 0, middle), partial(half, 1, middle, sides[0].size)])
    first, second = halves
    if first is None or second is None:
        raise TryNext
    return first + second


class HalvedMessage(Message):
    """Some rows of a join as a message, given by their positions in both sides."""

    def __init__(self, known: PairForm, sides: Sequence[_Side], positions: tuple[Array, Array]) -> None:
        """`positions`: for each side the position of each row, int32. There must be at least one row."""
        self._known = known
        self._sides = sides
        self._positions = positions
        self._early: Array | None = None
        tables, form = [side.table for side in sides], known.form.form
        nullable: Array = np.zeros(len(form.kinds), np.uint8)
        if any(table.nullable for table in tables):
            ask = tuple([table.sources for table in tables]), tuple([table.stride for table in tables])
            may_be_null(known.shown, *ask, nullable)
        self._measure(form, len(positions[0]), nullable, np.zeros(len(nullable), np.int64))

    def gather_early(self) -> None:
        """Gather the message now, on any thread. `gathered` returns it later."""
        out = new_array(self.size, np.uint8)
        if not self._exact:
            out[:] = 0
        self._write(out)
        self._early = out

    def gathered(self) -> Array:
        """The message, uint8[size]. The caller owns the array."""
        early, self._early = self._early, None
        return super().gathered() if early is None else early

    def _gather(self, out: Array, nulls: Array) -> None:
        one, other = ((*side.table[:2], side.rows, side.keys) for side in self._sides)
        gather_pairs(self._known.asked, self._known.columns, one, other, *self._positions, self._places, out, nulls)

    def halves(self) -> tuple[Message, Message]:
        """Split the message into its first and second half. It must have at least two rows."""
        middle = self.rows // 2
        first, second = (
            (self._positions[0][part], self._positions[1][part]) for part in (slice(middle), slice(middle, None))
        )
        return HalvedMessage(self._known, self._sides, first), HalvedMessage(self._known, self._sides, second)
