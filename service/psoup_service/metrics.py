"""Metrics for the operator: counters, latencies and gauges, in a registry of the service's own.

    GET http://127.0.0.1:PORT/metrics      Prometheus text; its own port and thread, loopback only

Labels are names of calls and of codes: never a stream, a query or a tenant, whose number has no bound. Gauges are read
from the host and the snapshot at each scrape; nothing is counted twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from threading import Thread
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from psoup.events.acknowledgements import PushAcknowledgement

_SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class _Gauges(Collector):
    """Figures that the host has anyway, read at each scrape."""

    def __init__(self, read: Callable[[], Mapping[str, int]]) -> None:
        self._read = read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in sorted(self._read().items()):
            yield GaugeMetricFamily(f"psoup_{name}", f"{name.replace('_', ' ')}, now", value=value)


class Metrics:
    """The service's metrics. `figures` gives the gauges; it is called on the metrics thread."""

    def __init__(self, figures: Callable[[], Mapping[str, int]] = dict) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(_Gauges(figures))
        self._calls = Counter("psoup_calls", "Calls that ended", ["method", "code"], registry=self.registry)
        self._seconds = Histogram(
            "psoup_call_seconds", "Duration of unary calls", ["method"], buckets=_SECONDS, registry=self.registry
        )
        self.open = Gauge("psoup_open_calls", "Calls under way", registry=self.registry)
        self._batches = Counter("psoup_pushed_batches", "Batches taken", registry=self.registry)
        self._tuples = Counter("psoup_pushed_tuples", "Tuples taken", registry=self.registry)
        self._bytes = Counter("psoup_pushed_bytes", "Bytes of Arrow IPC of batches taken", registry=self.registry)
        self._refused = Counter("psoup_refused_tuples", "Tuples refused one by one", ["why"], registry=self.registry)
        self._rows = Counter("psoup_answered_rows", "Rows of answers", registry=self.registry)
        self._stalls = Counter(
            "psoup_loop_stalls",
            "Turns of the event loop that used over 50 ms of processor time",
            registry=self.registry,
        )
        self._lag = Histogram(
            "psoup_loop_lag_seconds",
            "How late the event loop comes to a timer",
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._ended: dict[tuple[str, str], Counter] = {}
        self._timed: dict[str, Histogram] = {}
        self._late, self._ahead = self._refused.labels("late"), self._refused.labels("ahead")

    def call_ended(self, method: str, code: str, seconds: float | None) -> None:
        """Count a call; `seconds` is None for a streaming call, whose length says nothing."""
        counter = self._ended.get((method, code))
        if counter is None:
            counter = self._ended[method, code] = self._calls.labels(method, code)
        counter.inc()
        if seconds is None:
            return
        timed = self._timed.get(method)
        if timed is None:
            timed = self._timed[method] = self._seconds.labels(method)
        timed.observe(seconds)

    def pushed(self, push: PushAcknowledgement, size: int) -> None:
        """Count a batch; a duplicate was counted when it was taken."""
        if push.duplicate:
            return
        self._batches.inc()
        self._tuples.inc(push.accepted)
        self._bytes.inc(size)
        if push.late:
            self._late.inc(push.late)
        if push.ahead:
            self._ahead.inc(push.ahead)

    def loop_lag(self, seconds: float) -> None:
        """Count how late a timer of the event loop was."""
        self._lag.observe(seconds)

    def loop_stalled(self) -> None:
        """Count a stall of the event loop."""
        self._stalls.inc()

    def answered(self, rows: int) -> None:
        """Count the rows of an answer, or of a piece of one."""
        self._rows.inc(rows)


class MetricsServer:
    """`/metrics` over HTTP, on a free port for 0; `port`: the port."""

    def __init__(self, metrics: Metrics, host: str, port: int) -> None:
        self._server: WSGIServer
        self._thread: Thread
        self._server, self._thread = start_http_server(port, host, registry=metrics.registry)
        self.port: int = self._server.server_port

    def close(self) -> None:
        """Stop answering, and end the thread."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
