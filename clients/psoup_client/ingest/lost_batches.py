"""Acknowledged batches that the service has no more: a takeover lost its last events.

    acknowledged: 0 … 9      the next writer has 0 … 6 and expects 7      BatchesLost(first=7, end=10)

    with `rewind`            the source goes back to batch 7, and pushes from there on under the same numbers
    with source positions    the producer ends. Its caller asks `position`, and begins there
    else                     the batches without a reply go on as number 0, 1, … of a new epoch

A producer without an acknowledged batch has lost nothing. If the next writer lacks the event since which the producer
is new, it goes on since an earlier one.

The service says which number it expects when it refuses a later one. It takes nothing then, so nothing is doubled.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from psoup_client.channel.options import seconds
from psoup_client.channel.primitives import Condition
from psoup_client.errors import BatchesLost, Cancelled, DeadlineExceeded, PSoupError
from psoup_client.ingest.messages import Messages
from psoup_client.ingest.pipeline import NumberedBatch
from psoup_client.ingest.table_producer import TableProducer
from psoup_client.phrases import counted, verb

Rewind = Callable[[BatchesLost], object]
"""Function that lets a source go back to the batch `first` of an error."""


def expected_in(problem: PSoupError) -> int | None:
    """The number that the service expects from a producer, by its refusal of a later one. None for another refusal."""
    if problem.reason == "NUMBER_GAP":
        return int(problem.facts["expected"])
    return 0 if problem.reason == "UNKNOWN_SEQUENCE" else None  # its last event is before the producer's first batch


class WindowedProducer(TableProducer):
    """Base of `Producer`: the window of batches without a reply, and what becomes of it if earlier ones are lost."""

    stream: str
    name: str
    epoch: int
    _changed: Condition
    _window: deque[NumberedBatch]
    _window_batches: int
    _window_bytes: int
    _window_used: int
    _next: int
    _acknowledged: int
    _since: int
    _messages: Messages
    _rewind: Rewind | None
    _begun: int
    """The first number of this object in its epoch."""
    _lost: BatchesLost | None = None
    """The error that the caller has not had yet."""
    _error: PSoupError | None
    _raised: bool
    _closing: bool

    def _has_room(self, size: int) -> bool:
        if not self._window:
            return True
        return len(self._window) < self._window_batches and self._window_used + size <= self._window_bytes

    def _wait(self, ready: Callable[[], bool], timeout: float | None) -> None:
        """Wait until `ready`, a failure or `timeout`. The caller holds the condition."""
        wait = None if timeout is None else seconds(timeout)
        self._changed.wait_for(lambda: ready() or self._error is not None or self._closing, wait)
        if self._error is not None:
            self._raised = True
            raise self._error
        if self._closing:
            raise Cancelled(f"the producer of {self.stream!r} is closed")
        if not ready():
            raise DeadlineExceeded(
                f"{counted(len(self._window), 'batch')} for {self.stream!r}"
                f" {verb(len(self._window), 'is', 'are')} not acknowledged after {timeout:g} s; "
                "wait longer, or close and go on from `acknowledged`"
            )

    def _taken_lost(self) -> BatchesLost | None:
        """The error that the caller has not had yet, once, after the source has gone back; or None."""
        with self._changed:
            lost, self._lost = self._lost, None
        if lost is not None and self._rewind is not None:
            self._rewind(lost)
        return lost

    def _goes_on(self, problem: PSoupError) -> bool:
        """Go on after a refusal if it shows that batches, or events before all of them, are lost.

        Returns False for another refusal.

        Raises BatchesLost for batches with source positions, as the rows between would never come.
        """
        with self._changed:
            if self._is_new_since_earlier(problem):
                return True
            ends = self._rewind is None and any(batch.is_placed for batch in self._window)
            lost = self._lost_by(problem, ends=ends)
            if lost is None or ends:
                if lost is not None:
                    raise lost
                return False
            if problem.reason == "UNKNOWN_SEQUENCE":
                self._since = self._client.known_sequence = int(problem.facts["sequence"])
            window = [] if self._rewind is not None else list(self._window)
            self._window.clear()
            self._messages.begin()
            if self._rewind is not None:
                self._window_used, self._next, self._acknowledged = 0, lost.first, lost.first
            else:
                self.epoch = max(self.epoch + 1, time.time_ns() // 1_000)
                self._window.extend(replace(batch, number=number) for number, batch in enumerate(window))
                self._next, self._acknowledged, self._begun = len(window), 0, 0
            self._lost = lost
            self._changed.notify_all()
        return True

    def _is_new_since_earlier(self, problem: PSoupError) -> bool:
        """Take the service's last event for `since`, if the service lacks that one and nothing was acknowledged."""
        if problem.reason != "UNKNOWN_SEQUENCE" or self._acknowledged or int(problem.facts["sequence"]) >= self._since:
            return False
        self._since = self._client.known_sequence = int(problem.facts["sequence"])
        return True

    def _lost_by(self, problem: PSoupError, *, ends: bool) -> BatchesLost | None:
        """The error for acknowledged batches that are lost, as a refusal shows it; or None.

        `ends`: whether it ends the producer.
        """
        first, end = expected_in(problem), self._acknowledged
        if first is None or max(self._begun, first) >= end:
            return None
        way = "what has no reply yet goes on in a new epoch; push the lost rows again if you still have them"
        if self._rewind is not None:
            way = f"push from number {first} on again"
        if ends:
            way = "ask `position`, and begin there with a new producer"
        return BatchesLost(
            f"the service has lost {counted(end - first, 'batch')} of producer {self.name!r} for stream"
            f" {self.stream!r}, from number {first} on, though {verb(end - first, 'it was', 'they were')} acknowledged:"
            " another service took over without its last events, or the stream was created anew;"
            f" {way}",
            first=first,
            end=end,
        )
