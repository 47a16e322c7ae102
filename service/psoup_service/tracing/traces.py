"""The traces of calls: which calls are sampled, and the spans of each.

    traceparent, sampled                traced, as a child of the caller's span
    traceparent, not sampled            not traced
    no traceparent                      a share of the calls is traced, each in a trace of its own

So the caller decides, if it has a trace.
"""

from __future__ import annotations

from itertools import count
from random import getrandbits, randbytes, random
from typing import Any

from psoup_service.figures.call_notes import moment
from psoup_service.tracing.exporter import Exporter
from psoup_service.tracing.parents import parent_of
from psoup_service.tracing.spans import call_span, step_span

_UNTRACED = frozenset({"Health/Check"})
"""Calls of probes, which would make a trace every few seconds."""

MOST_STEPS = 128
"""Steps of a call that are sent at most. A stream of pushes may have a million."""


class CallTrace:
    """The trace of one call. `trace`, `span`: the IDs of the trace and of the call's span. `parent`: the caller's span.

    The number of a step changes the last bits of `span`, which gives the ID of the step's span.
    """

    __slots__ = ("_began", "_exporter", "_name", "_parent", "_protocol", "_span", "_steps", "_trace")

    def __init__(
        self, exporter: Exporter, name: str, protocol: str, trace: bytes, span: int, parent: bytes = b""
    ) -> None:
        self._exporter = exporter
        self._name = name
        self._protocol = protocol
        self._trace = trace
        self._span = span
        self._parent = parent
        self._steps = count(1)
        self._began = moment()

    def step(self, name: str, began: int, ended: int) -> None:
        """Add a step of the work, as a child of the call's span. Any thread may call it, also after `ended`.

        Steps after the first `MOST_STEPS` are left out.
        """
        number = next(self._steps)  # one operation, so that two threads never get the same number
        if number <= MOST_STEPS:
            span, parent = (self._span ^ number).to_bytes(8, "big"), self._span.to_bytes(8, "big")
            self._exporter.put(step_span(name, self._trace, span, parent, began, ended))

    def ended(self, code: str, tenant: str, rows: int) -> None:
        """Finish the span of the call."""
        kind, ended = (self._name, self._protocol, code, tenant), moment()
        span = self._span.to_bytes(8, "big")
        self._exporter.put(call_span(kind, rows, self._trace, span, self._parent, self._began, ended))


class SampledTraces:
    """Begins the traces of calls. `sample`: the share of calls without a caller's trace that are traced."""

    def __init__(self, exporter: Exporter, sample: float) -> None:
        self._exporter = exporter
        self._sample = sample

    def begin(self, name: str, caller: Any) -> CallTrace | None:
        """Begin the trace of a call. Returns None if it is not sampled."""
        header = caller.traceparent()
        parent = parent_of(header) if header else None
        if parent is not None:
            if not parent.sampled:
                return None
            return CallTrace(
                self._exporter, name, caller.protocol, parent.trace_id, getrandbits(64) or 1, parent.span_id
            )
        if name in _UNTRACED or random() >= self._sample:
            return None
        return CallTrace(self._exporter, name, caller.protocol, randbytes(16), getrandbits(64) or 1)

    def figures(self) -> dict[str, int]:
        """Figures for the metrics, by name."""
        return {"spans_sent": self._exporter.sent, "spans_dropped": self._exporter.dropped}

    def close(self) -> None:
        """Send the spans that wait, and end the thread."""
        self._exporter.close()
