"""A base image: the files of a copy of the data directory as of one event, and their list for the manifest.

    freeze ─> database ─zstd─> files/<sha256>      chunks ─> files/<sha256>, unless they are there      ─> list

A file is named by the checksum of its content. So a chunk that an earlier image has is not sent again. The manifest is
written after all its files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from psoup.errors import Unavailable
from psoup_proto.file_names import DATABASE
from psoup_storage.durable.tools.backup import Frozen
from psoup_storage.replica.targets import Target

ZSTD = "zstd"
_PIECE = 1024 * 1024


class ImageFile(NamedTuple):
    """A file of a base image. `digest`: SHA-256 of the object. `size`: its bytes. `compression`: "zstd", or ""."""

    name: str
    digest: str
    size: int
    compression: str

    @property
    def object(self) -> str:
        """The name of the object that has the content."""
        return f"files/{self.digest}"


def send_files(target: Target, frozen: Frozen, ended: Callable[[], bool]) -> list[ImageFile]:
    """Send the files of a frozen copy to a target. O(bytes). Raises Unavailable, and OSError of the own disk.

    `ended`: whether to give up, asked before each file; Unavailable is raised then.
    """
    files = []
    for name, _ in frozen.files:
        if ended():
            raise Unavailable("the service ends")
        path = frozen.path / name
        compression = ZSTD if name == DATABASE else ""
        if compression:
            path = _compressed(path)
        file = ImageFile(name, digest_of(path), path.stat().st_size, compression)
        target.add_file(file.object, path)
        files.append(file)
    return files


def receive_file(target: Target, file: ImageFile, path: Path) -> bool:
    """Write a file of an image to `path`; returns False if the object is missing or has other bytes. O(bytes)."""
    raw = path.with_name(f"{path.name}.{ZSTD}") if file.compression else path
    digest = hashlib.sha256()
    try:
        with open(raw, "xb") as output:
            for piece in target.pieces(file.object):
                digest.update(piece)
                output.write(piece)
    except FileNotFoundError:
        return False
    if digest.hexdigest() != file.digest:
        return False
    if file.compression:
        with pa.input_stream(str(raw), compression=ZSTD) as source, open(path, "xb") as output:
            while piece := source.read(_PIECE):
                output.write(piece)
        raw.unlink()
    return True


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
