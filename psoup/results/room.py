"""Room for rows of bits that is used again: memory that was touched before is had at once, new pages are not.

    take ──> rows of an open chunk ──> its bitmaps, once sealed ──> nobody looks any more: spare ──> zeroed ──> take

The system gives new pages one by one, which can cost more than the join that fills them. So what a dropped chunk held
is kept for the next one, and whoever seals a chunk, on a thread of maintenance, makes the room for another ready.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.columns import Array

_LEAST = 1 << 20
"""Bytes below which memory is not kept: the C library does that."""
_SPARES = 2


class _Loan:
    """What the rows that were taken are a view of; when the last view is gone, their memory goes back."""

    __slots__ = ("__array_interface__", "_memory", "_room")

    def __init__(self, memory: Array, rows: int, words: int, room: RowRoom) -> None:
        self._memory, self._room = memory, room
        own = memory.__array_interface__
        self.__array_interface__: dict[str, Any] = {**own, "shape": (rows, words), "strides": None}

    def __del__(self) -> None:
        self._room.give_back(self._memory)


class RowRoom:
    """Of the chunks of one stream. `words`: uint64 of a row. Used by any thread: lists are changed in single steps."""

    def __init__(self, words: int) -> None:
        self._words = words
        self._zeroed: list[Array] = []
        self._used: list[Array] = []

    @property
    def nbytes(self) -> int:
        """Bytes of spare memory."""
        return sum(memory.nbytes for memory in (*self._zeroed, *self._used))

    def take(self, least: int, wanted: int) -> Array:
        """uint64[rows, words], zero: `wanted` rows, or what there is if that is `least` or more.

        O(its size), unless some was made ready.
        """
        if wanted * self._words * 8 < _LEAST:
            return np.zeros((wanted, self._words), np.uint64)
        memory = self._fitting(self._zeroed, least, wanted)
        if memory is None:
            memory = self._new(least, wanted)
        loan: Array = np.asarray(_Loan(memory, len(memory) // self._words, self._words, self))
        return loan

    def make_ready(self, rows: int) -> None:
        """See to it that the next `take` finds zeroed memory for `rows`. O(its size), for a thread that has time."""
        wanted = rows + (rows >> 2)
        if not self._zeroed and wanted * self._words * 8 >= _LEAST:
            self._zeroed.append(self._new(rows, wanted))

    def give_back(self, memory: Array) -> None:
        """Nobody looks at this memory any more."""
        if len(self._used) < _SPARES:
            self._used.append(memory)

    def _new(self, least: int, wanted: int) -> Array:
        memory = self._fitting(self._used, least, wanted)
        if memory is None:
            memory = np.empty(wanted * self._words, np.uint64)
        memory.fill(0)
        return memory

    def _fitting(self, spares: list[Array], least: int, wanted: int) -> Array | None:
        """The last spare if it is large enough, and not far too large; else none, and it is gone."""
        try:
            memory = spares.pop()
        except IndexError:
            return None
        return memory if least <= len(memory) // self._words <= 2 * wanted else None
