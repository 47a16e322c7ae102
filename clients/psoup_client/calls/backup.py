"""The call of the BackupService: a copy of a service's data directory, received file by file.

    Client.backup("monday")     monday.part/ psoup.db, chunks/ …  ──all there──>  monday/

The received folder is a data directory: `psoup serve --data-dir monday` runs on it, with IDs of a new incarnation.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from psoup_client import html
from psoup_client.arguments import checking_arguments
from psoup_client.errors import InvalidData
from psoup_client.phrases import counted, verb
from psoup_client.session import Session
from psoup_proto.file_names import DATABASE, backup_path
from psoup_proto.v1 import backup_pb2

_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_SHOWN = 200
"""The greatest number of characters of a name in a message."""
Progress = Callable[[str, int, int], None]
"""The function that receives the name of the present file, the received bytes and the bytes of all files."""


@dataclass(frozen=True, slots=True)
class BackupResult(html.Facts):
    """The content of a backup: everything up to the event `sequence` of the incarnation."""

    path: str
    sequence: int
    incarnation: str
    files: int
    bytes: int


class Receiver:
    """The writer of a backup's messages to the new folder `folder`. A complete file is on the disk.

    The sender may be any program. So each file must have a name that backups use, and must be new. The receiver opens
    it relative to its folder without following links. All files must add up to the bytes of the plan. Use it in a
    `with` statement.
    """

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder = folder
        self.plan: backup_pb2.BackupPlan | None = None
        self.files = self.bytes = 0
        self._progress = progress
        self._names = set[str]()
        self._name = ""
        self._left = self._announced = 0
        self._file: BinaryIO | None = None
        self._folders: dict[tuple[str, ...], int] = {(): _open_folder(str(folder))}
        """The open folders of the backup: the parts of each path, and the handle."""

    def __enter__(self) -> Receiver:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()
        while self._folders:
            os.close(self._folders.popitem()[1])

    def take(self, message: backup_pb2.BackupResponse) -> None:
        """Write the next message. Raises InvalidData if it does not fit the messages before it."""
        part = message.WhichOneof("part")
        if part == "plan":
            self._take_plan(message.plan)
        elif self.plan is None:
            raise _wrong("a message of a file before its plan")
        elif part == "file":
            self._begin(message.file, self.plan)
        elif part == "content":
            self._write(message.content, self.plan)
        else:
            raise _wrong("an empty message")

    def end(self) -> BackupResult:
        """Complete the last file and the backup. Raises InvalidData if files or bytes are missing."""
        if (plan := self.plan) is None:
            raise _wrong("no plan")
        self._complete()
        if (self.files, self.bytes) != (plan.files, plan.bytes):
            raise InvalidData(
                f"the backup ended after {self.files} of {counted(plan.files, 'file')} and {self.bytes:,} of"
                f" {plan.bytes:,} bytes; make it again"
            )
        if DATABASE not in self._names:
            raise _wrong(f"a backup without {DATABASE}")
        for handle in self._folders.values():
            os.fsync(handle)
        return BackupResult(str(self.folder), plan.sequence, plan.incarnation, plan.files, plan.bytes)

    def _take_plan(self, plan: backup_pb2.BackupPlan) -> None:
        if self.plan is not None:
            raise _wrong("a second plan")
        if plan.files < 1 or plan.bytes < 0:
            raise _wrong(f"a plan of {counted(plan.files, 'file')} and {counted(plan.bytes, 'byte')}")
        free = shutil.disk_usage(self.folder).free
        if plan.bytes > free:
            raise InvalidData(
                f"the backup has {plan.bytes:,} bytes, and the disk of {self.folder.parent} has room for {free:,}; name"
                " another place, or free some space"
            )
        self.plan = plan

    def _begin(self, file: backup_pb2.BackupFile, plan: backup_pb2.BackupPlan) -> None:
        self._complete()
        path = backup_path(file.name)
        if path is None:
            raise _wrong(f"a file named {file.name[:_SHOWN]!r}, which no backup has")
        if file.name in self._names:
            raise _wrong(f"the file {file.name!r} twice")
        if file.bytes < 0:
            raise _wrong(f"a file of {counted(file.bytes, 'byte')}, {file.name!r}")
        if len(self._names) >= plan.files:
            raise _wrong(f"more than the {counted(plan.files, 'file')} of its plan")
        self._announced += file.bytes
        if self._announced > plan.bytes:
            raise _wrong(f"more than the {counted(plan.bytes, 'byte')} of its plan")
        self._names.add(file.name)
        self._name = file.name
        self._left = file.bytes
        handle = os.open(path[-1], _NEW_FILE, 0o600, dir_fd=self._folder(path[:-1]))
        self._file = os.fdopen(handle, "wb")

    def _folder(self, parts: tuple[str, ...]) -> int:
        """Return the handle of a folder. The first file in it creates the folder."""
        if parts not in self._folders:
            above = self._folder(parts[:-1])
            os.mkdir(parts[-1], 0o700, dir_fd=above)
            self._folders[parts] = _open_folder(parts[-1], above)
        return self._folders[parts]

    def _write(self, content: bytes, plan: backup_pb2.BackupPlan) -> None:
        if self._file is None:
            raise _wrong("the content of no file")
        if len(content) > self._left:
            raise _wrong(f"more of {self._name!r} than it said")
        self._file.write(content)
        self._left -= len(content)
        self.bytes += len(content)
        self._progress(self._name, self.bytes, plan.bytes)

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

        The service goes on meanwhile. The result is a data directory; the first service that runs on it gives queries
        new IDs. `progress` is called with the name of the present file, the received bytes and all bytes. Raises
        FailedPrecondition if the service keeps nothing on disk, FileExistsError for an existing destination, and
        InvalidData for a file or a size that no backup has. After an error nothing is left. Memory: one message.
        """
        target = Path(destination)
        if target.exists():
            raise FileExistsError(f"{target} is there already; name a place that is not")
        folder = target.with_name(target.name + ".part")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700, parents=True)
        try:
            with Receiver(folder, progress or (lambda name, done, total: None)) as receiver:
                for message in self.connection.stream(
                    self.connection.backup.Backup, backup_pb2.BackupRequest(), timeout
                ):
                    receiver.take(message)
                result = receiver.end()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        folder.rename(target)
        _sync(target.parent)
        return replace(result, path=str(target))


def _wrong(problem: str) -> InvalidData:
    return InvalidData(f"the service sends {problem}; nothing is kept of it: is it PSoup, and of this version?")


def _open_folder(path: str, above: int | None = None) -> int:
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
