"""The observers of calls: the log of slow calls, and traces.

    begin ── notes in NOTES ──> the work of the call ──> ended ──> slow call? ──> log
                                                           └─────> traced? ─────> span

`Calls` tells them of every call. Without observers there are no notes.
"""

from __future__ import annotations

from typing import Any, Protocol

from psoup_service.figures.call_notes import NOTES, CallNotes, CallTrace
from psoup_service.wire.calls import Caller
from psoup_service.wire.slow_calls import SlowCalls


class Trace(CallTrace, Protocol):
    """The trace of a call, as this module sees it."""

    def ended(self, code: str, tenant: str, rows: int) -> None:
        """Finish the span of the call."""
        ...


class Traces(Protocol):
    """Traces calls."""

    def begin(self, name: str, caller: Any) -> Trace | None:
        """Begin the trace of a call; returns None if it is not sampled."""
        ...

    def figures(self) -> dict[str, int]:
        """Counts for the operator: `spans_sent` and `spans_dropped`."""
        ...

    def close(self) -> None:
        """Send the spans that wait, and end the thread."""
        ...


class CallWatch:
    """Tells the observers of each call. For one event loop."""

    def __init__(self, slow: SlowCalls | None = None, traces: Traces | None = None) -> None:
        """`slow`, `traces`: None without such an observer."""
        self._slow = slow
        self._traces = traces

    def close(self) -> None:
        """Let the observers finish their work, and end their threads."""
        for observer in (self._slow, self._traces):
            if observer is not None:
                observer.close()

    def figures(self) -> dict[str, int]:
        """Counts for the operator. Any thread."""
        return {"spans_sent": 0, "spans_dropped": 0} if self._traces is None else self._traces.figures()

    def begin(self, name: str, caller: Caller) -> CallNotes | None:
        """Begin the notes about a call; returns None if no observer wants them. Takes a microsecond."""
        trace = None if self._traces is None else self._traces.begin(name, caller)
        if trace is None and self._slow is None:
            return None
        notes = CallNotes(NOTES.get(), trace)
        NOTES.set(notes)
        return notes

    def ended(self, notes: CallNotes | None, name: str, caller: Caller, code: str, seconds: float | None) -> None:
        """Tell the observers that a call has ended. `seconds`: its duration; None for a call with many messages."""
        if notes is None:
            return
        NOTES.set(notes.before)
        if notes.trace is not None:
            notes.trace.ended(code, caller.principal.tenant, notes.rows)
        slow, taken = self._slow, notes.worked if seconds is None else seconds
        if slow is not None and taken >= slow.least_s:
            slow.ended(notes, name, caller, code, taken)
