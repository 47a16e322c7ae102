"""Removal of objects that no base image of the last days needs. The writer does it now and then, after a base image.

    1 base  2 …  57 base  58 …  99 base  100 …          57 is the newest image that is at least `replicate_keep` old
    └──── removed ─────┘└── every moment from 57 on can be restored

    1  first/57             says that all objects from there on are present; written before anything is removed
    2  files/<sha256>       that no manifest from 57 on names, and that are as old. An image that was not completed may
                            have left them. Files of a newer writer stay
    3  log/…                before 57, the oldest first. Fences stay, and before each the object that has its reach

The age of an image is the difference between two times of the storage: of its manifest, and of the newest one. So no
clock of a service can make it wrong.

**No file goes that an image names, or will name.** One thread makes images and removes objects, in turn. So a writer
never removes a file that it is sending. Another writer may take the copy over meanwhile, while this one does
not know it yet. The newer one only relies on files that the newest image before the fence names. The older one keeps
exactly these, because that is its own newest image. All other files get names with the new epoch, which the older
one does not know. So a request of the older one that arrives late does no harm, however late it is.

**A standby** says with `marks/<number>-<any>` from which object on it needs the copy. A mark counts for a day.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice

from psoup.errors import Internal, InvalidInput, Unavailable
from psoup_storage.replica.chain import first_name, first_number
from psoup_storage.replica.fences import read_fences
from psoup_storage.replica.objects import NumberedObject, number_in, object_name
from psoup_storage.replica.restore import base_images, image_files
from psoup_storage.replica.targets import Target

MARK_S = 86_400
"""Seconds for which the mark of a standby counts."""
RENEW_S = MARK_S / 8
"""Seconds between two marks of a standby."""
_SHARE = 8
"""Objects are removed this often in the time for which they are kept."""
_PART = 1_000
"""The objects that one request removes."""
_MICROS = 1_000_000
_MARKS = "marks/{:015d}"
_FILE = re.compile(r"files/[0-9a-f]{64}(?:-([0-9]{1,15}))?")
"""The name of a file, with the epoch of the writer that sent it."""
_log = logging.getLogger(__name__)


class OldObjects:
    """The removal of one writer; see the module. `keep_s`: infinite to remove nothing.

    `ended`: whether to give up, asked before each request that removes something.
    """

    def __init__(self, target: Target, keep_s: float, ended: Callable[[], bool]) -> None:
        self._target, self._keep_s, self._ended = target, keep_s, ended
        self._not_before = -math.inf

    @property
    def due(self) -> bool:
        """Whether to call `remove` after the next base image."""
        return math.isfinite(self._keep_s) and time.monotonic() >= self._not_before

    def remove(self, newest: NumberedObject) -> int:
        """Remove what no base image within the time needs. `newest`: the manifest of the newest base image.

        Returns the number of removed objects. O(objects to remove + manifests). Raises Unavailable, Internal.
        """
        self._not_before = time.monotonic() + self._keep_s / _SHARE
        target, now = self._target, self._target.time_of(object_name(newest.number))
        if now is None:
            return 0
        needed = self._marked(now)
        images = list[NumberedObject]()
        for image in base_images(target, newest):
            images.append(image)
            self._go_on()
            written = target.time_of(object_name(image.number))
            old = written is not None and now - written >= self._keep_s * _MICROS
            if old and image.facts["after"] < needed:
                break
        else:
            return 0
        named = {file.object for image in images for file in image_files(image, target.place)}
        return self._remove_before(int(images[-1].facts["after"]) + 1, self._files(named, newest.epoch, now))

    def _files(self, named: set[str], epoch: int, now: int) -> Iterable[str]:
        """The old files of writers up to an epoch that no image names."""
        for name, written in self._target.times_after("files/"):
            file = _FILE.fullmatch(name)
            if file is None or name in named or int(file[1] or 0) > epoch:
                continue
            if now - written >= self._keep_s * _MICROS:
                yield name

    def _marked(self, now: int) -> int:
        """The least number that a standby needs. Removes old marks."""
        marks = dict(self._target.times_after(_MARKS.format(0)))
        self._delete(name for name, written in marks.items() if now - written >= MARK_S * _MICROS)
        fresh = [name for name, written in marks.items() if now - written < MARK_S * _MICROS]
        return min((number_in(name.partition("-")[0]) or 1 for name in fresh), default=2**63 - 1)

    def _remove_before(self, first: int, files: Iterable[str]) -> int:
        """Remove the objects before the number `first`, and the `files`."""
        target, present = self._target, first_number(self._target)
        marks = list(target.names_after(first_name(0)))
        apart = {number for fence in read_fences(target) for number in range(fence.before, fence.number + 1)}
        numbers = [number for number in self._numbers() if number < first and number not in apart]
        if not marks:
            target.create(first_name(1), b"")
        target.create(first_name(first), b"")
        removed = self._delete(files) + self._delete(map(object_name, numbers))
        self._delete(name for name in target.names_after(first_name(0)) if name < first_name(max(first, present)))
        if removed:
            _log.info("old objects of the copy were removed", extra={"objects": removed, "first": first})
        return removed

    def _numbers(self) -> list[int]:
        return [number_in(name) or 2**63 for name in self._target.names_after(object_name(0))]

    def _go_on(self) -> None:
        if self._ended():
            raise Unavailable("the service ends")

    def _delete(self, names: Iterable[str]) -> int:
        """Remove objects, in parts. Returns their number. Raises Unavailable if the service ends."""
        left, count = iter(names), 0
        while part := list(islice(left, _PART)):
            self._go_on()
            self._target.delete(part)
            count += len(part)
        return count


class ReaderMark:
    """The mark of a standby: objects from a number on stay, although a writer removes old ones."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._name = ""
        self._next = -math.inf
        self._refused = False

    def remove(self) -> None:
        """Remove the mark, since the standby follows no more. Raises nothing. Idempotent."""
        name, self._name = self._name, ""
        if name:
            with suppress(Unavailable, Internal, InvalidInput):  # a mark that is left counts for a day only
                self._target.delete([name])

    def renew(self, number: int) -> None:
        """Say that objects from `number` on are needed, if the last mark is some hours old. Raises nothing."""
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + RENEW_S
        name, before = f"{_MARKS.format(number)}-{secrets.token_hex(8)}", self._name
        try:
            self._target.create(name, b"")
            self._name = name
            if before:
                self._target.delete([before])
        except (Unavailable, Internal) as problem:
            if not self._refused:
                why = {"why": problem.message}
                _log.warning("the mark of this standby cannot be written; the writer does not wait for it", extra=why)
            self._refused = True
