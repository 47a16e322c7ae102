"""The sidecars of the data directory: results computed from chunks on disk, so that the chunks need not be read again.

    folds/3.16.31.folds      results of the chunks 16 to 31 of stream 3; 3.16.16.folds: of chunk 16 alone
                             `psoup_storage.formats.sidecar_file` has the form of a file

A sidecar takes at most a tenth of the bytes of its chunks, but always may take one disk block. The folder drops the
oldest names beyond that. A sidecar is not an event, and no answer depends on it. The writing thread does not wait for
the disk. A sidecar that is lost, damaged or of other chunks is computed again. Backups leave sidecars out. A start
reads only the names and sizes of the files.
"""

from __future__ import annotations

import logging
import os
import re
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from psoup.data.sidecars import ChunkSpan, Hold, checksum_of, not_held
from psoup.errors import ResourceExhausted
from psoup_storage.formats.sidecar_file import content_of, entries_of, newest, read_index, room_of, written

FOLDER = "folds"
_NEW = ".new"
_NAME = re.compile(r"(\d+)\.(-?\d+)\.(-?\d+)\.folds")

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


class StagedSidecar(NamedTuple):
    """A sidecar from a job, before its chunk has a number. A start removes such files. `nbytes`: its bytes."""

    file: str
    nbytes: int


def place_of(file: str) -> ChunkRange | None:
    """The chunks of a sidecar, from the name of its file; None if the name has another form."""
    match = _NAME.fullmatch(file)
    if match is None:
        return None
    stream, first, last = map(int, match.groups())
    place = ChunkRange(stream, first, last + 1)
    return place if place.file == file and first <= last else None


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
                return content_of(file.fileno(), index, at)
        except OSError:
            return None

    def put(self, span: ChunkSpan, contents: Mapping[bytes, bytes]) -> None:
        """See `Sidecars`."""
        place = ChunkRange(*span[:3])
        with self._lock:
            try:
                entries = {**self._entries(place, span.checksum), **contents}
                fitting = newest(entries, room_of(span.nbytes))
                if fitting:
                    self._write(place, span.checksum, fitting)
            except ResourceExhausted:
                return
            except OSError as problem:
                self._tell(problem)

    def _tell(self, problem: OSError) -> None:
        """Log the first error of the disk."""
        if not self._refused:
            _log.warning("what was folded is not kept on disk", extra={"why": problem.strerror})
        self._refused = True

    def stage(self, content: bytes, checksum: int, room: int) -> StagedSidecar | None:
        """Write the sidecar of a chunk that a job made, until `place` gives it its name. Any thread.

        `checksum`: of the span of this chunk. `room`: the most bytes of its sidecar. Returns None for a sidecar that is
        damaged, too large or of another chunk, and without room on the disk: then the service makes its own folds.
        """
        path = self._path / (secrets.token_hex(8) + _NEW)
        if len(content) > room:
            return None
        try:
            self._check_room(len(content))
            self._path.mkdir(mode=0o700, exist_ok=True)
            path.write_bytes(content)
            if _wrong_with(path, checksum) is None:
                return StagedSidecar(path.name, len(content))
            path.unlink()
        except ResourceExhausted:
            return None
        except OSError as problem:
            self._tell(problem)
            with suppress(OSError):
                path.unlink(missing_ok=True)
        return None

    def place(self, staged: StagedSidecar, place: ChunkRange) -> None:
        """Give a staged sidecar its name, because the chunks at `place` are attached. O(1)."""
        with self._lock, suppress(OSError):
            os.rename(self._path / staged.file, self._path / place.file)
            self._places[place] = staged.nbytes

    def discard(self, staged: StagedSidecar) -> None:
        """Remove a staged sidecar whose chunk is not attached."""
        with suppress(OSError):
            (self._path / staged.file).unlink()

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
