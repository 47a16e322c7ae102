"""The answer of the common join of two larger sides by an equality: on two threads, where there are such.

    left ── read_side ──┐     ┌── meet_chained ── first half of the pairs ── gather_pairs ──> the bytes of Arrow
    right ── read_side ─┴─────┴── meet_chained ── second half ────────────── gather_pairs ──> …

Pieces that grow, found by one thread and gathered by two, took half as long again.
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
"""Rows of a side at most: what is done in one call takes some milliseconds, after which the budget is asked."""
_UNLIKE = 16
"""Rows of a side for each one of the other at most: of sides that differ more the larger one is cut down first."""
_PAIRS = 524_288
"""Pairs at most that are found before the first is given out."""
_ROW_BYTES = 16
"""Bytes of a row of a side, its code, its key, the next row of its chain."""
_PLACES = 131_072
"""Fewest places of keys: they fit in the cache of a core."""
_SPREAD = 8
"""Most places of keys for each row of the right side.

With two million tuples a side, 2 % selected and six places a row, pieces by hashes took 1.7 times as long; with four
million 1.25 times.
"""
_SPARE = 1_024
_CROWDED = 64
"""Invocations of a plan that go another way after this one has given up."""
_NOTHING = np.zeros(0, np.int32)


class _Side(NamedTuple):
    """The rows of a side as codes of tuples, and their keys, by position; `located` keeps the chunks."""

    located: Located
    table: ChunkTable
    rows: Array
    keys: Array


class _Chains(NamedTuple):
    """The rows of each key, from `least` on: see `psoup.kernels.join.parallel_pairs`."""

    least: int
    heads: Array
    following: Array


def serves(plan: Node) -> bool:
    """Whether a plan is a join by one equality, whose SELECT list has columns other than texts."""
    known = pair_form(plan)
    return known is not None and known.is_equality


def accepts(case: AnswerCase) -> bool:
    """Whether the sides are located, one is not small, none is large, and they are not very unlike."""
    one, other = case.reading.matches
    if case.reading.pairs is not None or not (isinstance(one, Located) and isinstance(other, Located)):
        return False
    sizes = one.size, other.size
    return SMALL < max(sizes) <= min(_MOST, _UNLIKE * min(sizes)) and case.reading.joins.pairs >= _PAIRS


def parallel_join(case: AnswerCase) -> Iterator[Message]:
    """The rows in order. Raises TryNext if keys are far apart or NULL, or if the pairs are too many to be held.

    Then the next invocations of the plan give up at once.
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
        room.look(sum([message.rows for message in messages]), known.text)
    except (ResourceExhausted, TryNext) as problem:  # other ways give out what they have found before they hold more
        room.close()
        known.crowded = _CROWDED
        raise TryNext from problem
    except BaseException:
        room.close()
        raise
    return _given(messages, room)


def _places(sides: Sequence[Located]) -> int:
    """The number of keys that there may be from the least to the greatest."""
    return max(_SPREAD * sides[1].size, _PLACES)


def _given(messages: list[HalvedMessage], room: JoinBudget) -> Iterator[Message]:
    try:
        yield from messages
    finally:
        room.close()


def _found(
    known: PairForm, sides: Sequence[Located], reading: Reading, room: JoinBudget, most: int
) -> list[HalvedMessage]:
    """All messages, gathered. Raises TryNext if keys are far apart, or may be NULL, or if there are many pairs."""
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
    keys_there = min(greatest - least + 1, sides[1].size)  # those far apart are gaps, and not rows without a partner
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
    """Some rows of a join, by their positions in both sides."""

    def __init__(self, known: PairForm, sides: Sequence[_Side], positions: tuple[Array, Array]) -> None:
        """`positions`: int32, at least one each."""
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
        """Gather it beforehand, on any thread."""
        out = new_array(self.size, np.uint8)
        if not self._exact:
            out[:] = 0
        self._write(out)
        self._early = out

    def gathered(self) -> Array:
        """The message, uint8[size], which is the caller's."""
        early, self._early = self._early, None
        return super().gathered() if early is None else early

    def _gather(self, out: Array, nulls: Array) -> None:
        one, other = ((*side.table[:2], side.rows, side.keys) for side in self._sides)
        gather_pairs(self._known.asked, self._known.columns, one, other, *self._positions, self._places, out, nulls)

    def halves(self) -> tuple[Message, Message]:
        """The first and the second half of the rows, of which there are two at least."""
        middle = self.rows // 2
        first, second = (
            (self._positions[0][part], self._positions[1][part]) for part in (slice(middle), slice(middle, None))
        )
        return HalvedMessage(self._known, self._sides, first), HalvedMessage(self._known, self._sides, second)
