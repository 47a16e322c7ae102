"""The data directory of a standby: made of the newest base image, and made anew where the copy has a gap.

    not there              restored, with the incarnation of the writer
    a standby's            kept, unless the last process noted that single events are missing after it
    a writer's, or of another copy    refused; `rejoin` takes one whose copy was taken over

Its data has nothing that the copy does not have. A promotion is noted before its fence is written. So a process that
ends meanwhile leaves a standby. The next process promotes it once it has reached the fence.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from psoup.errors import InvalidInput, Unavailable
from psoup_storage.durable.directory import DATABASE, LOCK, DataDirectory, Notes
from psoup_storage.durable.sqlite.seals import register
from psoup_storage.durable.sqlite.standby_mark import STANDBY, mark_standby, promotion_of
from psoup_storage.durable.tools.doctor import Progress
from psoup_storage.replica.chain import owner_of
from psoup_storage.replica.fences import read_fences
from psoup_storage.replica.restore import RestoredCopy, Wanted, base_images, base_of, last_object, restore_copy
from psoup_storage.replica.standby_swap import NEW, PART, change, is_cut_off, locked, tidy
from psoup_storage.replica.targets import Target

NOTE = "standby"
"""The name of the note with the `Place`."""
PROMOTES = "promotes"
"""The name of the note with the name of a promotion that may have a fence."""
_log = logging.getLogger(__name__)
T = TypeVar("T")


class Place(NamedTuple):
    """The place in the copy that a standby has reached: the last object, and the time of its last event, microseconds.

    `gap`: why the next events cannot be followed one by one; "" if they can.
    """

    number: int
    time: int
    gap: str = ""

    def text(self) -> str:
        """The note of the place."""
        return json.dumps(self._asdict())


def read_place(note: str) -> Place | None:
    """The place in a note. None if there is none, or if it cannot be read."""
    try:
        facts = json.loads(note)
        return Place(int(facts["number"]), int(facts["time"]), str(facts["gap"]))
    except (ValueError, KeyError, TypeError):
        return None


def prepare_standby(target: Target, path: Path, progress: Progress = lambda *_: None) -> None:
    """Make the directory of a standby of a copy, or check that it can go on.

    Raises InvalidInput for a standby of another copy, and as `restore_copy`. Raises Unavailable, reason COPY_GAP, if
    the copy has no base image yet from which the standby could begin again.
    """
    if is_cut_off(path):
        with closing(locked(path)):
            _make_again(target, path, "its last change was cut off", progress)
        return
    if not (path / DATABASE).is_file():
        _make_first(target, path, progress)
        return
    with closing(DataDirectory(path)):  # no other process may have it open
        facts = _facts(path)
        if facts is None:
            return
        tidy(path)
        incarnation, sequence = facts
        fences = read_fences(target)
        if not fences.knows(incarnation):
            raise InvalidInput(
                f"{path} is the directory of a standby of another service (incarnation {incarnation}; {target.place} is"
                f" the copy of {owner_of(target)}); name a directory that is not there yet as --data-dir",
                reason="COPY_OF_ANOTHER",
            )
        if incarnation != fences.writer(fences.epoch):
            _make_again(target, path, "another service took it over", progress)
        elif (place := read_place(Notes(path).read(NOTE))) is not None and place.gap:
            if _has_image(target, sequence):
                _make_again(target, path, place.gap, progress)
            elif fences.epoch <= place.number:  # else the missing events may count no more
                raise _no_image(target.place, place.gap)


def first_place(target: Target, note: str, sequence: int) -> Place:
    """The place from which a directory with the last event `sequence` is followed. `note`: the last note of it.

    Without a note, the place after the newest base image without a later event. Raises as `base_of`.
    """
    place = read_place(note)
    if place is not None:
        return place
    base = base_of(target, last_object(target), Wanted(sequence))
    return Place(int(base.facts["after"]), int(base.facts["time"]))


def was_promoted(path: Path) -> bool:
    """Whether a directory was a standby's and writes now. False for one that cannot be read, as its opening says.

    Raises InvalidInput, reason DATA_DIR_IN_USE.
    """
    if not (path / DATABASE).is_file():
        return False
    with closing(DataDirectory(path)):
        return bool(_looked(path, lambda connection: promotion_of(connection.execute)[0]))


def _facts(path: Path) -> tuple[str, int] | None:
    """The incarnation and the last event of a standby's directory. None for any other, which its opening refuses."""

    def read(connection: apsw.Connection) -> tuple[str, int] | None:
        if connection.execute("SELECT value FROM meta WHERE name = ?", (STANDBY,)).get is None:
            return None
        incarnation = str(connection.execute("SELECT value FROM meta WHERE name = 'incarnation'").get)
        return incarnation, int(connection.execute("SELECT ifnull(max(sequence), 0) FROM log").get)

    return _looked(path, read)


