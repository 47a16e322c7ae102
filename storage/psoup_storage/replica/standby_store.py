"""The store of a standby: the events come from the copy of another service, and are stored as at the writer.

    next segment ─> rows ─> events ─> append, as if a command had made them ─> `applied` notes the place

    begin_promotion   the name of the promotion is noted ─> a fence with it takes the next free number
    next              … ─> the events before the fence ─> `News.fence`
    promote           the directory's mark is replaced ─> `append` takes events of commands, and copies them

A process that ends before `promote` leaves a standby. The next one finds the note, and `next` leads it to the fence.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, NamedTuple

from psoup.errors import FailedPrecondition, Internal
from psoup.events.events import Event, Pushed, WatermarksRaised
from psoup.invariants import ensure
from psoup_storage.durable.log.codec import Decoder
from psoup_storage.durable.sqlite.standby_mark import mark_promoted
from psoup_storage.replica.fences import Fence, Fences, read_fences
from psoup_storage.replica.followed_copy import FollowedCopy
from psoup_storage.replica.headers import MOST_PROMOTIONS
from psoup_storage.replica.objects import damaged
from psoup_storage.replica.old_objects import ReaderMark
from psoup_storage.replica.replicated_store import CopyingStore, Replication
from psoup_storage.replica.restore import last_object
from psoup_storage.replica.standby_directory import NOTE, PROMOTES, Place, first_place, prepare_standby
from psoup_storage.replica.takeover import take_over
from psoup_storage.replica.targets import open_target


class News(NamedTuple):
    """The events of the next object of the copy, which may be none. `place`: the object, and the time of the events.

    `fence`: the fence of this standby's promotion, once it has all events before it.
    """

    events: list[Event]
    place: Place
    fence: Fence | None = None


class StandbyStore(CopyingStore):
    """A store that follows the copy of a `replication`. Its directory is made of the copy if it is missing.

    Once the store is promoted, it makes the copy, with the limits of `replication`. Raises as `prepare_standby`,
    `DurableStore` and `Replication.check`, and Unavailable, reason COPY_UNREACHABLE.
    """

    follows = True

    def __init__(self, path: Path | str, replication: Replication, **options: Any) -> None:
        self.replication = replication
        replication.check()
        target = open_target(replication.place)
        prepare_standby(target, Path(path))
        super().__init__(path, **options)
        try:
            self.place = first_place(target, self.noted(NOTE), self.sequence)
            """The place in the copy up to which all events are stored."""
            fences = read_fences(target)
            self._reached = self._own(fences)
        except BaseException:
            super().close()
            raise
        self.time = self.place.time
        """The time of the last event that `next` has returned, in microseconds: NOW, also before it is applied."""
        epoch = fences.epoch_at(self.place.number)
        self._copy = FollowedCopy(target, self.place.number, self.sequence, self.time, epoch, self.incarnation)
        self._mark = ReaderMark(target)
        self._answers = False
        """Whether the last request for the next object was answered."""
        self._live: Decoder | None = None

    @property
    def copy(self) -> str:
        """The copy that is followed: a directory or a URL."""
        return self._copy.target.place

    def next(self) -> News | None:
        """The events of the next object, once all were `read`. None while it is not there. One thread at a time.

        Raises as `FollowedCopy.next`. The next start after a gap makes the directory
        anew.
        """
        if self._reached is not None:  # a process ended before it was promoted
            reached, self._reached = self._reached, None
            return News([], self.place, reached)
        self._answers = False
        try:
            segment = self._copy.next()
        except FailedPrecondition as problem:
            self.note(NOTE, self.place._replace(gap=problem.message).text(), sync=True)
            raise
        self._answers = True
        self._mark.renew(self.place.number + 1)
        if segment is None:
            return None
        for name, text in segment.notes.items():
            self.note(name, text, sync=True)
        if self._live is None:
            ensure(self._decoder is not None, self, "the events of the directory were not read")
            assert self._decoder is not None
            self._live = self._decoder.following()
        try:
            events = [self._live.decode(row) for row in segment.rows]
        except Internal as problem:
            raise damaged(self.copy, segment.number, problem.message.partition(";")[0]) from problem
        times = [event.time for event in events if isinstance(event, Pushed | WatermarksRaised)]
        self.time = max([segment.time, self.time, *times])
        fence = segment.fence
        if fence is not None and fence.writer != self.noted(PROMOTES):
            fence = None
        return News(events, Place(segment.number, self.time), fence)

    def applied(self, place: Place) -> None:
        """Note that all events up to a place are stored."""
        self.place = place
        self.note(NOTE, place.text())

    # Promotion -------------------------------------------------------------------------------------------------

    def newest(self) -> tuple[int, int]:
        """The number of the last object of the copy, and the last event that a restore reaches. Any thread.

        O(log of the objects that the standby lacks) requests. Raises Unavailable.
        """
        last = last_object(self._copy.target, near=self.place.number)
        return last.number, int(last.facts["reach"])

    def begin_promotion(self, id_range: int) -> int:
        """Write a fence for this standby: the older writer stops, and `next` leads to the fence. Any thread.

        Returns the number of the fence. A repeated call finds the fence of the one before, unless another service took
        over meanwhile. `id_range`: of the IDs that the data has; see `NextIds`. The promotion has a higher number.

        No call of `promote` may be under way. Raises FailedPrecondition after too many promotions, Internal if the
        promotion cannot be noted, and Unavailable. After Unavailable the fence may be there.
        """
        target, writer = self._copy.target, self.noted(PROMOTES)
        fences = read_fences(target)
        if writer and fences.last is not None and fences.last.writer == writer:
            return fences.last.number
        number = max(fences.promotion(self.incarnation), id_range) + 1
        if number > MOST_PROMOTIONS:
            raise FailedPrecondition(
                f"standbys of this service were promoted {number - 1} times, and IDs have no further ranges; restore"
                f" the copy instead: psoup restore {target.place} DIR --take-over",
                reason="PROMOTIONS",
            )
        writer = writer or secrets.token_hex(8)
        self.note(PROMOTES, writer, sync=True)
        if self.noted(PROMOTES) != writer:
            raise Internal(f"the promotion cannot be noted in {self.path}; see what room is left", reason="FAILED")
        return take_over(target, self.incarnation, writer, number, self.place.number)

    def leads(self) -> bool:
        """Whether the last fence of the copy is of this standby's promotion. Any thread. Raises Unavailable."""
        last = read_fences(self._copy.target).last
        return last is not None and last.writer == self.noted(PROMOTES)

    def promote(self, fence: Fence) -> None:
        """Write from now on, and copy to the copy that was followed. `fence`: of the `News`, whose events are stored.

        No call of `append` may be under way. Raises FailedPrecondition, reason COPY_FENCED, if another service took
        over meanwhile; then the store follows on. Raises Unavailable, and Internal if the disk fails.
        """
        target = self._copy.target
        read_fences(target).check(self.incarnation, target.place, fence.writer)
        uploader = self.made_uploader(target, self.replication, fence.writer)
        with self._database.transaction() as connection:
            mark_promoted(connection, fence.promotion, fence.writer)
        self.promotion, self.writer, self.follows = fence.promotion, fence.writer, False
        self.copy_by(uploader, self.replication)
        for name in (PROMOTES, NOTE):
            self.note(name, "", sync=True)
        self._mark.remove()

    def close(self) -> None:
        """Remove the mark of the standby, unless the storage is away, and close. Idempotent."""
        if self._answers:
            self._mark.remove()
        super().close()

    def _own(self, fences: Fences) -> Fence | None:
        """The fence of an earlier process that began to promote this standby. It is the last one, and all events
        before it are stored; else None.
        """
        last = fences.last
        if last is None or last.writer != self.noted(PROMOTES) or self.place.gap or self.place.number < last.number:
            return None
        return last
