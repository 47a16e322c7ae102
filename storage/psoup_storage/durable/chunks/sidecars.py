"""The sidecars of the data directory: results computed from chunks on disk, so that the chunks need not be read again.

    folds/3.16.31.folds      results of the chunks 16 to 31 of stream 3; 3.16.16.folds: of chunk 16 alone
      head     magic, checksum of the index, checksum of the chunks, number of names     int64
      index    names, 16 bytes each, the oldest first; ends int64[k], checksums int64[k]
      bytes    the result under each name

A sidecar takes at most a tenth of the bytes of its chunks, but always may take one disk block. The folder drops the
oldest names beyond that. A sidecar is not an event, and no answer depends on it. The writing thread does not wait for
the disk. A sidecar that is lost, damaged or of other chunks is computed again. Backups leave sidecars out. A start
reads only the names and sizes of the files.
"""

from __future__ import annotations

import logging
import os
import re
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from psoup.data.sidecars import ChunkSpan, Hold, checksum_of, not_held
from psoup.errors import ResourceExhausted
from psoup.values.columns import Array

FOLDER = "folds"
SHARE = 10
"""A sidecar takes at most one `SHARE`-th of the bytes of its chunks."""

_LEAST = 4_096
"""Bytes that a sidecar may take in any case: a block of the disk."""

_MOST = 1 << 20
"""The most bytes of a sidecar. So it can be rewritten in some milliseconds."""
_NEW = ".new"
_NAME = re.compile(r"(\d+)\.(-?\d+)\.(-?\d+)\.folds")
_MAGIC = 0x31646C6F46505350
_HEAD = 32
_NAMED = 16
_ENTRY = _NAMED + 16
"""Bytes of a name in the index."""

_log = logging.getLogger(__name__)


class ChunkRange(NamedTuple):
    """The chunks [first, stop) of a stream."""

    stream: int
    first: int
    stop: int

    @property
    def file(self) -> str:
        """The name of the sidecar."""
        return f"{self.stream}.{self.first}.{self.stop - 1}.folds"


def place_of(file: str) -> ChunkRange | None:
    """The chunks of a sidecar, from the name of its file; None if the name has another form."""
    match = _NAME.fullmatch(file)
    if match is None:
        return None
    stream, first, last = map(int, match.groups())
    place = ChunkRange(stream, first, last + 1)
    return place if place.file == file and first <= last else None


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