def _looked(path: Path, read: Callable[[apsw.Connection], T]) -> T | None:
    """The result of a look into the database of a directory; None if it is damaged. Its opening says so then."""
    log = int((path / f"{DATABASE}-wal").exists())
    try:
        connection = apsw.Connection(str(path / DATABASE), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, log)  # the opening examines the log
            register(connection)
            return read(connection)
        finally:
            connection.close()
    except apsw.Error:
        return None


def _has_image(target: Target, sequence: int) -> bool:
    """Whether the copy has a base image of a later event."""
    newest = next(base_images(target, last_object(target)), None)
    return newest is not None and newest.facts["sequence"] > sequence


def _no_image(place: str, gap: str) -> Unavailable:
    return Unavailable(
        f"{place} has no base image yet from which the standby could go on ({gap}); the writer makes one"
        " soon: start the standby again in a minute",
        reason="COPY_GAP",
    )


def _make_again(target: Target, path: Path, why: str, progress: Progress) -> None:
    _log.warning("the standby begins again with a newer base image", extra={"why": why})
    # A change that was cut off may have moved the note already.
    promotes = next(filter(None, (Notes(folder).read(PROMOTES) for folder in (path, path / NEW, path / PART))), "")

    def make(new: Path) -> None:
        make_standby(target, new, progress)
        if promotes:
            with closing(Notes(new)) as notes:
                notes.write(PROMOTES, promotes, sync=True)

    change(path, make)


def _make_first(target: Target, path: Path, progress: Progress) -> None:
    """Make a directory that is not there yet. Raises InvalidInput, reason DATA_DIR_IN_USE, if another process does."""
    existed = path.is_dir()
    if path.exists() and (not existed or any(entry.name != LOCK for entry in path.iterdir())):
        raise InvalidInput(f"{path} is not empty; name a directory that is not there yet as --data-dir")
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    with closing(locked(path)):
        if (path / DATABASE).is_file():  # another process has made it meanwhile
            return
        try:
            change(path, lambda new: make_standby(target, new, progress))
        except BaseException:
            if not existed:
                with suppress(OSError):  # the next start goes on
                    (path / LOCK).unlink()
                    path.rmdir()
            raise


def make_standby(target: Target, path: Path, progress: Progress = lambda *_: None) -> None:
    """Make the directory of a standby from the newest base image. Raises as `prepare_standby`."""
    fences = read_fences(target)  # a restore that begins later has all that counts before them

    def finish(directory: Path, restored: RestoredCopy) -> None:
        if read_fences(target).epoch != fences.epoch:
            raise Unavailable(f"{target.place} was taken over meanwhile; start the standby again", reason="COPY_GAP")
        number = restored.number if restored.missing else max(restored.number, fences.epoch)
        mark_standby(directory / DATABASE, target.place, str(fences.writer(fences.epoch_at(number))))
        notes = Notes(directory)
        for name, text in restored.notes.items():
            notes.write(name, text, sync=True)
        notes.write(NOTE, Place(number, restored.time, restored.missing).text(), sync=True)
        notes.close()

    restore_copy(target, path, progress=progress, finish=finish)
