"""The file of a sidecar: results computed from some chunks, each under a name of 128 bits.

    head     magic, checksum of the index, checksum of the chunks, number of names     int64
    index    names, 16 bytes each, the oldest first; ends int64[k], checksums int64[k]
    bytes    the result under each name

The service writes such files into its data directory (`psoup_storage.durable.chunks.sidecars`), and a job writes them
beside its chunks. A reader finds nothing in a file that is damaged, or that belongs to other chunks.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from psoup.values.columns import Array

SUFFIX = ".folds"
"""The end of the names of sidecars."""

SHARE = 10
"""A sidecar takes at most one `SHARE`-th of the bytes of its chunks."""

_LEAST = 4_096
"""Bytes that a sidecar may take in any case: a block of the disk."""

MOST_BYTES = 1 << 20
"""The most bytes of a sidecar. So it can be rewritten in some milliseconds."""

_MAGIC = 0x31646C6F46505350
_HEAD = 32
_NAMED = 16
_ENTRY = _NAMED + 16
"""Bytes of a name in the index."""


@dataclass(frozen=True, slots=True)
class SidecarIndex:
    """The index of a sidecar. `names`: 16 bytes each. `ends`: the end of each result, as an offset after `base`.

    `checksums`: CRC-32 of each result.
    """

    names: bytes
    ends: Array
    checksums: Array
    base: int

    def __len__(self) -> int:
        return len(self.ends)

    def find(self, name: bytes) -> int:
        """The place of a name in the index; -1 if it is missing."""
        at = self.names.find(name)
        while at % _NAMED and at >= 0:
            at = self.names.find(name, at + 1)
        return at // _NAMED

    def bytes_of(self, at: int) -> tuple[int, int]:
        """The offset and the number of the bytes that are stored under the name at place `at`."""
        start = int(self.ends[at - 1]) if at else 0
        return self.base + start, int(self.ends[at]) - start


def written(checksum: int, entries: Mapping[bytes, bytes]) -> bytes:
    """The bytes of a sidecar."""
    contents = list(entries.values())
    ends = np.cumsum([len(content) for content in contents], dtype="<i8")
    checksums = np.array([zlib.crc32(content) for content in contents], "<i8")
    index = b"".join([*entries, ends.tobytes(), checksums.tobytes()])
    head = np.array([_MAGIC, zlib.crc32(index), checksum, len(contents)], "<i8").tobytes()
    return b"".join([head, index, *contents])


def read_index(handle: int, checksum: int) -> SidecarIndex | None:
    """The index of an open sidecar; None if it is damaged, or if its chunks have another checksum. Raises OSError.

    Checks all places in the file, because a job may have written it.
    """
    head = os.pread(handle, _HEAD, 0)
    if len(head) < _HEAD:
        return None
    magic, crc, chunks, count = np.frombuffer(head, "<i8").tolist()
    if magic != _MAGIC or chunks != checksum or not 0 <= count * _ENTRY <= os.fstat(handle).st_size:
        return None
    index = os.pread(handle, count * _ENTRY, _HEAD)
    if len(index) != count * _ENTRY or zlib.crc32(index) != crc:
        return None
    numbers = np.frombuffer(index, "<i8", 2 * count, _NAMED * count)
    ends = np.concatenate([np.zeros(1, np.int64), numbers[:count]])
    if (ends[1:] < ends[:-1]).any() or _HEAD + len(index) + int(ends[-1]) > os.fstat(handle).st_size:
        return None
    return SidecarIndex(index[: _NAMED * count], numbers[:count], numbers[count:], _HEAD + len(index))


def entries_of(handle: int, checksum: int) -> Iterator[tuple[bytes, bytes]]:
    """The names of an open sidecar and their bytes, without damaged entries. Raises OSError."""
    index = read_index(handle, checksum)
    for at in range(0 if index is None else len(index)):
        assert index is not None
        content = content_of(handle, index, at)
        if content is not None:
            yield index.names[_NAMED * at : _NAMED * (at + 1)], content


def content_of(handle: int, index: SidecarIndex, at: int) -> bytes | None:
    """The bytes stored under the name at place `at` of the index; None if they are damaged. Raises OSError."""
    start, size = index.bytes_of(at)
    content = os.pread(handle, size, start)
    return content if zlib.crc32(content) == index.checksums[at] else None


def room_of(chunk_bytes: int) -> int:
    """The most bytes of the sidecar of chunks whose files have `chunk_bytes`."""
    return min(max(chunk_bytes // SHARE, _LEAST), MOST_BYTES)


def newest(entries: Mapping[bytes, bytes], room: int) -> dict[bytes, bytes]:
    """The newest entries that fit into a sidecar of `room` bytes, in their order."""
    return dict(reversed([*_fitting(entries, room)]))


def _fitting(entries: Mapping[bytes, bytes], room: int) -> Iterator[tuple[bytes, bytes]]:
    """The entries that fit into `room` bytes, the newest first."""
    room -= _HEAD
    for name, content in reversed(list(entries.items())):
        if len(content) + _ENTRY <= room:
            room -= len(content) + _ENTRY
            yield name, content
