"""The objects of a copy that are written after a place, one after the other, while the writer goes on.

    41 events   42 events   43 base   44 events  …
       └─ applied  └─ next ───────────────┘   a base image has nothing that the segments before it do not have

The numbers decide the order. If events are missing before a segment, the copy cannot be followed any further: only a
newer base image has them. If a fence comes after that segment, the events may count no more. Then they are left out.

A promotion goes on with the same data, so its fence is followed. After any other takeover the directory is made anew.
"""

from __future__ import annotations

import math
import time
from typing import NamedTuple

from psoup.errors import FailedPrecondition
from psoup_storage.durable.log.rows import LogRow
from psoup_storage.durable.sqlite.schema import FORMAT
from psoup_storage.replica.chain import first_number
from psoup_storage.replica.fences import Fence, read_fences
from psoup_storage.replica.notes import Notes, notes_in
from psoup_storage.replica.objects import EVENTS, FENCE, NumberedObject, damaged, object_name, unpack
from psoup_storage.replica.segments import rows_of
from psoup_storage.replica.targets import Target

REMOVAL_LOOK_S = 60.0
"""Seconds between two looks whether the next object was removed."""


class Segment(NamedTuple):
    """The rows of the next object, which may be none. `time`: when the last one reached the writer's disk.

    `number`: the number of the object. `notes`: the notes of the writer, if they have changed. `fence`: the fence of a
    promotion, if the object is one and no takeover came later.
    """

    number: int
    rows: list[LogRow]
    time: int
    notes: Notes
    fence: Fence | None = None


class FollowedCopy:
    """The objects after the number `number`, for a directory whose last event is `sequence`. One thread at a time.

    `epoch`: of the writer that is followed. Objects of older writers are passed over. `incarnation`: of the directory.
    """

    def __init__(self, target: Target, number: int, sequence: int, time: int, epoch: int, incarnation: str) -> None:
        self.target, self._incarnation = target, incarnation
        self._number, self._sequence, self._time, self._epoch = number, sequence, time, epoch
        self._previous = ""
        self._looked = -math.inf

    def next(self) -> Segment | None:
        """The next object's rows that are new. None while the writer has not written it.

        Raises Unavailable if the storage fails: the call may be repeated. Raises Internal, reason COPY_DAMAGED. Raises
        FailedPrecondition, reason COPY_GAP, if only a newer base image has the next events.
        """
        number = self._number + 1
        content = self.target.read(object_name(number))
        if content is None:
            self._look_for_removal()
            return None
        part = unpack(number, content, self.target.place)
        fence = self._fence(part) if part.epoch > self._epoch else None
        counts = part.epoch == self._epoch
        if counts and part.kind != FENCE and self._previous and part.facts["previous"] != self._previous:
            raise damaged(self.target.place, number, "it does not follow the object before it")
        new = counts and part.kind == EVENTS and part.facts["last"] > self._sequence
        rows = self._rows(part) if new else []
        self._number, self._previous = number, part.digest
        if rows:
            self._sequence, self._time = rows[-1].sequence, max(self._time, int(part.facts["time"]))
        return Segment(number, rows, self._time, notes_in(part.facts) if counts else {}, fence)

    def _fence(self, part: NumberedObject) -> Fence | None:
        """Go on with the writer of a newer epoch. Returns its fence if it is the last one.

        Raises FailedPrecondition, reason COPY_GAP, if that writer has other data or more of it.
        """
        fences = read_fences(self.target)
        fence = fences.at(part.number)
        if fence is None or not fence.promotes or fence.incarnation != self._incarnation:
            raise self._end("another service took it over; the next start follows that one")
        if fence.reach > self._sequence:  # less only if it is read again: it had no later event of the older writer
            raise self._gap(f"a standby was promoted that has the events up to {fence.reach:,}")
        self._epoch = part.epoch
        return fence if fence == fences.last else None

    def _look_for_removal(self) -> None:
        """Look, now and then, whether the next object is not there because it was removed."""
        if time.monotonic() - self._looked >= REMOVAL_LOOK_S:
            if first_number(self.target) > self._number + 1:
                raise self._gap(f"the objects after {self._number:,} were removed (replicate_keep)")
            self._looked = time.monotonic()

    def _rows(self, part: NumberedObject) -> list[LogRow]:
        """The new rows of a segment that count."""
        if not (why := self._obstacle(part, rows := self._new_rows(part))):
            return rows
        fences = read_fences(self.target)
        if fences.pass_over(part):
            return []
        rows = [row for row in rows if row.sequence <= fences.end_of(part)]
        if why := self._obstacle(part, rows):
            raise self._gap(why)
        return rows

    def _new_rows(self, part: NumberedObject) -> list[LogRow]:
        if part.facts["format"] != FORMAT:
            return []
        return [each.row for each in rows_of(part, self.target.place) if each.row.sequence > self._sequence]

    def _obstacle(self, part: NumberedObject, rows: list[LogRow]) -> str:
        """The reason why some rows of a segment cannot be applied; "" if they can."""
        if part.facts["after"] > self._sequence:
            return f"the events {self._sequence + 1:,} to {part.facts['after']:,} were not copied one by one"
        if part.facts["format"] != FORMAT:
            return f"from event {part.facts['first']:,} on they have the format {part.facts['format']}"
        attached = next((row.sequence for row in rows if row.kind == "attach"), None)
        if attached is not None:
            return f"event {attached:,} attached history, whose tuples are in the next base image"
        return ""

    def _gap(self, why: str) -> FailedPrecondition:
        return self._end(f"{why}; the next start takes a newer base image")

    def _end(self, why: str) -> FailedPrecondition:
        return FailedPrecondition(f"{self.target.place} cannot be followed any further: {why}", reason="COPY_GAP")
