"""The observers of a service's calls, as its settings want them: the log of slow calls, and traces."""

from __future__ import annotations

import os
from functools import partial

from psoup.errors import InvalidInput
from psoup.published.snapshot import Snapshot
from psoup_service.host.host import Host
from psoup_service.host.ids import Ids
from psoup_service.process.settings import Settings
from psoup_service.servicers.call_statements import statement_of
from psoup_service.servicers.server import server_version
from psoup_service.wire.call_watch import CallWatch, Traces
from psoup_service.wire.slow_calls import SlowCalls


def call_observers(settings: Settings, host: Host[Snapshot], incarnation: str) -> CallWatch:
    """Make the observers. The caller closes them after the last call. `incarnation`: of the store.

    Raises InvalidInput, reason SETTING, if the library for traces is missing, or a variable of OpenTelemetry is wrong.
    """
    slow = None
    if settings.slow_call_ms:
        slow = SlowCalls(settings.slow_call_ms / 1_000, partial(statement_of, host, Ids(incarnation)))
    return CallWatch(slow, _traces(settings, incarnation) if settings.otlp_endpoint else None)


def _traces(settings: Settings, incarnation: str) -> Traces:
    try:
        from psoup_service.tracing.collector import GrpcCollector, resource_of
        from psoup_service.tracing.exporter import Exporter
        from psoup_service.tracing.spans import SpanRequests
        from psoup_service.tracing.traces import SampledTraces
    except ImportError as problem:
        raise InvalidInput(
            f"otlp_endpoint needs opentelemetry-proto ({problem}): pip install 'psoup[otel]'", reason="SETTING"
        ) from None
    version = server_version()
    requests = SpanRequests(resource_of(os.environ, version, incarnation), version)
    return SampledTraces(Exporter(GrpcCollector(settings.otlp_endpoint, os.environ), requests), settings.otlp_sample)
