"""Sidecars: bytes that lie beside chunks on disk, by the span of chunks that they were computed from.

    span     stream 3, chunks [16, 32), the checksum of these chunks' files      ─┐
    name     128 bits: what was computed                                          ├─> bytes, or nothing
                                                                                  ┘
A port: the store keeps them, and may lose them at any time; nothing but time depends on them. Bytes whose span has
another checksum are those of other tuples, and are not found. What they mean is not known here
(`psoup.aggregates.shelved`).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

Hold = Callable[[int], None]
"""Charges bytes before they are made."""


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
    """The chunks with numbers [first, stop) of a stream: a checksum of their files, and how many bytes these have."""

    stream: int
    first: int
    stop: int
    checksum: int
    nbytes: int


class Sidecars(Protocol):
    """Sidecars of all chunks on disk. Any thread; a disk that fails or is full raises nothing."""

    def has(self, stream: int, first: int, stop: int) -> bool:
        """Whether there is something for the chunks [first, stop), as far as names tell. O(1), without the disk."""
        ...

    def find(self, span: ChunkSpan, name: bytes, hold: Hold = not_held) -> bytes | None:
        """The bytes of that name, as they were put; None if they are missing, damaged, or of other chunks.

        `hold` gets their number before they are read, and may raise.
        """
        ...

    def put(self, span: ChunkSpan, contents: Mapping[bytes, bytes]) -> None:
        """Keep bytes by their names, beside those of other names, as far as a tenth of the chunks' bytes allows."""
        ...


def checksum_of(checksums: Sequence[int]) -> int:
    """The checksum of a span from those of its chunks' files."""
    return zlib.crc32(np.array(checksums, "<u4").tobytes())


@dataclass(frozen=True, slots=True)
class OnDisk:
    """The chunks [first, stop) of a stream, all on disk, and what lies beside them.

    `source_of`: the file of a chunk by its number.
    """

    stream: int
    first: int
    stop: int
    sidecars: Sidecars
    source_of: Callable[[int], ChunkFile]

    def span(self, first: int, stop: int) -> ChunkSpan | None:
        """The span of the chunks [first, stop); None if they are not all on disk. O(chunks of it)."""
        if first < self.first or stop > self.stop:
            return None
        sources = [self.source_of(number) for number in range(first, stop)]
        checksum = checksum_of([source.checksum for source in sources])
        return ChunkSpan(self.stream, first, stop, checksum, sum(source.nbytes for source in sources))

    def find(self, first: int, stop: int, name: bytes, hold: Hold = not_held) -> bytes | None:
        """The bytes of that name beside the chunks [first, stop); `hold` is told their number before."""
        if not self.sidecars.has(self.stream, first, stop):
            return None
        span = self.span(first, stop)
        return None if span is None else self.sidecars.find(span, name, hold)
