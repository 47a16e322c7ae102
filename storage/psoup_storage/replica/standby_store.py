"""The store of a standby: the events come from the copy of another service, and are stored as at the writer.

next segment ─> rows ─> events ─> append, as if a command had made them ─> `applied` notes the place
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from psoup.errors import FailedPrecondition, Internal
from psoup.events.events import Event, Pushed, WatermarksRaised
from psoup.invariants import ensure
from psoup_storage.durable.log.codec import Decoder
from psoup_storage.durable.store import DurableStore
from psoup_storage.replica.fences import read_fences
from psoup_storage.replica.followed_copy import FollowedCopy
from psoup_storage.replica.objects import damaged
from psoup_storage.replica.standby_directory import NOTE, Place, first_place, prepare_standby
from psoup_storage.replica.targets import open_target


class News(NamedTuple):
    """The events of the next object of the copy, which may be none. `place`: the object, and the time of the events."""

    events: list[Event]
    place: Place


class StandbyStore(DurableStore):
    """A store that follows the copy at `place`. Its directory is made of the copy if it is missing.

    Raises as `prepare_standby` and `DurableStore`, and Unavailable, reason COPY_UNREACHABLE.
    """

    follows = True

    def __init__(self, path: Path | str, place: str, **options: Any) -> None:
        target = open_target(place)
        prepare_standby(target, Path(path))
        super().__init__(path, **options)
        try:
            self.place = first_place(target, self.noted(NOTE), self.sequence)
            epoch = read_fences(target).epoch_at(self.place.number)
            """The place in the copy up to which all events are stored."""
        except BaseException:
            super().close()
            raise
        self.time = self.place.time
        """The time of the last event that `next` has returned, in microseconds: NOW, also before it is applied."""
        self._copy = FollowedCopy(target, self.place.number, self.sequence, self.time, epoch)
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
        try:
            segment = self._copy.next()
        except FailedPrecondition as problem:
            self.note(NOTE, self.place._replace(gap=problem.message).text(), sync=True)
            raise
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
        return News(events, Place(segment.number, self.time))

    def applied(self, place: Place) -> None:
        """Note that all events up to a place are stored."""
        self.place = place
        self.note(NOTE, place.text())
