"""The objects of a copy that are written after a place, one after the other, while the writer goes on.

    41 events   42 events   43 base   44 events  …
       └─ applied  └─ next ───────────────┘   a base image has nothing that the segments before it do not have

The numbers decide the order. If events are missing before a segment, the copy cannot be followed any further: only a
newer base image has them.
"""

from __future__ import annotations

from typing import NamedTuple

from psoup.errors import FailedPrecondition
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.sqlite.schema import FORMAT
from psoup_storage.replica.notes import Notes, notes_in
from psoup_storage.replica.objects import EVENTS, FENCE, NumberedObject, damaged, object_name, unpack
from psoup_storage.replica.segments import rows_of
from psoup_storage.replica.targets import Target


class Segment(NamedTuple):
    """The rows of the next object, which may be none. `time`: when the last one reached the writer's disk.

    `number`: the number of the object. `notes`: the notes of the writer, if they have changed.
    """

    number: int
    rows: list[LogRow]
    time: int
    notes: Notes


class FollowedCopy:
    """The objects after the number `number`, for a directory whose last event is `sequence`. One thread at a time.

    `epoch`: of the writer that is followed. Objects of older writers are passed over.
    """

    def __init__(self, target: Target, number: int, sequence: int, time: int, epoch: int) -> None:
        self.target = target
        self._number, self._sequence, self._time, self._epoch = number, sequence, time, epoch
        self._previous = ""

    def next(self) -> Segment | None:
        """The next object's rows that are new. None while the writer has not written it.

        Raises Unavailable if the storage fails: the call may be repeated. Raises Internal, reason COPY_DAMAGED. Raises
        FailedPrecondition, reason COPY_GAP, if only a newer base image has the next events.
        """
        number = self._number + 1
        content = self.target.read(object_name(number))
        if content is None:
            return None
        part = unpack(number, content, self.target.place)
        if part.epoch > self._epoch:
            raise self._end("another service took it over; the next start follows that one")
        counts = part.epoch == self._epoch
        if counts and part.kind != FENCE and self._previous and part.facts["previous"] != self._previous:
            raise damaged(self.target.place, number, "it does not follow the object before it")
        new = counts and part.kind == EVENTS and part.facts["last"] > self._sequence
        rows = self._rows(part) if new else []
        self._number, self._previous = number, part.digest
        if rows:
            self._sequence, self._time = rows[-1].sequence, max(self._time, int(part.facts["time"]))
        return Segment(number, rows, self._time, notes_in(part.facts) if counts else {})

    def _rows(self, part: NumberedObject) -> list[LogRow]:
        if part.facts["after"] > self._sequence:
            raise self._gap(f"the events {self._sequence + 1:,} to {part.facts['after']:,} were not copied one by one")
        if part.facts["format"] != FORMAT:
            raise self._gap(f"from event {part.facts['first']:,} on they have the format {part.facts['format']}")
        rows = [each.row for each in rows_of(part, self.target.place) if each.row.sequence > self._sequence]
        attached = next((row.sequence for row in rows if row.kind == "attach"), None)
        if attached is not None:
            raise self._gap(f"event {attached:,} attached history, whose tuples are in the next base image")
        return rows

    def _gap(self, why: str) -> FailedPrecondition:
        return self._end(f"{why}; the next start takes a newer base image")

    def _end(self, why: str) -> FailedPrecondition:
        return FailedPrecondition(f"{self.target.place} cannot be followed any further: {why}", reason="COPY_GAP")