class SidecarFolder:
    """All sidecars of a directory (`psoup.data.sidecars.Sidecars`).

    `check_room`: raises ResourceExhausted if the disk has no room for so many bytes.
    """

    def __init__(self, directory: Path, check_room: Callable[[int], None] = lambda size: None) -> None:
        self._path = directory / FOLDER
        self._check_room = check_room
        self._places: dict[ChunkRange, int] = {}
        """The bytes of each sidecar."""
        self._lock = threading.Lock()
        self._refused = False

    def load(self, chunks: Mapping[int, tuple[int, int]]) -> None:
        """Register the existing sidecars at a start. `chunks`: the chunk numbers [first, stop) of each stream.

        Sidecars of other chunks are removed. O(files), by their names.
        """
        for file in list(os.scandir(self._path)) if self._path.is_dir() else ():
            place = place_of(file.name)
            with suppress(OSError):
                if place is not None and is_of(place, chunks):
                    self._places[place] = file.stat().st_size
                else:
                    os.unlink(file)

    @property
    def nbytes(self) -> int:
        """Bytes of all sidecars. O(sidecars). Any thread."""
        return sum(list(self._places.values()))

    def has(self, stream: int, first: int, stop: int) -> bool:
        """See `Sidecars`."""
        return (stream, first, stop) in self._places

    def find(self, span: ChunkSpan, name: bytes, hold: Hold = not_held) -> bytes | None:
        """See `Sidecars`."""
        try:
            with open(self._path / ChunkRange(*span[:3]).file, "rb") as file:
                index = read_index(file.fileno(), span.checksum)
                at = -1 if index is None else index.find(name)
                if index is None or at < 0:
                    return None
                hold(index.bytes_of(at)[1])
                return _content(file.fileno(), index, at)
        except OSError:
            return None

    def put(self, span: ChunkSpan, contents: Mapping[bytes, bytes]) -> None:
        """See `Sidecars`."""
        place = ChunkRange(*span[:3])
        with self._lock:
            try:
                entries = {**self._entries(place, span.checksum), **contents}
                newest = dict(_newest(entries, min(max(span.nbytes // SHARE, _LEAST), _MOST)))
                if newest:
                    self._write(place, span.checksum, dict(reversed(newest.items())))
            except ResourceExhausted:
                return
            except OSError as problem:
                if not self._refused:
                    _log.warning("what was folded is not kept on disk", extra={"why": problem.strerror})
                self._refused = True

    def forget(self, stream: int, oldest: int | None = None) -> None:
        """Remove a stream's sidecars that have a chunk below number `oldest`; without it, all. O(sidecars)."""
        with self._lock:
            self._remove([p for p in self._places if p.stream == stream and (oldest is None or p.first < oldest)])

    def forget_chunk(self, stream: int, number: int) -> None:
        """Remove the sidecars that have the chunk `number` of a stream, because its file is replaced. O(sidecars)."""
        with self._lock:
            self._remove([p for p in self._places if p.stream == stream and p.first <= number < p.stop])

    def _remove(self, places: Sequence[ChunkRange]) -> None:
        for place in places:
            del self._places[place]
            with suppress(OSError):
                (self._path / place.file).unlink()

    def _entries(self, place: ChunkRange, checksum: int) -> dict[bytes, bytes]:
        """Entries of a sidecar now, the oldest first."""
        if place not in self._places:
            return {}
        with suppress(OSError), open(self._path / place.file, "rb") as file:
            return dict(entries_of(file.fileno(), checksum))
        return {}

    def _write(self, place: ChunkRange, checksum: int, entries: Mapping[bytes, bytes]) -> None:
        content = written(checksum, entries)
        self._check_room(len(content))
        self._path.mkdir(mode=0o700, exist_ok=True)
        target = self._path / place.file
        new = target.with_name(target.name + _NEW)
        try:
            handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.rename(new, target)
        except OSError:
            new.unlink(missing_ok=True)
            raise
        self._places[place] = len(content)


def numbers_of(chunks: Iterable[tuple[int, int]]) -> dict[int, tuple[int, int]]:
    """The range [first, stop) of chunk numbers of each stream. `chunks`: (stream, number) of all chunks."""
    numbers = dict[int, tuple[int, int]]()
    for stream, number in chunks:
        first, stop = numbers.get(stream, (number, number))
        numbers[stream] = min(first, number), max(stop, number + 1)
    return numbers


def is_of(place: ChunkRange, chunks: Mapping[int, tuple[int, int]]) -> bool:
    """Whether a stream has the chunks of a sidecar; `chunks`: the numbers [first, stop) of each stream."""
    first, stop = chunks.get(place.stream, (0, 0))
    return first <= place.first and place.stop <= stop


def written(checksum: int, entries: Mapping[bytes, bytes]) -> bytes:
    """The bytes of a sidecar."""
    contents = list(entries.values())
    ends = np.cumsum([len(content) for content in contents], dtype="<i8")
    checksums = np.array([zlib.crc32(content) for content in contents], "<i8")
    index = b"".join([*entries, ends.tobytes(), checksums.tobytes()])
    head = np.array([_MAGIC, zlib.crc32(index), checksum, len(contents)], "<i8").tobytes()
    return b"".join([head, index, *contents])


def read_index(handle: int, checksum: int) -> SidecarIndex | None:
    """The index of an open sidecar; None if it is damaged, or if its chunks have another checksum. Raises OSError."""
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
    return SidecarIndex(index[: _NAMED * count], numbers[:count], numbers[count:], _HEAD + len(index))


def entries_of(handle: int, checksum: int) -> Iterator[tuple[bytes, bytes]]:
    """The names of an open sidecar and their bytes, without damaged entries. Raises OSError."""
    index = read_index(handle, checksum)
    for at in range(0 if index is None else len(index)):
        assert index is not None
        content = _content(handle, index, at)
        if content is not None:
            yield index.names[_NAMED * at : _NAMED * (at + 1)], content


def _content(handle: int, index: SidecarIndex, at: int) -> bytes | None:
    start, size = index.bytes_of(at)
    content = os.pread(handle, size, start)
    return content if zlib.crc32(content) == index.checksums[at] else None


def _newest(entries: Mapping[bytes, bytes], room: int) -> Iterator[tuple[bytes, bytes]]:
    """The entries that fit into `room` bytes, the newest first."""
    room -= _HEAD
    for name, content in reversed(list(entries.items())):
        if len(content) + _ENTRY <= room:
            room -= len(content) + _ENTRY
            yield name, content


def useless(directory: Path, checksums: Mapping[tuple[int, int], int]) -> Iterator[tuple[str, str]]:
    """The sidecars that are damaged or whose chunks are gone, each with the reason. O(their bytes).

    `checksums`: of the files of all chunks, by stream and number.
    """
    for path in sorted((directory / FOLDER).iterdir()) if (directory / FOLDER).is_dir() else ():
        place = place_of(path.name)
        numbers = () if place is None else range(place.first, place.stop)
        expected = [] if place is None else [checksums.get((place.stream, number)) for number in numbers]
        chunks = [checksum for checksum in expected if checksum is not None]
        if place is None or len(chunks) < len(expected):
            yield f"{FOLDER}/{path.name}", "was computed from chunks that are gone, or a crash left it"
        elif (wrong := _wrong_with(path, checksum_of(chunks))) is not None:
            yield f"{FOLDER}/{path.name}", wrong


def _wrong_with(path: Path, checksum: int) -> str | None:
    """The fault of a sidecar, in words; None if it is readable and belongs to chunks with that checksum."""
    try:
        with open(path, "rb") as file:
            index = read_index(file.fileno(), checksum)
            sound = len(dict(entries_of(file.fileno(), checksum)))
    except OSError as problem:
        return f"cannot be read: {problem.strerror}"
    return None if index is not None and sound == len(index) else "is damaged, or was computed from other chunks"
