"""The thread that writes segments and base images to a copy, in the order of their numbers.

    committer   put ──> queue ──> uploader   encode, compress ──create 42──> target
                                     │  base image is due
                                     └────> imager   freeze, send files ──list──> uploader ──create 43──> target

A number is written only if it is free. If it is taken, the content decides. The same bytes are this writer's, whose
reply was lost. Other bytes are another writer's, and this one stops for good. If that writer took the copy over, this
one is fenced, and calls `stop`. It passes over an object of an older epoch. After an error of the storage the same
bytes are written again under the same number.

A base image is due at a start whose last event the copy does not have. It is due after the queue has dropped events,
and after history was attached, because its tuples are in files. After events it is due every `base_s` seconds.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Protocol, TypeVar

from psoup.errors import FailedPrecondition, Internal, PSoupError, ResourceExhausted, Unavailable
from psoup_storage.durable.log.codec import encode
from psoup_storage.durable.sqlite.schema import FORMAT
from psoup_storage.durable.tools.backup import Frozen
from psoup_storage.replica.base_image import send_files
from psoup_storage.replica.chain import claim, last_number, read_object
from psoup_storage.replica.event_queue import EventGroup, EventQueue
from psoup_storage.replica.fences import COPY_FENCED, counting_object, fenced, read_fences
from psoup_storage.replica.notes import Notes
from psoup_storage.replica.objects import BASE, EVENTS, NumberedObject, digest_of_content, object_name, pack
from psoup_storage.replica.old_objects import OldObjects
from psoup_storage.replica.restore import image_files
from psoup_storage.replica.segments import CommittedRow, encode_rows
from psoup_storage.replica.targets import Target

FIRST_PAUSE_S = 0.5
MOST_PAUSE_S = 30.0
CLOSE_S = 10.0
"""Seconds for which `close` waits until the copy has the last events."""
LOOK_S = 0.25
"""Seconds between two looks whether a base image is due or ready."""
LAST_LOOK_S = 0.02
"""The same after `close`."""
FENCE_LOOK_S = 10.0
"""Seconds without a write after which the uploader looks whether another writer took the next number."""
_log = logging.getLogger(__name__)
Result = TypeVar("Result")


class Ask(Protocol):
    """Makes a request to the storage, and returns its result."""

    def __call__(self, request: Callable[[], Result], /) -> Result:
        """See the class."""
        ...


def at_once(request: Callable[[], Result]) -> Result:
    """An `Ask` that makes a request once."""
    return request()


class _Ended(Exception):
    """The uploader must end although a write has not succeeded."""


class Uploader:
    """Copies the events of one data directory; see the module.

    `freeze`: makes a copy of the directory. `last`: the directory's last event. `now`: the time in microseconds.
    `notes`: the directory's notes that belong to a copy.
    """

    def __init__(
        self,
        target: Target,
        incarnation: str,
        freeze: Callable[[], Frozen],
        last: Callable[[], int],
        now: Callable[[], int],
        notes: Callable[[], Notes],
        *,
        queue_bytes: int,
        base_s: float,
        remote: bool = False,
        keep_s: float = math.inf,
        writer: str = "",
    ) -> None:
        """`remote`: acknowledgements wait for the copy, so an error that ends the copy stops the service.

        `keep_s`: see `OldObjects`. `writer`: the name of the promotion after which the directory writes; "" if it was
        no standby.
        """
        self.target = target
        self.queue = EventQueue(queue_bytes, now, at_once=remote)
        self._remote = remote
        self._progress = threading.Condition()
        self.reach = -1
        """The last event that a restore from the copy reaches."""
        self.failure = ""
        """The reason why nothing is copied any more; "" while it is."""
        self.trouble = ""
        """The reason why the last request failed; "" once one has succeeded."""
        self._incarnation, self._writer = incarnation, writer
        self.last_event = last
        self._freeze, self._now = freeze, now
        self._notes, self._noted = notes, Notes()
        """The notes of the directory, and those that a segment of this process has."""
        self._base_s = base_s
        self.stop: Callable[[str], None] = lambda reason: None
        """Called once with the reason if another service took the copy over, or if acknowledgements would never come.
        The service then has to end.
        """
        self._thread = threading.Thread(target=self._copy, name="psoup-replica", daemon=True)
        self._imager = ThreadPoolExecutor(1, "psoup-base-image")
        self._imaging: Future[dict[str, Any]] | None = None
        self._ending = threading.Event()
        self._old_objects = OldObjects(target, keep_s, self._ending.is_set)
        self._number, self._previous = 0, ""
        """The number and the checksum of the last object."""
        self._epoch = 0
        self._base, self._reach = 0, -1
        """The facts of the next header; see `objects`."""
        self._base_at = -1
        """The last event of the newest base image; -1 without one."""
        self._run: tuple[int, int] | None = None
        """The events (after, last) that the last segments have without a gap; None before the first segment."""
        self._due = True
        self._opened = False
        self._looked = time.monotonic()
        """When the uploader wrote, or looked whether the next number is free."""
        self._next_base = self._not_before = 0.0
        """When a base image is made at the latest if there were events, and when at the earliest; monotonic."""

    def check(self) -> None:
        """Make the target the copy of this directory, and find its last object. Call it before `start`.

        Raises as `claim` and `read_object`, and FailedPrecondition, reason COPY_AHEAD, if the copy has later events
        than the directory. If the storage is away, the thread asks it again.
        """
        try:
            self._open(at_once)
        except Unavailable as problem:
            _log.warning("the copy cannot be reached at the start; it is tried again", extra={"why": problem.message})

    def start(self) -> None:
        """Begin to copy. Idempotent; a no-op after `close`."""
        if not self._thread.is_alive() and not self.queue.closed:
            self._thread.start()

    def close(self) -> None:
        """Copy the last events, for `CLOSE_S` at most, and end. Idempotent."""
        self.queue.close()
        if self._thread.is_alive():
            self._thread.join(CLOSE_S)
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join()
        self._imager.shutdown(cancel_futures=True)

    def lag(self) -> tuple[int, float]:
        """The events that the copy does not have yet, and the seconds since the oldest of them. Any thread."""
        behind = self.queue.behind()
        return (0, 0.0) if behind is None else (max(0, self.last_event() - behind[0]), behind[1])

    def reached(self, sequence: int, seconds: float) -> bool:
        """Whether a restore from the copy reaches an event. Waits for it for up to `seconds`. Any thread."""
        with self._progress:
            return self._progress.wait_for(lambda: self.reach >= sequence, seconds)

    @property
    def numbers(self) -> int:
        """The number of the last object. Any thread."""
        return self._number

    # The thread ------------------------------------------------------------------------------------------------

    def _copy(self) -> None:
        try:
            if not self._opened:
                self._open(self._insist)
            while True:
                groups = self.queue.take(LOOK_S)
                if groups:
                    self._send(groups)
                elif self.queue.closed and (not (self._due or self._imaging) or self._ending.wait(LAST_LOOK_S)):
                    return
                self._look_after_image()
                self._look_for_fence()
        except _Ended:
            _log.warning("the copy lacks the last events", extra={"events": self.lag()[0], "why": self.trouble})
        except Exception as problem:
            self.failure = (
                problem.message if isinstance(problem, PSoupError) else f"{type(problem).__name__}: {problem}"
            )
            trace = None if isinstance(problem, FailedPrecondition) else problem  # the code expects another writer
            said = {"copy": self.target.place, "why": self.failure}
            _log.error("events are not copied any more", extra=said, exc_info=trace)
            if self._remote or (isinstance(problem, PSoupError) and problem.reason == COPY_FENCED):
                self.stop(self.failure)

    def _open(self, ask: Ask) -> None:
        """Make the target the copy of this directory, and go on after the last object of an earlier process.

        There is a base image at once unless the copy has all events.
        """
        fences = ask(lambda: read_fences(self.target))
        fences.check(self._incarnation, self.target.place, self._writer)
        ask(lambda: claim(self.target, self._incarnation, "" if fences.last is None else fences.last.incarnation))
        number = ask(lambda: last_number(self.target, fences.epoch))  # no fence is ever removed
        self._epoch = fences.epoch
        if number:
            newest = ask(lambda: read_object(self.target, number))
            last = ask(lambda: counting_object(self.target, fences, number))
            if newest.epoch > self._epoch:  # a fence that was written since the list was read
                return self._open(ask)
            last_stored = self.queue.after(self.last_event())
            copied = fences.end_of(last) if last.kind == EVENTS else 0
            self._refuse_ahead(max(last.facts["reach"], copied), last_stored)
            base = last if last.base in (0, last.number) else ask(lambda: read_object(self.target, last.base))
            self._base_at = base.facts.get("sequence", -1)
            self._number, self._previous = number, newest.digest
            self._base, self._reach = last.base, last.facts["reach"]
            self._due = not self._base or self._reach != last_stored or last.facts["format"] != FORMAT
            self._due |= last.epoch < self._epoch and not self._writer  # after a promotion the older image leads on
            self.queue.begin_at(int(last.facts["time"]))
        self._next_base = time.monotonic() + self._base_s
        self._opened = True
        self._tell_reach()

    def _refuse_ahead(self, copied: int, stored: int) -> None:
        if copied > stored:
            raise FailedPrecondition(
                f"{self.target.place} has events up to {copied:,}, and this data directory only up to {stored:,}:"
                " another service went on from a copy of the directory, or an older state of it was put back; restore"
                " the copy (psoup restore), or name an empty prefix",
                reason="COPY_AHEAD",
            )

    def _send(self, groups: list[EventGroup]) -> None:
        """Write the segment of some groups."""
        rows = [CommittedRow(encode(event), group.committed) for group in groups for event in group.events]
        after, last = groups[0].after, rows[-1].row.sequence
        attach = next((each.row.sequence for each in rows if each.row.kind == "attach"), None)
        start = after if attach is None else last
        self._run = (self._run[0], last) if self._run is not None and self._run[1] == start else (start, last)
        reached = bool(self._base) and after <= self._reach
        if reached:
            self._reach = max(self._reach, last if attach is None else attach - 1)
        self._due |= not reached or attach is not None
        facts: dict[str, Any] = {"format": FORMAT, "after": after, "first": rows[0].row.sequence, "last": last}
        if (notes := self._notes()) != self._noted:
            facts |= {"notes": notes}
        self._write(EVENTS, facts | {"time": groups[-1].committed}, encode_rows(rows))
        self._noted = notes
        self.queue.sent()

    def _look_after_image(self) -> None:
        """Begin a base image that is due, and write the manifest of one whose files are sent."""
        if self._imaging is None:
            now = time.monotonic()
            late = now >= self._next_base and self.last_event() > self._base_at
            if (self._due or late) and now >= self._not_before:
                self._due = False
                self._imaging = self._imager.submit(self._image, self._number)
        elif self._imaging.done():
            imaging, self._imaging = self._imaging, None
            try:
                self._write_manifest(imaging.result())
            except (Unavailable, Internal, ResourceExhausted, OSError) as problem:
                self._due, self._not_before = True, time.monotonic() + MOST_PAUSE_S
                _log.warning("a base image could not be made; it is tried again", extra={"why": str(problem)})

    def _image(self, after: int) -> dict[str, Any]:
        """Make a base image, and send its files. `after`: the number of the last object before. The imager's thread."""
        frozen = self._freeze()
        try:
            facts = {"format": FORMAT, "sequence": frozen.sequence, "time": self.queue.moment(), "after": after}
            before = image_files(read_object(self.target, self._base), self.target.place) if self._base else []
            files = send_files(self.target, frozen, self._ending.is_set, self._epoch, before)
            return facts | {"notes": self._notes(), "files": files}
        finally:
            frozen.close()

    def _remove_old(self, newest: int) -> None:
        """Remove objects that are needed no more. `newest`: the number of the last manifest. The imager's thread."""
        try:
            self._old_objects.remove(read_object(self.target, newest))
        except (Unavailable, Internal) as problem:
            if not self._ending.is_set():
                _log.warning("old objects of the copy could not be removed", extra={"why": problem.message})

    def _write_manifest(self, facts: dict[str, Any]) -> None:
        sequence = facts["sequence"]
        if self._run is None or self._run[0] <= sequence:
            self._reach = sequence if self._run is None else max(sequence, self._run[1])
        else:  # after the image was made, events were dropped, or history was attached
            self._due = True
            if self._reach > sequence:  # so a restore reaches more without this image
                return
            self._reach = sequence
        self._write(BASE, facts)
        self._base, self._base_at = self._number, sequence
        self.queue.covered(sequence)
        self._next_base = time.monotonic() + self._base_s
        if self._old_objects.due:
            self._imager.submit(self._remove_old, self._base)

    def _write(self, kind: str, facts: dict[str, Any], payload: bytes = b"") -> None:
        """Write the next number, if it is free or has the same bytes. Raises FailedPrecondition if it is taken."""
        header = {"kind": kind, "incarnation": self._incarnation, "epoch": self._epoch}
        header |= {"base": self._base, "reach": self._reach} | facts
        while True:
            number = self._number + 1
            content = pack({"number": number, "previous": self._previous} | header, payload)
            digest, name = digest_of_content(content), object_name(number)
            if self._insist(partial(self.target.create, name, content)):
                break
            other = self._insist(partial(read_object, self.target, number))
            if other.digest == digest:  # the reply was lost
                break
            if other.epoch >= self._epoch:
                raise self._taken(other)
            self._number, self._previous = number, other.digest
        self._number, self._previous, self._looked = number, digest, time.monotonic()
        self._tell_reach()

    def _tell_reach(self) -> None:
        with self._progress:
            self.reach = self._reach
            self._progress.notify_all()

    def _look_for_fence(self) -> None:
        """Look, now and then, whether another writer took the next number: a fenced service must not go on to serve."""
        if time.monotonic() - self._looked >= FENCE_LOOK_S:
            number = self._number + 1
            if self._insist(lambda: self.target.has(object_name(number))):
                other = self._insist(lambda: read_object(self.target, number))
                if other.epoch >= self._epoch:
                    raise self._taken(other)
            self._looked = time.monotonic()

    def _taken(self, other: NumberedObject) -> FailedPrecondition:
        """The error for a number that another writer took."""
        if other.epoch > self._epoch:
            fence = self._insist(lambda: read_object(self.target, other.epoch))
            return fenced(self.target.place, fence.number, fence.facts["time"])
        return FailedPrecondition(
            f"{self.target.place}/{object_name(other.number)} is taken by another writer, and this one has stopped"
            " copying: two services run on copies of one data directory; give one of them another prefix",
            reason="COPY_TAKEN",
        )

    def _insist(self, request: Callable[[], Result]) -> Result:
        """The result of a request to the storage, which is tried again until it succeeds. Raises `_Ended`."""
        pause = FIRST_PAUSE_S
        while True:
            try:
                result = request()
            except Unavailable as problem:
                if not self.trouble:
                    _log.warning("the copy cannot be reached; it is tried again", extra={"why": problem.message})
                self.trouble = problem.message
            else:
                if self.trouble:
                    _log.warning("the copy can be reached again")
                    self.trouble = ""
                return result
            if self._ending.wait(pause):
                raise _Ended
            pause = min(2 * pause, MOST_PAUSE_S)
