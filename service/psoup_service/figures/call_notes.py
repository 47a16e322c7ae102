"""Notes about the call that runs now, for the log of slow calls and for traces.

    Calls.run ── NOTES.set ──> servicer ──> Metrics.answered: rows        host: steps of the trace
        └───── at the end: a slow call is logged, and the span of a traced call is finished

The notes travel in a context variable, as a call passes many functions that need not know them.
"""

from __future__ import annotations

import time
from contextvars import ContextVar
from typing import Any, Protocol


class CallTrace(Protocol):
    """The trace of a call."""

    def step(self, name: str, began: int, ended: int) -> None:
        """Add a step of the work, from `began` to `ended`, in nanoseconds since 1970.

        Any thread may call it, also after the end of the call.
        """
        ...


class CallNotes:
    """The notes about one call."""

    __slots__ = ("before", "request", "rows", "stream", "trace", "worked")

    def __init__(self, before: CallNotes | None, trace: Any) -> None:
        """`before`: the notes of the call in which this one runs. `trace`: a `CallTrace`; None without one."""
        self.before = before
        self.trace = trace
        self.request: Any = None
        """The request; None for requests with a long payload, which are freed before the call ends."""
        self.stream = ""
        """The stream that the request names."""
        self.rows = 0
        """Rows of the answer, or of the batches that were taken."""
        self.worked = 0.0
        """Seconds of making messages, in a call with many of them, without the waits for the client."""


NOTES: ContextVar[CallNotes | None] = ContextVar("psoup_call_notes", default=None)
"""The notes about the call that runs in this context; None outside of calls, or if none are wanted."""


def moment() -> int:
    """The wall clock's time in nanoseconds since 1970, for the steps of traces.

    A collector compares it with times of other machines, so it is not the guarded clock, which may lag behind.
    """
    return time.time_ns()


def trace_now() -> CallTrace | None:
    """The trace of the call that runs in this context; None if it is not traced."""
    notes = NOTES.get()
    return None if notes is None else notes.trace


class WorkTime:
    """Adds the time of making messages to the notes about the call, without the time of sending them."""

    __slots__ = ("_began", "_notes")

    def __init__(self) -> None:
        self._notes = NOTES.get()
        self._began = time.perf_counter()

    def pause(self) -> None:
        """Stop counting, as a message is ready. Harmless during a pause."""
        if self._notes is not None and self._began:
            self._notes.worked += time.perf_counter() - self._began
        self._began = 0.0

    def go_on(self) -> None:
        """Go on counting, as the message is sent."""
        self._began = time.perf_counter()
