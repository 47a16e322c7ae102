"""A pool of memory for rows of bits, because the system takes long to map new pages.

    take ──> rows of an open chunk ──> once it is sealed, no reader has them: spare ──> zeroed ──> take
    bitmaps ──> of a sealed chunk ──> once it is dropped: spare ──> bitmaps

The system maps new pages one by one, which can cost more than the join that fills them. So the pool keeps the memory of
a dropped chunk for the next chunk. The maintenance thread that seals a chunk also zeroes memory for the next one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from psoup.invariants import ensure
from psoup.values.columns import Array, new_array

_LEAST = 1 << 20
"""The least bytes of a piece in the pool. The C library pools smaller pieces."""
_SPARES = 2
"""The most spare pieces of each kind: zeroed, used, sealed."""


class _Loan:
    """The base object of an array from the pool. When the last view of the array is gone, the memory returns."""

    __slots__ = ("__array_interface__", "_memory", "_spares")

    def __init__(self, memory: Array, shape: tuple[int, ...], spares: _Spares) -> None:
        self._memory = memory
        self._spares = spares
        interface = memory.__array_interface__
        self.__array_interface__: dict[str, Any] = {**interface, "shape": shape, "strides": None}

    def __del__(self) -> None:
        self._spares.give_back(self._memory)


class _Spares:
    """Pieces of memory that no array uses. Any thread may use it: each change of the list is atomic."""

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
        """Keep a piece of memory, unless there are `_SPARES` spare pieces."""
        if len(self._kept) < _SPARES:
            self._kept.append(memory)

    def fitting(self, minimum: int, wanted: int) -> Array | None:
        """Remove the last piece and return it, or None.

        A piece with fewer than `minimum` or more than twice `wanted` words is dropped, and the result is None.
        """
        try:
            memory = self._kept.pop()
        except IndexError:
            return None
        return memory if minimum <= len(memory) <= 2 * wanted else None


class RowRoom:
    """The memory for results of the chunks of one stream. Any thread may use it.

    `words`: the number of uint64 words of a row. `block`: the number of words that are contiguous while the chunk is
    open.
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
        """Return zeroed rows for an open chunk: uint64[blocks, rows, block].

        There are `wanted` rows in new memory. Spare memory has at least `minimum` rows, and at most twice `wanted`.
        O(its size), or O(1) if `make_ready` has zeroed the memory.
        """
        blocks, words = self._words // self._block, self._words
        if wanted * words * 8 < _LEAST:
            return np.zeros((blocks, wanted, self._block), np.uint64)
        memory = self._zeroed.fitting(minimum * words, wanted * words)
        if memory is None:
            memory = self._new(minimum, wanted)
        return np.asarray(_Loan(memory, (blocks, len(memory) // words, self._block), self._used))

    def bitmaps(self, count: int) -> Array:
        """Return memory for the bitmaps of a sealed chunk: uint64[count, words] of arbitrary content."""
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
