"""Room for rows of bits that is used again: memory that was touched before is had at once, new pages are not.

    take ──> rows of an open chunk ──> once it is sealed, nobody looks any more: spare ──> zeroed ──> take
    bitmaps ──> of a sealed chunk ──> once it is dropped: spare ──> bitmaps

The system gives new pages one by one, which can cost more than the join that fills them. So what a dropped chunk held
is kept for the next one, and whoever seals a chunk, on a thread of maintenance, makes the room for another ready.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.columns import Array, new_array
from psoup.invariants import ensure

_LEAST = 1 << 20
"""Bytes below which memory is not kept: the C library does that."""
_SPARES = 2


class _Loan:
    """What an array that was taken is a view of; when the last view is gone, its memory goes back."""

    __slots__ = ("__array_interface__", "_memory", "_spares")

    def __init__(self, memory: Array, shape: tuple[int, ...], spares: _Spares) -> None:
        self._memory, self._spares = memory, spares
        own = memory.__array_interface__
        self.__array_interface__: dict[str, Any] = {**own, "shape": shape, "strides": None}

    def __del__(self) -> None:
        self._spares.give_back(self._memory)


class _Spares:
    """Memory that nobody looks at. Used by any thread: lists are changed in single steps."""

    def __init__(self) -> None:
        self._kept: list[Array] = []

    @property
    def nbytes(self) -> int:
        """Bytes of it."""
        return sum(memory.nbytes for memory in self.kept())

    def __len__(self) -> int:
        return len(self._kept)

    def kept(self) -> tuple[Array, ...]:
        """What is there now."""
        return tuple(self._kept)

    def give_back(self, memory: Array) -> None:
        """Keep it, unless there is enough."""
        if len(self._kept) < _SPARES:
            self._kept.append(memory)

    def fitting(self, least: int, wanted: int) -> Array | None:
        """The last memory of `least` words or more if it is not far too large; else none, and it is gone."""
        try:
            memory = self._kept.pop()
        except IndexError:
            return None
        return memory if least <= len(memory) <= 2 * wanted else None


class RowRoom:
    """Of the chunks of one stream. `words`: uint64 of a row; `block`: how many of them lie side by side while the chunk
    is open. Used by any thread.
    """

    def __init__(self, words: int, block: int) -> None:
        self._words, self._block = words, block
        self._zeroed, self._used, self._sealed = _Spares(), _Spares(), _Spares()

    @property
    def nbytes(self) -> int:
        """Bytes of spare memory."""
        return self._zeroed.nbytes + self._used.nbytes + self._sealed.nbytes

    def take(self, least: int, wanted: int) -> Array:
        """uint64[blocks, rows, block], zero: `wanted` rows, or what there is if that is `least` or more.

        O(its size), unless some was made ready.
        """
        blocks, words = self._words // self._block, self._words
        if wanted * words * 8 < _LEAST:
            return np.zeros((blocks, wanted, self._block), np.uint64)
        memory = self._zeroed.fitting(least * words, wanted * words)
        if memory is None:
            memory = self._new(least, wanted)
        return np.asarray(_Loan(memory, (blocks, len(memory) // words, self._block), self._used))

    def bitmaps(self, count: int) -> Array:
        """uint64[count, words] of arbitrary content."""
        size = count * self._words
        if size * 8 < _LEAST:
            return np.empty((count, self._words), np.uint64)
        memory = self._sealed.fitting(size, size)
        if memory is None:
            memory = new_array(size + (size >> 3), np.uint64)
        return np.asarray(_Loan(memory, (count, self._words), self._sealed))

    def make_ready(self, rows: int) -> None:
        """See to it that the next `take` finds zeroed memory for `rows`. O(its size), for a thread that has time."""
        wanted = rows + (rows >> 2)
        if not self._zeroed and wanted * self._words * 8 >= _LEAST:
            self._zeroed.give_back(self._new(rows, wanted))

    def check(self) -> None:
        """Spare memory is few, and nowhere twice; what is said to be zero is zero. O(bytes of it)."""
        spares = [memory for spares in (self._zeroed, self._used, self._sealed) for memory in spares.kept()]
        ensure(len(spares) <= 3 * _SPARES, self, "more memory is spare than should be", spares=len(spares))
        ensure(len({id(memory) for memory in spares}) == len(spares), self, "memory is spare twice", spares=len(spares))
        ensure(not any(memory.any() for memory in self._zeroed.kept()), self, "memory is not zero that should be")

    def _new(self, least: int, wanted: int) -> Array:
        memory = self._used.fitting(least * self._words, wanted * self._words)
        if memory is None:
            memory = new_array(wanted * self._words, np.uint64)
        memory.view(np.uint8).fill(0)  # as bytes: twice as fast as NumPy's fill of words
        return memory
