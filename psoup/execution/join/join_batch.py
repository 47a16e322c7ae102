"""Joined rows as Arrow IPC record batches, gathered from the chunks of all sides straight into the bytes.

    positions   r 0 0 3 …   s 7 9 7 …        of the matches of each side
    columns     from the chunks              a search for the chunk of each position
                from one array of a column   by position, if the answer reads many rows of the side
    texts       from the chunks              their bytes are counted first, to know the size of the message

`psoup.execution.rows.record_batch` explains the messages. This module serves SELECT lists of columns only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from psoup.data.chunk import ChunkView
from psoup.errors import ResourceExhausted
from psoup.execution.rows.record_batch import Form, Message, form_of, tabled
from psoup.execution.rows.select_list import Group
from psoup.expressions.tree import AttributeRef
from psoup.kernels.join.pair_columns import gather_at, gather_whole
from psoup.kernels.join.text_columns import gather_texts_at, text_bytes_at
from psoup.kernels.rows.batch_body import NUMBER, PARTS, TEXT, WIDE, has_nulls
from psoup.plan.nodes import Output
from psoup.plan.plan_facts import plan_fact
from psoup.values.columns import Array, new_array, scratch_array
from psoup.work.read_budget import ReadBudget
from psoup.work.runner import Task

_WHOLE = 2
"""The answer first copies the columns of a side with at most 2 rows for each row of the answer."""
_PUT_FROM = 16_384
"""The least number of rows of a side whose columns the answer copies."""
MESSAGES = 8
"""The number of messages in a block of memory, and of those that threads gather at once. A thread starts in 50 us."""
_LINE = 64
"""The alignment of a message in a block, in bytes."""
_NO_ROWS = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class JoinedForm:
    """The form of a SELECT list over several sources, and the part of each source in it.

    `which`: for each source, the places in the list of its columns other than texts, int64. `kinds`, `columns`: as in
    `Form`, for these columns. `texts`: for each source, the place in the list and the column of each text.
    """

    form: Form
    which: tuple[Array, ...]
    kinds: tuple[Array, ...]
    columns: tuple[Array, ...]
    texts: tuple[tuple[tuple[int, int], ...], ...]


@plan_fact
def joined_form(select: Sequence[Output], sources: int) -> JoinedForm | None:
    """The form of a SELECT list over `sources` sources. None if the list has anything but columns."""
    form = form_of(select)
    if form is None:
        return None
    places = np.array([output.expr.source for output in select if isinstance(output.expr, AttributeRef)])
    which = tuple([np.flatnonzero((places == source) & (form.kinds != TEXT)) for source in range(sources)])
    texts = tuple(
        [tuple([(w, int(form.columns[w])) for w in form.texts if places[w] == source]) for source in range(sources)]
    )
    return JoinedForm(
        form, which, tuple([form.kinds[w] for w in which]), tuple([form.columns[w] for w in which]), texts
    )


class SideMemory:
    """The matches of one side in the form of kernels: column addresses of its chunks, and offsets of rows.

    `rows`: offsets in the chunks. `sources`, `stride`, `stops`: as the kernel `gather` takes them.
    """

    __slots__ = ("_chunks", "known", "rows", "sources", "stops", "stride")

    def __init__(self, chunks: Sequence[ChunkView], rows: Array, stops: Array) -> None:
        """`chunks`: at least one. `rows`: int32, chunk after chunk. `stops`: int64, the end of each chunk in `rows`."""
        self._chunks = chunks
        self.rows = rows
        self.stops = stops
        self.sources, self.stride = tabled(chunks)
        self.known: dict[int, Array] = {}
        """Columns without NULL and with values of 8 bytes that earlier calls gathered: int64 by position."""


def side_memory(group: Group) -> SideMemory:
    """Convert the matches of one side to the form of kernels. All chunks, at least one, must be in memory. O(rows)."""
    chunks = [data for data, _ in group if isinstance(data, ChunkView)]
    rows = np.concatenate([offsets for _, offsets in group], dtype=np.int32, casting="same_kind")
    return SideMemory(chunks, rows, np.cumsum([len(offsets) for _, offsets in group]))


class SideColumns:
    """The columns of a SELECT list that come from one side."""

    def __init__(self, memory: SideMemory, form: JoinedForm, place: int, budget: ReadBudget, expected: float) -> None:
        """`expected`: the approximate number of rows of the answer."""
        self.which = form.which[place]
        self._kinds = form.kinds[place]
        self._columns = form.columns[place]
        self._memory = memory
        self._budget = budget
        self._held = 0
        self._arrays: list[Array] = []
        self.task: Task | None = None
        """The copy of columns into arrays, which the caller runs on any thread before `gather`. None: nothing to copy.
        """
        self.texts = form.texts[place]
        self.nullable: Array = np.empty(len(self.which), np.uint8)
        self.nullable_texts: Array = np.empty(len(self.texts), np.uint8)
        ask = self._of_texts = (memory.sources, memory.stride, memory.rows, memory.stops)
        self._ask = (self._kinds, self._columns, *ask)
        if self.texts:
            columns: Array = np.array([column for _, column in self.texts], np.int64)
            has_nulls(columns, memory.sources, memory.stride, len(memory.stops), self.nullable_texts)
        if len(self.which):
            has_nulls(self._columns, memory.sources, memory.stride, len(memory.stops), self.nullable)
            if _WHOLE * expected >= len(memory.rows) >= _PUT_FROM:
                self._put_together()

    def gather(self, positions: Array, places: Array, out: Array, nulls: Array) -> None:
        """Write the columns of the rows at `positions` (int32 or int64[n]). The kernels explain the other arguments."""
        if len(self.which):
            gather_at(self.which, *self._ask, positions, places, out, nulls)
        for which, column in self.texts:
            gather_texts_at(which, column, *self._of_texts, positions, places, out, nulls)

    def measure(self, positions: Array, nullable: Array, texts: Array) -> None:
        """Fill two arrays by place in the SELECT list, for the rows at `positions`.

        `nullable`, uint8: whether the column may be NULL. `texts`, int64: the bytes of its texts.
        """
        nullable[self.which] = self.nullable
        for (which, column), may_be_null in zip(self.texts, self.nullable_texts.tolist(), strict=True):
            nullable[which], texts[which] = may_be_null, text_bytes_at(column, *self._of_texts, positions)

    def close(self) -> None:
        """Return the bytes of the copies to the budget. The arrays stay alive while a message may read them."""
        self._budget.give_back_joined(self._held)
        self._held = 0

    def _put_together(self) -> None:
        """Prepare the `task` that copies the columns into arrays, if the budget has room for these."""
        memory, rows, nullable = self._memory, len(self._memory.rows), bool(self.nullable.any())
        known = {w: memory.known[c] for w, c in enumerate(self._columns.tolist()) if c in memory.known}
        new = np.array([w for w in range(len(self._columns)) if w not in known], np.int64)
        try:
            self._budget.hold_joined(len(new) * rows * (9 if nullable else 8))
        except ResourceExhausted:
            return
        self._held += len(new) * rows * (9 if nullable else 8)
        values = scratch_array(len(new) * rows, np.int64).reshape(len(new), rows)
        valid = scratch_array(len(new) * rows * nullable, np.uint8).reshape(len(new), rows * nullable)
        self.task = partial(gather_whole, self._kinds[new], self._columns[new], *self._ask[2:], values, valid)
        self._arrays = [values, valid, *known.values()]
        sources: Array = np.zeros((len(self._columns), PARTS), np.int64)
        sources[new, 0] = values.ctypes.data + 8 * rows * np.arange(len(new))
        sources[list(known), 0] = [array.ctypes.data for array in known.values()]
        if nullable:
            sources[new, 1] = valid.ctypes.data + rows * np.arange(len(new))
        kinds = np.where(self._kinds == NUMBER, WIDE, self._kinds)
        stops = np.array([rows], np.int64)
        self._ask = kinds, np.arange(len(kinds)), sources.reshape(-1), sources.size, _NO_ROWS, stops


class Blocks:
    """Allocates memory for large messages, `MESSAGES` of them in one block.

    The allocator returns large arrays to the system when they are freed. Fetching 12 MB again took 3 ms, and writing
    them 2 ms. A block lives as long as any message in it.
    """

    def __init__(self, budget: ReadBudget) -> None:
        self._budget = budget
        self._held = 0
        self._free: Array = np.zeros(0, np.uint8)

    def take(self, size: int) -> Array:
        """Allocate uint8[size], not cleared, from the block. Outside the block if the budget has no room for one."""
        if len(self._free) < size:
            self.close()
            try:
                self._budget.hold_joined(MESSAGES * size)
            except ResourceExhausted:
                return scratch_array(size, np.uint8)
            self._held = MESSAGES * size
            self._free = new_array(self._held, np.uint8)
        out, self._free = self._free[:size], self._free[-(-size // _LINE) * _LINE :]
        return out

    def close(self) -> None:
        """Return the bytes of the block to the budget. The messages in it keep it alive."""
        self._budget.give_back_joined(self._held)
        self._held = 0
        self._free = self._free[:0]


class JoinedMessage(Message):
    """Some rows of a join as a message whose size is known, but whose bytes are not yet written."""

    def __init__(self, form: JoinedForm, sides: Sequence[SideColumns], positions: Sequence[Array]) -> None:
        """`positions`: for each side the position of each row, int32 or int64."""
        self._joined = form
        self._sides = sides
        self._positions = positions
        self._early: Array | None = None
        nullable: Array = np.zeros(len(form.form.kinds), np.uint8)
        texts: Array = np.zeros(len(nullable), np.int64)
        for side, own in zip(sides, positions, strict=True):
            side.measure(own, nullable, texts)
        self._measure(form.form, len(positions[0]), nullable, texts)

    def gather_into(self, out: Array) -> None:
        """Gather the message into `out`, uint8[size], on any thread. `gathered` returns it later."""
        if not self._exact:
            out[:] = 0
        self._write(out)
        self._early = out

    def gathered(self) -> Array:
        """The message, uint8[size]. The caller owns the array."""
        early, self._early = self._early, None
        return super().gathered() if early is None else early

    def _gather(self, out: Array, nulls: Array) -> None:
        for side, positions in zip(self._sides, self._positions, strict=True):
            side.gather(positions, self._places, out, nulls)

    def halves(self) -> tuple[Message, Message]:
        """Split the message into its first and second half. It must have at least two rows."""
        middle = self.rows // 2
        first, second = ([own[part] for own in self._positions] for part in (slice(middle), slice(middle, None)))
        return JoinedMessage(self._joined, self._sides, first), JoinedMessage(self._joined, self._sides, second)
