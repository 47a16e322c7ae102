"""The spooler stores a large push in pieces, so that other pushes wait for one MiB of it only.

    sequencer ──large push: foreseen──> spooler ──piece──> committer ──small pushes── piece ──small pushes── … ──┐
        ^                                                                                                        │
        └── decided, with the next sequence; its row names the pieces <──────────────────────────────────────────┘

Encoding and writing a megabyte takes milliseconds. If the sequencer did that, every later push would wait for all
megabytes. So admission first foresees the event, and nothing is written for a push that it would refuse. Then the
spooler encodes the tuples, and the committer writes each piece as an errand. Only then does the sequencer prepare the
push. Meanwhile later commands for its stream wait, and so do other large pushes. If no other command came for
`ALONE_SECONDS`, pieces are larger. The spooler's thread has a low priority.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from psoup.admission.rows.pushes import Foreseen
from psoup.errors import ResourceExhausted
from psoup.events.events import Event, Pushed
from psoup.values.columns import Batch
from psoup_service.host.turns.interpreter import go_behind
from psoup_service.host.worker import Failure, StageThread
from psoup_storage.contract import Spooled, Store

ALONE_SECONDS = 1.0
"""Seconds without another command, after which larger pieces are written."""

ALONE_PIECES = 8
"""MiB of a piece while no other command comes.

A single client's pushes of 8 MiB take a seventh less time than in pieces of one MiB.
"""


@dataclass(frozen=True, slots=True)
class Ahead:
    """The spooler's result for a push that the sequencer has not decided.

    `spooled`: None if the tuples were not written. `refusal`: set if the store had no room. `seconds`: processor time
    of the spooler.
    """

    foreseen: Foreseen
    spooled: Spooled | None = None
    refusal: ResourceExhausted | None = None
    seconds: float = 0.0

    def has(self, event: Event | None) -> bool:
        """Whether the tuples of an event are on the disk. Then its row is as small as for a small push."""
        spooled = self.spooled
        return spooled is not None and isinstance(event, Pushed) and event.batch.columns is spooled.columns


@dataclass(frozen=True, eq=False, slots=True)
class SpoolJob:
    """Tuples to write. `end` is called once, with the result, even if the stage has ended before."""

    foreseen: Foreseen
    end: Callable[[Ahead], None]

    @property
    def batch(self) -> Batch:
        """The tuples."""
        return self.foreseen.event.batch


class Spooler(StageThread):
    """The thread that stores large pushes in pieces."""

    def __init__(self, store: Store, failed: Failure) -> None:
        super().__init__("psoup-spooler", failed)
        self._store = store
        self._alone_at = 0.0
        """The time from which on no other client seems to push."""
        self._job: SpoolJob | None = None
        self.count = 0
        """Pushes that were spooled."""
        self._ended = False

    def others_come(self) -> None:
        """Note that other commands come, so that the next pieces have one MiB. O(1), from any thread."""
        self._alone_at = time.perf_counter() + ALONE_SECONDS

    def put(self, job: SpoolJob) -> None:
        """Give the spooler a job. The job before must have ended. From any thread."""
        with self.condition:
            if not self._ended:
                self._job = job
                self.condition.notify()
                return
        job.end(Ahead(job.foreseen))

    def has_work(self) -> bool:
        """Whether there is a job."""
        return self._job is not None

    def run(self) -> None:
        """Spool until stopped."""
        go_behind()
        while self.wait_for_work():
            self._spool()

    def _spool(self) -> None:
        job = self._job
        assert job is not None
        began = time.thread_time()
        try:
            ahead = Ahead(job.foreseen, self._store.spool(job.batch, self._pace))
            self.count += ahead.spooled is not None
        except ResourceExhausted as full:
            ahead = Ahead(job.foreseen, refusal=full)
        self._job = None
        job.end(Ahead(ahead.foreseen, ahead.spooled, ahead.refusal, time.thread_time() - began))

    def _pace(self) -> int:
        if self._stopping and not self._finishing:
            return 0
        return 1 if time.perf_counter() < self._alone_at else ALONE_PIECES

    def wind_up(self) -> None:
        """End the job that is left."""
        with self.condition:
            self._ended = True
            job, self._job = self._job, None
        if job is not None:
            job.end(Ahead(job.foreseen))
