"""Columns of whole numbers, read from their pages in a chunk's file in the form that `chunk_file` writes.

    ranges ──pread──> pages of one column ──checksum, zstd──> differences ──kernel──> int64, in memory used before

This takes a third of the time of pyarrow, which allocates new memory for each column. Pages of any other form (other
types and encodings, NULLs, damage) are left to pyarrow, which reports errors.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from psoup.kernels.rows.parquet_deltas import FACTS, SIZE, page_facts, unpack_deltas
from psoup.model import DataType, Kind
from psoup.values.columns import Array

_DATA_PAGE = 0
"""Parquet's number for a data page."""

_DIFFERENCES = 5
"""Parquet's number for delta encoding, the encoding of the values."""

_RUNS = 3
"""Parquet's number for run-length encoding, the encoding of the definition levels."""
_SLACK = 32
_MOST_BYTES = 1 << 24
_KINDS = frozenset({Kind.BIGINT, Kind.TIMESTAMP, Kind.DECIMAL, Kind.DATE})
_SHORT_DIGITS = 9
"""The most digits of a DECIMAL that is stored in 32 bits, like a DATE."""


def has_pages(data_type: DataType) -> bool:
    """Whether a chunk's file stores values of a type as whole numbers with delta encoding."""
    return data_type.kind in _KINDS


class PageMemory:
    """Buffers for reading pages. Each thread has its own buffers, and uses them again for each column."""

    def __init__(self) -> None:
        self._own = threading.local()

    def numbers(
        self, handle: int, ranges: Iterable[tuple[int, int]], rows: int, data_type: DataType, nullable: bool
    ) -> Array | None:
        """The values of a column, int64[rows], in the thread's memory. They are valid until its next read.

        `ranges`: the start and the length of each run of pages of the column. Returns None if a page has another form,
        is damaged, or has NULL. O(bytes). Raises OSError.
        """
        memory = self._memory(rows)
        done = 0
        for start, size in ranges:
            read = memory.read(handle, start, size) if size <= _MOST_BYTES else 0
            at = 0
            while at < size == read:
                body = page_facts(memory.file, at, size, memory.facts)
                if body < 0 or (count := memory.unpacked(body, size, nullable, done, rows)) <= 0:
                    return None
                at, done = body + int(memory.facts[SIZE]), done + count
            if read < size:
                return None
        if done != rows:
            return None
        values = memory.values[:rows]
        if data_type.kind is Kind.DATE or (data_type.kind is Kind.DECIMAL and data_type.precision <= _SHORT_DIGITS):
            values[:] = values.astype(np.int32)  # their sums wrap at 32 bits
        return values

    def _memory(self, rows: int) -> _Memory:
        memory: _Memory | None = getattr(self._own, "memory", None)
        if memory is None:
            memory = self._own.memory = _Memory()
        if len(memory.values) < rows:
            memory.values = np.empty(rows, np.int64)
        return memory


class _Memory:
    """The buffers of one thread. `facts`: the facts of the current page."""

    def __init__(self) -> None:
        self.file: Array = np.empty(0, np.uint8)
        self.values: Array = np.empty(0, np.int64)
        self.facts: Array = np.empty(FACTS, np.int64)
        self._words: Array = np.empty(0, np.uint64)
        self._zstd = pa.Codec("zstd")

    def read(self, handle: int, start: int, size: int) -> int:
        """Read bytes of a file to the front of `file`; returns how many there were."""
        if len(self.file) < size:
            self.file = np.empty(size, np.uint8)
        return os.preadv(handle, [self.file.data[:size]], start)

    def unpacked(self, body: int, end: int, levels: bool, done: int, rows: int) -> int:
        """Decode the values of the current page into `values`, from index `done` on. Returns their number.

        Returns 0 for a page of another form.
        """
        kind, plain, size, crc, count, encoding, runs = self.facts.tolist()
        if (kind, encoding, runs) != (_DATA_PAGE, _DIFFERENCES, _RUNS) or not 0 < count <= rows - done:
            return 0
        if not 0 <= size <= end - body or not 0 <= plain <= _MOST_BYTES:
            return 0
        page = self.file.data[body : body + size]
        if zlib.crc32(page) != crc:
            return 0
        try:
            content = np.frombuffer(self._zstd.decompress(page, plain), np.uint8)
        except (OSError, ValueError):  # Arrow raises these for bytes that are not zstd's
            return 0
        if len(content) != plain:
            return 0
        if 8 * len(self._words) < plain + _SLACK:
            self._words = np.empty(plain // 8 + _SLACK, np.uint64)
        self._words.view(np.uint8)[:plain] = content
        complete = unpack_deltas(self._words, plain, levels, count, self.values[done : done + count])
        return count if complete else 0
