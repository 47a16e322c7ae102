"""The caller's span of OpenTelemetry, in the metadata of a call: the service then makes its span a child of that one.

    traceparent   00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01        (W3C Trace Context)

The SDK does not depend on OpenTelemetry. It looks only whether the program has loaded `opentelemetry.trace`.
"""

from __future__ import annotations

import sys

Metadata = tuple[tuple[str, str | bytes], ...]

_MODULE = "opentelemetry.trace"


def trace_metadata() -> Metadata:
    """The metadata of the active span; empty without OpenTelemetry, or without an active span."""
    current = getattr(sys.modules.get(_MODULE), "get_current_span", None)
    if current is None:
        return ()
    span = current().get_span_context()
    if not span.is_valid:
        return ()
    parent = ("traceparent", f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}")
    state = span.trace_state.to_header() if span.trace_state else ""
    return (parent, ("tracestate", state)) if state else (parent,)
