"""A data directory from a copy, as of its last event, of any other, or of a moment.

    newest base image that is old enough ─> files, checked ─> DIR
    segments after it, in order ─> rows up to the wanted one ─> DIR/psoup.db ─> marked as a copy (`backup.mark`)

The first start then replays these rows after the image, as a start after a crash does. It gives the directory a new
incarnation, as with a restored backup. Anything that is missing, torn, changed or out of order is refused by name.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

import apsw

from psoup.errors import Internal, InvalidInput, ResourceExhausted
from psoup.model import time_text
from psoup_proto.file_names import DATABASE, backup_path
from psoup_storage.contract import new_incarnation
from psoup_storage.durable.chunks.folder import FOLDER
from psoup_storage.durable.log import log
from psoup_storage.durable.log.access import note_issued
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.log.truncation import forget_stream
from psoup_storage.durable.sqlite.schema import is_readable, schema_of, unknown_format
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.structure import damaged_schema
from psoup_storage.durable.tools.backup import mark
from psoup_storage.durable.tools.doctor import Progress
from psoup_storage.formats.files import sync_directory, sync_file
from psoup_storage.replica.base_image import ImageFile, WrongFile, content_of
from psoup_storage.replica.chain import OWNER, check_removal, first_number, last_number, no_copy, owner_of, read_object
from psoup_storage.replica.fences import Fences, counting_object, read_fences
from psoup_storage.replica.notes import Notes, notes_in
from psoup_storage.replica.objects import BASE, EVENTS, FENCE, NumberedObject, damaged
from psoup_storage.replica.segments import CommittedRow, rows_of
from psoup_storage.replica.takeover import take_over
from psoup_storage.replica.targets import Target, open_target

_ANY = 2**63 - 1


class Wanted(NamedTuple):
    """The events to restore: those with a sequence of at most `sequence` that reached the disk at `time` or before."""

    sequence: int = _ANY
    time: int = _ANY

    def has(self, sequence: int, time: int) -> bool:
        """Whether an event, or an image as of it, is wanted."""
        return sequence <= self.sequence and time <= self.time


class RestoredCopy(NamedTuple):
    """The result of a restore: everything up to the event `sequence`.

    `missing`: why the copy's later events could not be restored, although they were wanted; "" if all were.
    `number`: the last object that is applied. `time`: when its last event reached the disk. `notes`: see `notes`.
    """

    sequence: int
    missing: str
    number: int
    time: int
    notes: Notes


Finish = Callable[[Path, RestoredCopy], None]
"""Completes a restored directory."""


def mark_restored(directory: Path, restored: RestoredCopy, heir: str = "") -> None:
    """Let the first start give the directory a new incarnation, which is `heir` if that is given."""
    mark(directory, heir)


def restore_copy(
    place: str | Target,
    directory: Path | str,
    wanted: Wanted | None = None,
    progress: Progress = lambda *_: None,
    *,
    takes_over: bool = False,
    finish: Finish | None = None,
    before: int = _ANY,
    chunks: bool = True,
) -> RestoredCopy:
    """Make a data directory of a copy. O(bytes of the image and of the segments after it), in bounded memory.

    `takes_over`: write a fence first, then restore all that the copy has. The directory may go on with the copy then,
    and the service that wrote it stops; see `fences`. `wanted` is ignored. `before`: as if the copy ended before the
    object of this number. `chunks`: whether to fetch the files of chunks, too; without them it cannot be served.

    Raises InvalidInput if the directory is not empty, or if there is no copy with the wanted event. Raises Internal,
    reason COPY_DAMAGED, for a damaged copy, Unavailable, and ResourceExhausted for a disk without room. The directory
    is as before then.
    """
    target, directory = open_target(place) if isinstance(place, str) else place, Path(directory)
    wanted = wanted or Wanted()
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise InvalidInput(f"{directory} is not empty; restore into a directory that is not there yet")
    last, heir = last_object(target, before), ""
    base = base_of(target, last, wanted)
    if takes_over:
        heir = new_incarnation()
        number = take_over(target, heir)
        last = counting_object(target, read_fences(target), number)
        wanted = Wanted(sequence=last.facts["reach"])
        base = base_of(target, last, wanted)
    existed = directory.exists()
    try:
        (directory / FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
        directory.chmod(0o700)
        _receive(target, base, directory, progress, chunks)
        restored = _Application(directory, target, base, wanted, read_fences(target)).apply(last.number)
        if wanted.sequence != _ANY and restored.sequence < wanted.sequence:
            why = restored.missing or f"its last event is {restored.sequence:,}"
            raise InvalidInput(
                f"{target.place} has no way to event {wanted.sequence:,}: {why}; psoup replica list {target.place}"
                " names the events that can be restored"
            )
        (finish or partial(mark_restored, heir=heir))(directory, restored)
        for folder in (directory / FOLDER, directory, directory.parent):
            sync_directory(folder)
        return restored
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        if existed:
            directory.mkdir(mode=0o700)
        raise


def is_copy(place: str) -> bool:
    """Whether a place is a copy of a service: object storage, or a directory that has one."""
    return "://" in place or (Path(place) / OWNER).exists()


def last_object(target: Target, before: int = _ANY, near: int = 0) -> NumberedObject:
    """The last object, with a number below `before`, that is not passed over. `near`: see `last_number`.

    Raises InvalidInput without a copy, Internal for a damaged one.
    """
    if owner_of(target) is None or not (number := last_number(target, near)):
        raise no_copy(target)
    return counting_object(target, read_fences(target), min(number, before - 1))


def base_images(target: Target, last: NumberedObject) -> Iterator[NumberedObject]:
    """The manifests of the base images up to an object that were not removed, the newest first."""
    number, first = last.base, first_number(target)
    while number >= first:
        base = last if number == last.number else read_object(target, number)
        if base.kind != BASE:
            raise damaged(target.place, number, "a later object calls it a manifest, and it has segments")
        yield base
        number = int(base.facts["base"])


def base_of(target: Target, last: NumberedObject, wanted: Wanted) -> NumberedObject:
    """The newest base image that has only wanted events. Raises InvalidInput if there is none."""
    oldest = None
    for base in base_images(target, last):
        if wanted.has(base.facts["sequence"], base.facts["time"]):
            return base
        oldest = base
    if oldest is None and last.base:
        raise InvalidInput(f"the base images of that time were removed from {target.place} (replicate_keep)")
    if oldest is None:
        raise InvalidInput(f"{target.place} has no base image yet, so nothing can be restored")
    sequence, time = oldest.facts["sequence"], time_text(oldest.facts["time"])
    raise InvalidInput(f"the oldest base image of {target.place} is of event {sequence:,}, {time}: name a later moment")


def image_files(base: NumberedObject, place: str) -> list[ImageFile]:
    """The files of a base image. Raises Internal for a name that no file of a backup has: it would become a path.

    Also for a list without a database, or with a name twice.
    """
    files = [ImageFile(*values) for values in base.facts["files"]]
    names = {file.name for file in files}
    if len(names) < len(files) or DATABASE not in names:
        raise damaged(place, base.number, f"its files have a name twice, or there is no {DATABASE}")
    for file in files:
        if backup_path(file.name) is None:
            raise damaged(place, base.number, f"it names the file {file.name[:80]!r}, which no backup has")
    return files


def _receive(target: Target, base: NumberedObject, directory: Path, progress: Progress, chunks: bool) -> None:
    files = [file for file in image_files(base, target.place) if chunks or file.name == DATABASE]
    if not is_readable(str(base.facts["format"])):
        raise unknown_format(Path(target.place), str(base.facts["format"]))
    done, total, free = 0, sum(file.content for file in files), shutil.disk_usage(directory).free
    if total > free:
        raise _no_room(directory, f"the base image needs {total:,} bytes, and {free:,} are free")
    for file in files:
        try:
            with open(directory / file.name, "xb") as output:
                for piece in content_of(target, file):
                    output.write(piece)
            if file.name != DATABASE:  # which is synced when it is complete
                sync_file(directory / file.name)
        except WrongFile as problem:
            check_removal(target, base.number)
            why = f"its file {file.name} ({file.object}) is missing, or has changed since it was written: {problem}"
            raise damaged(target.place, base.number, why) from problem
        except OSError as problem:
            raise _no_room(directory, problem.strerror or str(problem)) from problem
        done += file.content
        progress(f"copying {file.name}", done, total)


def _no_room(directory: Path, why: str) -> ResourceExhausted:
    return ResourceExhausted(f"{directory} cannot be written: {why}", reason="DISK_FULL")


class _Application:
    """The rows of segments, applied to the database of a base image."""

    def __init__(self, directory: Path, target: Target, base: NumberedObject, wanted: Wanted, fences: Fences) -> None:
        self._path, self._fences = directory / DATABASE, fences
        self._target, self._base, self._wanted = target, base, wanted
        self._sequence = int(base.facts["sequence"])
        self._number, self._time = int(base.facts["after"]), int(base.facts["time"])
        self._notes = notes_in(base.facts)

    def apply(self, last: int) -> RestoredCopy:
        """Apply the wanted rows of the segments up to the object `last`. The database is synced once, at the end."""
        try:
            with closing(apsw.Connection(str(self._path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
                self._check(connection)
                missing = self._apply_all(connection, last)
            sync_file(self._path)
        except (apsw.FullError, apsw.IOError, apsw.ReadOnlyError, OSError) as problem:
            raise _no_room(self._path.parent, str(problem)) from problem
        except (apsw.Error, UnicodeDecodeError) as problem:
            raise self._wrong_database(str(problem)) from problem
        return RestoredCopy(self._sequence, missing, self._number, self._time, self._notes)

    def _check(self, connection: apsw.Connection) -> None:
        """Raise Internal unless the database is the manifest's. Before that, no trigger or view of it may act."""
        settings = {"locking_mode": "EXCLUSIVE", "synchronous": "OFF", "trusted_schema": 0, "cell_size_check": 1}
        for name, value in settings.items():
            connection.pragma(name, value)
        register(connection)
        if (damage := damaged_schema(connection, schema_of(int(self._base.facts["format"])))) is not None:
            raise self._wrong_database(damage)
        last = connection.execute("SELECT ifnull(max(sequence), 0) FROM log").get
        if last != self._sequence:
            raise self._wrong_database(f"its last event is {last:,}, and the manifest says {self._sequence:,}")

    def _wrong_database(self, why: str) -> Internal:
        return damaged(self._target.place, self._base.number, f"its file {DATABASE} cannot be used: {why}")

    def _apply_all(self, connection: apsw.Connection, last: int) -> str:
        previous = ""
        for number in range(int(self._base.facts["after"]) + 1, last + 1):
            part = read_object(self._target, number)
            if self._fences.pass_over(part):
                previous, self._number = part.digest, number
                continue
            if previous and part.facts["previous"] != previous and part.kind != FENCE:
                raise damaged(self._target.place, number, "it does not follow the object before it")
            previous = part.digest
            if part.kind != EVENTS or self._fences.end_of(part) <= self._sequence:
                self._number = number
                continue
            first = part.facts["after"] + 1
            if not self._wanted.has(self._sequence + 1, 0):
                return ""
            if part.facts["after"] > self._sequence:
                return f"the events {self._sequence + 1:,} to {first - 1:,} were never copied one by one"
            if part.facts["format"] != self._base.facts["format"]:
                return f"from event {first:,} on they have another format, and no base image yet"
            rows = self._rows(part)
            wanted = [each.row for each in rows if self._wanted.has(each.row.sequence, each.committed)]
            with connection:
                missing = self._write(connection, wanted)
            if missing or len(wanted) < len(rows):
                return missing
            self._number, self._time = number, int(part.facts["time"])
            self._notes |= notes_in(part.facts)
        return ""

    def _rows(self, part: NumberedObject) -> list[CommittedRow]:
        """The rows of a segment that count, after the last one that was applied."""
        rows = rows_of(part, self._target.place)
        return [each for each in rows if self._sequence < each.row.sequence <= self._fences.end_of(part)]

    def _write(self, connection: apsw.Connection, rows: list[LogRow]) -> str:
        """Write rows to the log. Returns why the rows from some one on cannot be restored; else ""."""
        for row in rows:
            if row.kind == "attach":
                return f"event {row.sequence:,} attached history, which the next base image has; name a later moment"
            log.write(connection, [row])
            if row.kind == "token":
                note_issued(connection)
            elif row.kind == "drop":
                forget_stream(connection, row.stream)
            self._sequence = row.sequence
        return ""
