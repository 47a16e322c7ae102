"""A base image: the files of a copy of the data directory as of one event, and their list for the manifest.

    freeze ─> database ─zstd─> files/<sha256>      chunks ─> files/<sha256>, unless they are there      ─> list

A file is named by the checksum of its content. So a chunk that an earlier image has is not sent again. After a takeover
the name also has the epoch, files/<sha256>-42, unless the newest image has the file. The manifest is written after all
its files.

A file is decompressed while it is read. Few bytes can stand for many, so a reader takes no more than the manifest says.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from psoup.errors import ResourceExhausted, Unavailable
from psoup_proto.file_names import DATABASE
from psoup_storage.durable.tools.backup import Frozen
from psoup_storage.replica.headers import MOST_FILES
from psoup_storage.replica.targets import Target

ZSTD = "zstd"
_PIECE = 1024 * 1024


class ImageFile(NamedTuple):
    """A file of a base image. `digest`: SHA-256 of the object. `size`: its bytes. `compression`: "zstd", or "".

    `content`: the bytes of the file itself. `epoch`: of the writer that sent it first. So writers of different epochs
    never write, or remove, one object.
    """

    name: str
    digest: str
    size: int
    compression: str
    content: int
    epoch: int = 0

    @property
    def object(self) -> str:
        """The name of the object that has the content."""
        return f"files/{self.digest}-{self.epoch}" if self.epoch else f"files/{self.digest}"


def send_files(
    target: Target, frozen: Frozen, ended: Callable[[], bool], epoch: int = 0, before: Sequence[ImageFile] = ()
) -> list[ImageFile]:
    """Send the files of a frozen copy to a target. O(bytes). Raises Unavailable, and OSError of the own disk.

    `ended`: whether to give up, asked before each file; Unavailable is raised then. `epoch`: of the writer. `before`:
    the files of the newest base image, which are not sent again. See `old_objects`. Raises ResourceExhausted for more
    files than a manifest can have.
    """
    if len(frozen.files) > MOST_FILES:
        raise ResourceExhausted(f"it would have {len(frozen.files):,} files, and {MOST_FILES:,} are the most")
    epochs = {file.digest: file.epoch for file in before}
    files = []
    for name, content in frozen.files:
        if ended():
            raise Unavailable("the service ends")
        path = frozen.path / name
        compression = ZSTD if name == DATABASE else ""
        if compression:
            path = _compressed(path)
        digest = digest_of(path)
        file = ImageFile(name, digest, path.stat().st_size, compression, content, epochs.get(digest, epoch))
        target.add_file(file.object, path)
        files.append(file)
    return files


class WrongFile(Exception):
    """The reason why the object of a file cannot be used."""


def content_of(target: Target, file: ImageFile) -> Iterator[bytes]:
    """The content of a file of an image, in pieces. O(bytes), in constant memory.

    Raises WrongFile, perhaps after all pieces, if the object is missing or differs from the manifest.
    """
    source, size = _Source(target, file), 0
    try:
        stream = pa.CompressedInputStream(pa.PythonFile(source, "r"), ZSTD) if file.compression else source
        for piece in iter(partial(stream.read, _PIECE), b""):
            size += len(piece)
            if size > file.content:
                raise WrongFile(f"it has more than the {file.content:,} bytes that the manifest says")
            yield piece
        source.check()
    except FileNotFoundError:
        raise WrongFile("it is missing") from None
    except OSError as problem:  # of the decompression; errors of storage are Unavailable
        raise WrongFile(f"it cannot be decompressed: {problem}") from problem
    if size != file.content:
        raise WrongFile(f"it has {size:,} bytes, and not the {file.content:,} that the manifest says")


class _Source(io.RawIOBase):
    """The bytes of the object of a file, counted and hashed. `check` reads the rest, and raises WrongFile."""

    def __init__(self, target: Target, file: ImageFile) -> None:
        self._file, self._pieces = file, target.pieces(file.object)
        self._piece = memoryview(b"")
        self._digest, self._size = hashlib.sha256(), 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; none at the end."""
        if not self._piece and (piece := next(self._pieces, b"")):
            self._digest.update(piece)
            self._size += len(piece)
            if self._size > self._file.size:
                raise WrongFile(f"it has more than {self._file.size:,} bytes, as no object of that name")
            self._piece = memoryview(piece)
        part, self._piece = self._piece[:size], self._piece[size:]
        return bytes(part)

    def check(self) -> None:
        """See the class."""
        while self.read(_PIECE):
            pass
        if self._digest.hexdigest() != self._file.digest:
            raise WrongFile("it has changed since it was written")


def digest_of(path: Path) -> str:
    """SHA-256 of a file, in hex. O(bytes)."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _compressed(path: Path) -> Path:
    target = path.with_name(f"{path.name}.{ZSTD}")
    with open(path, "rb") as source, pa.output_stream(str(target), compression=ZSTD) as output:
        while piece := source.read(_PIECE):
            output.write(piece)
    return target
