"""The first stage: commands become events, in one order, on the log, acknowledged.

    waiting  c1 c2 c3 c4 | c5 …            one group: whatever waits now, for at most `GROUP_SECONDS` of preparing
             prepare each, in order        refusals cost nobody else anything
             append e1 e2 e4               one call: the group shares the wait for the disk
             answer all, then hand e1 e2 e4 to the writer

It alone owns admission, so admission may run ahead of what is applied. If the log fails, nothing of the group is
acknowledged and the stage ends: admission already counts events that nobody knows.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from psoup.admission import Admission
from psoup.clock import Clock
from psoup.errors import PSoupError, ResourceExhausted
from psoup.events import Acknowledgement, Command, CreateStream, Event, Push, Register, RegisterMany
from psoup_service.room import Room
from psoup_service.stage import Failure, Stage
from psoup_service.wakeups import Outcome, deliver
from psoup_service.writer import Writer
from psoup_storage.contract import Store

GROUP_SECONDS = 0.005
"""After so much preparing a group is closed, so that many registrations do not hold back the answers to pushes."""

_GROWING = (Push, Register, RegisterMany, CreateStream)
"""What a store without room refuses; to drop and to unregister is the way out of that."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A command on its way; `size` is the room it takes, in bytes."""

    command: Command
    size: int
    answer: asyncio.Future[Acknowledgement]


class Sequencer(Stage):
    """Prepares, logs, acknowledges. `error` makes what the commands get that come too late."""

    def __init__(
        self,
        admission: Admission,
        store: Store,
        clock: Clock,
        writer: Writer,
        room: Room,
        error: Callable[[], PSoupError],
        failed: Failure,
    ) -> None:
        super().__init__("psoup-sequencer", failed)
        self._admission = admission
        self._store = store
        self._clock = clock
        self._writer = writer
        self._room = room
        self._error = error
        self._waiting: deque[Submission] = deque()
        self._group: list[Submission] = []
        self._ended = False
        self.groups = 0
        self.events = 0

    def put(self, submission: Submission) -> None:
        """Take a command in, to be answered later. From any thread."""
        with self.condition:
            if not self._ended:
                self._waiting.append(submission)
                self.condition.notify()
                return
        self._refuse([submission])

    def has_work(self) -> bool:
        """Whether commands wait."""
        return bool(self._waiting)

    def run(self) -> None:
        """Prepare groups until stopped."""
        while self.wait_for_work():
            self._process()

    def wind_up(self) -> None:
        """Refuse what still waits, and the group at which the log failed."""
        with self.condition:
            self._ended = True
            left = [*self._group, *self._waiting]
            self._waiting.clear()
        self._refuse(left)

    def _process(self) -> None:
        self._admission.give_back(self._writer.take_freed())
        group, events, outcomes = self._group, list[tuple[Event, int]](), list[Outcome]()
        done = 0
        end = time.perf_counter() + GROUP_SECONDS
        while self._waiting and (not group or time.perf_counter() < end):
            submission = self._waiting.popleft()
            group.append(submission)
            try:
                if isinstance(submission.command, _GROWING):
                    self._store.check_room(submission.size)
                prepared = self._admission.prepare(submission.command, self._clock.now())
            except PSoupError as refusal:
                if isinstance(refusal, ResourceExhausted):  # the next one may find room
                    self._writer.make_room(self._clock.now())
                outcomes.append((submission.answer, refusal))
                done += submission.size
                continue
            outcomes.append((submission.answer, prepared.acknowledgement))
            if prepared.event is None:
                done += submission.size
            else:
                events.append((prepared.event, submission.size))
        if events:
            self._store.append([event for event, _ in events])
        self._group = []
        self.groups += 1
        self.events += len(events)
        self._room.leave(len(outcomes), done)
        deliver(outcomes)
        self._writer.put(events)

    def _refuse(self, submissions: list[Submission]) -> None:
        self._room.leave(len(submissions), sum(submission.size for submission in submissions))
        deliver([(submission.answer, self._error()) for submission in submissions])
