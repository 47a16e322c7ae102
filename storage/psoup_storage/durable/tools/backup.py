"""A copy of a data directory as of one event, made while the service runs.

    freeze     backup-7f3a/psoup.db    copied page by page between transactions (SQLite's backup copies changed pages
                                       again), marked as a copy
               backup-7f3a/chunks/     links to the chunks of its manifest, made with the last page
    restore    a copy of such a directory elsewhere, marked likewise

The first service that opens a marked directory gives it a new incarnation. Otherwise two copies with different events
would know the same IDs. The next start removes a folder `backup-…` that a crash left.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from psoup.errors import Internal, InvalidInput
from psoup_proto.file_names import backup_path
from psoup_storage.durable.chunks.folder import FOLDER
from psoup_storage.durable.directory import DATABASE, DataDirectory
from psoup_storage.durable.sqlite.database import Database
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.whole_copy import MARK
from psoup_storage.durable.tools.doctor import Progress, examine
from psoup_storage.formats.files import second_name, sync_directory
from psoup_storage.formats.matches import SUFFIX

PREFIX = "backup-"
_PIECE = 1024 * 1024


class Frozen:
    """A copy of a data directory as of the event `sequence`, until `close`. `files`: (path in the copy, bytes)."""

    def __init__(self, path: Path, sequence: int, incarnation: str) -> None:
        self.path = path
        self.sequence = sequence
        self.incarnation = incarnation
        files = sorted(file for file in path.rglob("*") if file.is_file())
        self.size = sum(file.stat().st_size for file in files)
        """Bytes of all files."""
        self.files = [(file.relative_to(path).as_posix(), file.stat().st_size) for file in files]

    def read(self, name: str) -> Iterator[bytes]:
        """The content of a file, in pieces."""
        with open(self.path / name, "rb") as file:
            while piece := file.read(_PIECE):
                yield piece

    def close(self) -> None:
        """Remove the copy; idempotent."""
        shutil.rmtree(self.path, ignore_errors=True)


def freeze(directory: DataDirectory, database: Database) -> Frozen:
    """Copy the database and link the chunks. O(database); takes turns with transactions, some pages at a time.

    Raises Internal, reason BACKUP_FAILED, if the copy cannot be written. The directory stays as it is.
    """
    path = directory.path / f"{PREFIX}{secrets.token_hex(4)}"
    (path / FOLDER).mkdir(mode=0o700, parents=True)
    path.chmod(0o700)

    def link() -> None:
        for (file,) in database.query("SELECT file FROM chunks WHERE file <> ''"):
            second_name(directory.path / FOLDER / file, path / FOLDER / file)
            if (directory.path / FOLDER / (file + SUFFIX)).exists():
                second_name(directory.path / FOLDER / (file + SUFFIX), path / FOLDER / (file + SUFFIX))

    try:
        directory.make_file(path / DATABASE)
        database.copy(path / DATABASE, link)
        sequence, incarnation = mark(path)
        return Frozen(path, sequence, incarnation)
    except BaseException as problem:
        shutil.rmtree(path, ignore_errors=True)
        if isinstance(problem, apsw.Error | OSError):
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise Internal(f"the backup could not be made: {why}", reason="BACKUP_FAILED") from problem
        raise


def mark(path: Path, heir: str = "") -> tuple[int, str]:
    """Mark the database of a copy; returns its last event and the incarnation it was copied from.

    `heir`: the incarnation that the first start has to give it; "" for a new one.
    """
    connection = apsw.Connection(str(path / DATABASE), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        for name, value in (("locking_mode", "EXCLUSIVE"), ("synchronous", "FULL")):
            connection.pragma(name, value)
        register(connection)
        sequence = int(connection.execute("SELECT ifnull(max(sequence), 0) FROM log").get)
        incarnation = str(connection.execute("SELECT value FROM meta WHERE name = 'incarnation'").get)
        facts = json.dumps({"incarnation": incarnation, "sequence": sequence, "time": time.time_ns() // 1_000})
        connection.execute("INSERT OR IGNORE INTO meta (name, value) VALUES (?, ?)", (MARK, facts))
        if heir:
            connection.execute("UPDATE meta SET value = json_set(value, '$.heir', ?) WHERE name = ?", (heir, MARK))
        return sequence, incarnation
    finally:
        connection.close()


def restore(source: Path | str, target: Path | str, progress: Progress = lambda name, done, total: None) -> int:
    """Copy a backup, or any data directory that no service runs on, to `target`; returns its last event.

    Raises InvalidInput if the source is damaged or not a data directory, or the target is not empty. O(bytes).
    """
    source, target = Path(source), Path(target)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InvalidInput(f"{target} is not empty; restore into a directory that is not there yet")
    report = examine(source, progress=lambda name, done, total: progress(f"examining {name}", done, 2 * total))
    if not report.well:
        first = report.wrong[0]
        raise InvalidInput(
            f"{source} is damaged: {first.place}: {first.what}; see psoup doctor {source}, and restore another backup"
        )
    files = _files(source)
    total, copied = report.figures["bytes"], 0
    (target / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
    target.chmod(0o700)
    for file in files:
        _copy(file, target / file.relative_to(source))
        copied += file.stat().st_size
        progress(f"copying {file.name}", total + copied, 2 * total)
    sequence, _ = mark(target)
    for folder in (target / FOLDER, target, target.parent):
        sync_directory(folder)
    return sequence


def _files(source: Path) -> list[Path]:
    """The files of a backup that have valid names, and the write-ahead log of a data directory.

    Raises InvalidInput for a link: the file that it leads to is not a part of the backup.
    """
    folder = source / FOLDER
    chunks = sorted(folder.iterdir()) if folder.is_dir() else []
    files = [file for file in chunks if backup_path(f"{FOLDER}/{file.name}")]
    files += [file for file in (source / DATABASE, source / f"{DATABASE}-wal") if os.path.lexists(file)]
    for file in files:
        if file.is_symlink():
            raise InvalidInput(f"{file} is a link, not a file of a backup; put the file itself there")
    return files


def _copy(source: Path, target: Path) -> None:
    """Copy a file that is not a link. Raises OSError."""
    content_handle = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(content_handle, "rb") as content, open(handle, "wb") as file:
        shutil.copyfileobj(content, file, _PIECE)
        file.flush()
        os.fsync(file.fileno())
