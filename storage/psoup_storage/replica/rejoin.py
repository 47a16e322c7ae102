"""A directory whose copy was taken over becomes a standby. What storage does not have is kept beside it, in files.

    1  the copy as of the last event that counts is fetched, without chunks
    2  diverged/<fence>    rows and events of the tail, on the disk           see `tail` and `tail_files`
    3  the directory of a standby is made beside, and takes the place         see `standby_swap`

What the directory has beyond 1 is its tail. Until 2 is complete the old data stays, so a run that ends early is
repeated from the beginning. The directory is locked until the end.
"""

from __future__ import annotations

import shutil
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from psoup.errors import FailedPrecondition, InvalidInput
from psoup_storage.durable.directory import DATABASE, DataDirectory, refuse_other_owner
from psoup_storage.durable.tools.doctor import Progress
from psoup_storage.replica.chain import no_copy, owner_of
from psoup_storage.replica.fences import Fence, Fences, read_fences
from psoup_storage.replica.old_directory import OldDirectory
from psoup_storage.replica.restore import RestoredCopy, Wanted, restore_copy
from psoup_storage.replica.standby_directory import make_standby
from psoup_storage.replica.standby_swap import change, is_cut_off, locked, tidy
from psoup_storage.replica.tail import Tail
from psoup_storage.replica.tail_files import Diverged, Parting, read_diverged, working_folder, write_diverged
from psoup_storage.replica.targets import Target, open_target

_IMAGE = ".image"


class Rejoined(NamedTuple):
    """The result. `diverged`: the files of what the copy lacks; None if it lacks nothing.

    `before`: whether the directory was a standby before. Then an earlier run wrote the files.
    """

    diverged: Diverged | None
    before: bool = False


def rejoin(place: str | Target, directory: Path | str, progress: Progress = lambda *_: None) -> Rejoined:
    """Make a directory whose copy at `place` was taken over a standby of it; see the module. O(bytes of the copy).

    Raises InvalidInput for any other directory. Raises FailedPrecondition, reason COPY_NOT_FENCED, if nothing
    took the copy over from it, or COPY_OTHER_HISTORY, and as `restore_copy`. Then the old data is as it was.
    """
    target, path = open_target(place) if isinstance(place, str) else place, Path(directory)
    if is_cut_off(path):
        return _go_on(target, path, progress)
    if not (path / DATABASE).is_file():
        raise InvalidInput(f"{path} is not the data directory of a service: it has no file {DATABASE}")
    refuse_other_owner(path)
    with closing(DataDirectory(path, to_look=True)):
        fences = read_fences(target)
        with closing(OldDirectory(path)) as old:
            if old.standby_of and fences.knows(old.incarnation):
                tidy(path)
                return Rejoined(_files_before(path, fences), before=True)
            fence = _fence(target, fences, old)
            diverged = _write_tail(target, old, fence, progress) if old.last > fence.reach else None
        change(path, lambda new: make_standby(target, new, progress))
    return Rejoined(diverged)


def _go_on(target: Target, path: Path, progress: Progress) -> Rejoined:
    """Complete a run that was cut off after the old data was removed."""
    refuse_other_owner(path)
    with closing(locked(path)):
        change(path, lambda new: make_standby(target, new, progress))
    return Rejoined(_files_before(path, read_fences(target)))


def _files_before(path: Path, fences: Fences) -> Diverged | None:
    """The newest files of an earlier run."""
    return next(filter(None, [read_diverged(path, fence.number) for fence in reversed([*fences])]), None)


def _fence(target: Target, fences: Fences, old: OldDirectory) -> Fence:
    """The fence that stopped the service of a directory."""
    fence, owner = fences.against(old.writer), owner_of(target)
    if fence is not None and not old.standby_of:
        return fence
    if owner is None:
        raise no_copy(target)
    if not fences.knows(old.incarnation):
        raise InvalidInput(
            f"{old.path} has never written the copy at {target.place}: its incarnation is"
            f" {old.incarnation or 'not given yet, since it was restored and not served since'}, and the copy is of"
            f" {owner}; name the copy that it wrote",
            reason="COPY_OF_ANOTHER",
        )
    raise FailedPrecondition(
        f"no other service took over the copy at {target.place} from {old.path}, so it has nothing to rejoin; serve it:"
        f" psoup serve --data-dir {old.path} --replicate {target.place}",
        reason="COPY_NOT_FENCED",
    )


def _write_tail(target: Target, old: OldDirectory, fence: Fence, progress: Progress) -> Diverged:
    """Write what the directory has after the last event that counts."""
    folder = working_folder(old.path, fence.number)
    image = folder.with_name(f"{fence.number}{_IMAGE}")
    wanted = Wanted(fence.reach)
    parting = Parting(target.place, old.incarnation, fence.number, fence.time, fence.reach + 1, old.last)
    try:
        shutil.rmtree(image, ignore_errors=True)
        restore_copy(target, image, wanted, progress, finish=_leave, before=fence.number, chunks=False)
        with closing(OldDirectory(image)) as copied:
            return write_diverged(folder, parting, Tail(old, copied, fence.reach))
    finally:
        for path in (image, folder):
            shutil.rmtree(path, ignore_errors=True)
        with suppress(OSError):  # it has files
            folder.parent.rmdir()


def _leave(directory: Path, restored: RestoredCopy) -> None:
    """Leave a restored directory as it is: it is only read."""
