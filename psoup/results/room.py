"""A pool of memory for rows of bits: used pages are at hand at once, new pages are not.

    take ──> rows of an open chunk ──> once it is sealed, no reader has them: spare ──> zeroed ──> take
    bitmaps ──> of a sealed chunk ──> once it is dropped: spare ──> bitmaps

The system maps new pages one by one, which can cost more than the join that fills them. So memory of a dropped chunk is
kept for the next chunk. The maintenance thread that seals a chunk also zeroes memory for the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array, new_array

_LEAST = 1 << 20
"""Bytes below which memory is not pooled; the C library pools it."""
_SPARES = 2
"""The most spare pieces of a kind."""


class _Loan:
    """The base of an array that was taken; its memory returns to the pool with the last view."""

    __slots__ = ("__array_interface__", "_memory", "_spares")

    def __init__(self, memory: Array, shape: tuple[int, ...], spares: _Spares) -> None:
        self._memory = memory
        self._spares = spares
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
        """The spare pieces of memory."""
        return tuple(self._kept)

    def give_back(self, memory: Array) -> None:
        """Keep a piece of memory, unless there are enough."""
        if len(self._kept) < _SPARES:
            self._kept.append(memory)

    def fitting(self, minimum: int, wanted: int) -> Array | None:
        """Take the last piece. A piece with fewer words than `minimum`, or far too many, is dropped: None."""
        try:
            memory = self._kept.pop()
        except IndexError:
            return None
        return memory if minimum <= len(memory) <= 2 * wanted else None


class RowRoom:
    """Memory for the chunks of one stream. Any thread may use it.

    `words`: uint64 of a row; `block`: how many of them are contiguous while the chunk is open.
    """

    def __init__(self, words: int, block: int) -> None:
        self._words = words
        self._block = block
        self._zeroed = _Spares()
        self._used = _Spares()
        self._sealed = _Spares()

    @property
    def nbytes(self) -> int:
        """Bytes of spare memory."""
        return self._zeroed.nbytes + self._used.nbytes + self._sealed.nbytes

    def take(self, minimum: int, wanted: int) -> Array:
        """Return uint64[blocks, rows, block], zeroed: `wanted` rows, or fewer if spare memory has room for `minimum`.

        O(its size), unless memory was made ready.
        """
        blocks, words = self._words // self._block, self._words
        if wanted * words * 8 < _LEAST:
            return np.zeros((blocks, wanted, self._block), np.uint64)
        memory = self._zeroed.fitting(minimum * words, wanted * words)
        if memory is None:
            memory = self._new(minimum, wanted)
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
        """Zero memory for `rows`, so that the next `take` is fast. O(its size), for a background thread."""
        wanted = rows + (rows >> 2)
        if not self._zeroed and wanted * self._words * 8 >= _LEAST:
            self._zeroed.give_back(self._new(rows, wanted))

    def check(self) -> None:
        """Check that spare memory is bounded and listed once, and that zeroed memory is zero. O(bytes of it)."""
        spares = [memory for spares in (self._zeroed, self._used, self._sealed) for memory in spares.kept()]
        ensure(len(spares) <= 3 * _SPARES, self, "more memory is spare than should be", spares=len(spares))
        ensure(len({id(memory) for memory in spares}) == len(spares), self, "memory is spare twice", spares=len(spares))
        ensure(not any(memory.any() for memory in self._zeroed.kept()), self, "memory is not zero that should be")

    def _new(self, minimum: int, wanted: int) -> Array:
        memory = self._used.fitting(minimum * self._words, wanted * self._words)
        if memory is None:
            memory = new_array(wanted * self._words, np.uint64)
        memory.view(np.uint8).fill(0)  # as bytes: twice as fast as NumPy's fill of words
        return memory
