"""Room for rows of bits that is used again: touched memory is at hand at once, new pages are not.

    take ──> rows of an open chunk ──> once it is sealed, no reader has them: spare ──> zeroed ──> take
    bitmaps ──> of a sealed chunk ──> once it is dropped: spare ──> bitmaps

The system gives new pages one by one, which can cost more than the join that fills them. So memory of a dropped chunk
is kept for the next chunk, and the thread of maintenance that seals a chunk makes the room for another ready.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.columns import Array, new_array
from psoup.invariants import ensure

_LEAST = 1 << 20
"""Bytes below which memory is not kept: the C library keeps that."""
_SPARES = 2


class _Loan:
    """The base of an array that was taken; when the last view is gone, its memory goes back."""

    __slots__ = ("__array_interface__", "_memory", "_spares")

    def __init__(self, memory: Array, shape: tuple[int, ...], spares: _Spares) -> None:
        self._memory, self._spares = memory, spares
        interface = memory.__array_interface__
        self.__array_interface__: dict[str, Any] = {**interface, "shape": shape, "strides": None}

    def __del__(self) -> None:
        self._spares.give_back(self._memory)


class _Spares:
    """Memory that no array uses. Any thread may call it: lists are changed in single steps."""

    def __init__(self) -> None:
        self._kept: list[Array] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all spare memory."""
        return sum(memory.nbytes for memory in self.kept())

    def __len__(self) -> int:
        return len(self._kept)

    def kept(self) -> tuple[Array, ...]:
        """The pieces of memory that are spare now."""
        return tuple(self._kept)

    def give_back(self, memory: Array) -> None:
        """Keep a piece of memory, unless there is enough."""
        if len(self._kept) < _SPARES:
            self._kept.append(memory)

    def fitting(self, least: int, wanted: int) -> Array | None:
        """Return the last memory of `least` words or more; None, and it is dropped, if it is far too large."""
        try:
            memory = self._kept.pop()
        except IndexError:
            return None
        return memory if least <= len(memory) <= 2 * wanted else None


class RowRoom:
    """Room for the chunks of one stream. `words`: uint64 of a row; `block`: how many of them lie side by side while the
    chunk is open. Any thread may use it.
    """

    def __init__(self, words: int, block: int) -> None:
        self._words, self._block = words, block
        self._zeroed, self._used, self._sealed = _Spares(), _Spares(), _Spares()

    @property
    def nbytes(self) -> int:
        """Bytes of spare memory."""
        return self._zeroed.nbytes + self._used.nbytes + self._sealed.nbytes

    def take(self, least: int, wanted: int) -> Array:
        """Return uint64[blocks, rows, block], zero: `wanted` rows, or fewer if spare memory has room for `least`.

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
        """Return uint64[count, words] of arbitrary content."""
        size = count * self._words
        if size * 8 < _LEAST:
            return np.empty((count, self._words), np.uint64)
        memory = self._sealed.fitting(size, size)
        if memory is None:
            memory = new_array(size + (size >> 3), np.uint64)
        return np.asarray(_Loan(memory, (count, self._words), self._sealed))

    def make_ready(self, rows: int) -> None:
        """Zero memory for `rows`, so that the next `take` finds it ready. O(its size), for a thread that has time."""
        wanted = rows + (rows >> 2)
        if not self._zeroed and wanted * self._words * 8 >= _LEAST:
            self._zeroed.give_back(self._new(rows, wanted))

    def check(self) -> None:
        """Check that spare memory is bounded and listed once, and that zeroed memory is zero. O(bytes of it)."""
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
