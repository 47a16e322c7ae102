"""The call of the BackupService: a copy of a service's data directory, received file by file.

    Client.backup("monday")     monday.part/ psoup.db, chunks/ …  ──all there──>  monday/

What arrives is a data directory: `psoup serve --data-dir monday` runs on it, with IDs of a new incarnation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from psoup_client import html
from psoup_client.arguments import checking_arguments
from psoup_client.errors import InvalidData
from psoup_client.session import Session
from psoup_client.wording import counted, verb
from psoup_proto.v1 import backup_pb2

Progress = Callable[[str, int, int], None]
"""Told which file comes, and how many bytes of how many are here."""


@dataclass(frozen=True, slots=True)
class BackupResult(html.Facts):
    """The content of a backup: everything up to the event `sequence` of the incarnation."""

    path: str
    sequence: int
    incarnation: str
    files: int
    bytes: int


class Receiver:
    """Writes the messages of one backup to a new folder; files are on the disk when they are complete."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder = folder
        self.plan = backup_pb2.BackupPlan()
        self.files = self.bytes = 0
        self._progress = progress
        self._name = ""
        self._left = 0
        self._file: BinaryIO | None = None

    def take(self, message: backup_pb2.BackupResponse) -> None:
        """Take the next message; raises InvalidData if it does not fit what came before."""
        match message.WhichOneof("part"):
            case "plan":
                self.plan = message.plan
            case "file":
                self._begin(message.file)
            case "content":
                self._write(message.content)

    def end(self) -> None:
        """Complete the last file; raises InvalidData if something is missing."""
        self._complete()
        if (self.files, self.bytes) != (self.plan.files, self.plan.bytes) or not self.files:
            raise InvalidData(
                f"the backup ended after {self.files} of {counted(self.plan.files, 'file')} and {self.bytes:,} of"
                f" {self.plan.bytes:,} bytes; make it again"
            )
        for folder in (self.folder, *(path for path in self.folder.rglob("*") if path.is_dir())):
            _sync(folder)

    def _begin(self, file: backup_pb2.BackupFile) -> None:
        self._complete()
        parts = PurePosixPath(file.name).parts
        if not parts or any(part in ("..", "/") for part in parts):
            raise InvalidData(f"the service sends a file named {file.name!r}, which is not a path inside the backup")
        self._name, self._left = file.name, file.bytes
        path = self.folder.joinpath(*parts)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._file = os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def _write(self, content: bytes) -> None:
        if self._file is None or len(content) > self._left:
            raise InvalidData(f"the service sends more of {self._name!r} than it said; make the backup again")
        self._file.write(content)
        self._left -= len(content)
        self.bytes += len(content)
        self._progress(self._name, self.bytes, self.plan.bytes)

    def _complete(self) -> None:
        if self._file is None:
            return
        if self._left:
            raise InvalidData(
                f"{counted(self._left, 'byte')} of {self._name!r} {verb(self._left, 'is', 'are')} missing; make"
                f" the backup again"
            )
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._file = None
        self.files += 1


@checking_arguments
class BackupCalls(Session):
    """The call that copies the data directory of a service."""

    def backup(
        self,
        destination: str | os.PathLike[str],
        *,
        progress: Progress | None = None,
        timeout: float = 86_400.0,
    ) -> BackupResult:
        """Copy the data directory of the service, as of one event, to the new folder `destination`.

        The service goes on meanwhile. What arrives is a data directory; the first service that runs on it gives it IDs
        of its own. `progress` is told which file comes, and bytes done and in all. Raises FailedPrecondition if
        the service keeps nothing on disk, FileExistsError for a place that is taken. Memory: one message.
        """
        target = Path(destination)
        if target.exists():
            raise FileExistsError(f"{target} is there already; name a place that is not")
        folder = target.with_name(target.name + ".part")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        receiver = Receiver(folder, progress or (lambda name, done, total: None))
        for message in self.connection.stream(self.connection.backup.Backup, backup_pb2.BackupRequest(), timeout):
            receiver.take(message)
        receiver.end()
        folder.rename(target)
        _sync(target.parent)
        plan = receiver.plan
        return BackupResult(str(target), plan.sequence, plan.incarnation, plan.files, plan.bytes)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
