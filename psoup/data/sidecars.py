"""Sidecars: results that the store keeps on disk for a span of chunks, from which they were computed.

    span     stream 3, chunks [16, 32), the checksum of these chunks' files      ─┐
    name     128 bits: the kind of result                                         ├─> bytes, or nothing
                                                                                  ┘
`Sidecars` is a port. The store may lose the bytes at any time; then answers only take longer. The store does not return
bytes whose span has another checksum, as they belong to other tuples. `psoup.aggregates.stored_folds` defines the
meaning of the bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

Hold = Callable[[int], None]
"""Charges bytes to a budget before they are allocated."""


def not_held(size: int) -> None:
    """Do not charge bytes."""


class ChunkFile(Protocol):
    """The file of a chunk on disk, as far as sidecars need it."""

    @property
    def nbytes(self) -> int:
        """Bytes on disk."""
        ...

    @property
    def checksum(self) -> int:
        """The checksum of all these bytes."""
        ...


class ChunkSpan(NamedTuple):
    """The chunks with numbers [first, stop) of a stream. `checksum`, `nbytes`: of the files of these chunks."""

    stream: int
    first: int
    stop: int
    checksum: int
    nbytes: int


class Sidecars(Protocol):
    """The sidecars of all chunks on disk. Any thread may use them. A failing or full disk raises no error."""

    def has(self, stream: int, first: int, stop: int) -> bool:
        """Whether the store may have sidecars of the chunks [first, stop). O(1), without reading the disk."""
        ...

    def find(self, span: ChunkSpan, name: bytes, hold: Hold = not_held) -> bytes | None:
        """The bytes stored under a name. None if they are missing, damaged, or of other chunks.

        The store calls `hold` with the number of bytes before it reads them. `hold` may raise.
        """
        ...

    def put(self, span: ChunkSpan, contents: Mapping[bytes, bytes]) -> None:
        """Store bytes by their names, and keep the earlier ones of the span.

        If all exceed a tenth of the chunks' bytes, the store drops the oldest.
        """
        ...


def checksum_of(checksums: Sequence[int]) -> int:
    """The checksum of a span, computed from the checksums of its chunks' files."""
    return zlib.crc32(np.array(checksums, "<u4").tobytes())


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The chunks [first, stop) of a stream, all on disk, with their sidecars.

    `source_of`: the file of a chunk by its number.
    """

    stream: int
    first: int
    stop: int
    sidecars: Sidecars
    source_of: Callable[[int], ChunkFile]

    def span(self, first: int, stop: int) -> ChunkSpan | None:
        """The span of the chunks [first, stop). None if some of them are not on disk. O(chunks of the span)."""
        if first < self.first or stop > self.stop:
            return None
        sources = [self.source_of(number) for number in range(first, stop)]
        checksum = checksum_of([source.checksum for source in sources])
        return ChunkSpan(self.stream, first, stop, checksum, sum(source.nbytes for source in sources))

    def find(self, first: int, stop: int, name: bytes, hold: Hold = not_held) -> bytes | None:
        """The bytes stored under a name for the chunks [first, stop), or None. `hold`: as in `Sidecars.find`."""
        if not self.sidecars.has(self.stream, first, stop):
            return None
        span = self.span(first, stop)
        return None if span is None else self.sidecars.find(span, name, hold)
