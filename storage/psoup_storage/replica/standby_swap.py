"""New data takes the place of the old in a data directory. A crash at any step leaves one of them whole.

    1  directory/standby.new    the new database, chunks and notes, whole; made as standby.part
    2  psoup.db is removed      from here on the directory counts as not made: only a standby's start goes on with it
    3  the rest of the old data is removed, and the new chunks and notes move up
    4  psoup.db moves up        from here on the directory is the new one

A start after a crash between 2 and 4 makes the new data again. If that fails, standby.new stays with its notes, and the
next start tries again.

What is not the data of a service stays: the audit log, `diverged`, what the doctor set aside, jobs that wait.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from psoup_storage.durable.chunks.covers import FOLDER as COVERS
from psoup_storage.durable.chunks.folder import FOLDER
from psoup_storage.durable.chunks.sidecars import FOLDER as FOLDS
from psoup_storage.durable.directory import DATABASE, DataDirectory
from psoup_storage.durable.directory import PREFIX as NOTE
from psoup_storage.durable.tools.backup import PREFIX as BACKUP
from psoup_storage.formats.files import sync_directory

NEW = "standby.new"
"""The folder of the new data."""
PART = "standby.part"
"""The folder in which the new data is made."""
_DATA = {f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal", FOLDER, COVERS, FOLDS}
_BEGINNINGS = (NOTE, BACKUP)
"""Data beside the database: these names, and those with these beginnings."""


def is_cut_off(directory: Path) -> bool:
    """Whether the change of a directory was cut off after its old database was removed."""
    return any((directory / name).is_dir() for name in (NEW, PART)) and not (directory / DATABASE).exists()


def tidy(directory: Path) -> None:
    """Remove what a change that was cut off has left in a locked directory."""
    for name in (NEW, PART):
        shutil.rmtree(directory / name, ignore_errors=True)


def locked(directory: Path) -> DataDirectory:
    """A directory whose change was cut off, locked. Raises as `DataDirectory`."""
    return DataDirectory(directory, beside=[entry.name for entry in directory.iterdir()])


def change(directory: Path, make: Callable[[Path], None]) -> None:
    """Replace the data of a locked directory. `make`: makes the new data in a folder that is not there, or raises.

    If `make` raises, the directory is as before. O(files) beside `make`. Raises OSError.
    """
    new, part = directory / NEW, directory / PART
    shutil.rmtree(part, ignore_errors=True)
    make(part)
    shutil.rmtree(new, ignore_errors=True)
    part.rename(new)
    sync_directory(directory)
    (directory / DATABASE).unlink(missing_ok=True)
    sync_directory(directory)
    for entry in list(directory.iterdir()):
        if _is_data(entry.name):
            _remove(entry)
    for entry in list(new.iterdir()):
        if entry.name != DATABASE:
            entry.rename(directory / entry.name)
    sync_directory(directory)
    (new / DATABASE).rename(directory / DATABASE)
    sync_directory(directory)
    shutil.rmtree(new)


def _is_data(name: str) -> bool:
    return name in _DATA or name.startswith(_BEGINNINGS)


def _remove(entry: Path) -> None:
    if entry.is_dir() and not entry.is_symlink():
        shutil.rmtree(entry)
    else:
        entry.unlink()
