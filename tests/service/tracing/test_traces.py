"""Traces: the span of each call and its steps, the caller's trace, and a collector that is away."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from psoup_proto.v1 import queries_pb2, statements_pb2
from psoup_service.process.settings import Settings
from psoup_service.tracing import exporter
from psoup_service.tracing.spans import SpanRequests
from psoup_service.tracing.traces import MOST_STEPS, SampledTraces
from psoup_storage import DurableStore
from psoup_testing.services.collector import Collector, attributes_of, collecting
from psoup_testing.services.wire import Wire, run

SECRET = "Ann5309"
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-1] + "0"


class _Probe:
    protocol = "grpc"

    def traceparent(self) -> str:
        return ""


class _HostileCollector:
    """A collector that gives one reply to all requests, or none until the connection is closed."""

    endpoint = "http://collector"

    def __init__(self, reply: bytes | Exception | None) -> None:
        self.asked = threading.Semaphore(0)
        self._reply = reply
        self._closed = threading.Event()

    def export(self, request: bytes, timeout: float) -> bytes:
        self.asked.release()
        if self._reply is None:
            assert self._closed.wait(60)
            raise ValueError("the channel is closed")
        if isinstance(self._reply, Exception):
            raise self._reply
        return self._reply

    def close(self) -> None:
        self._closed.set()


def _rejecting(spans: int) -> bytes:
    return ExportTraceServiceResponse(partial_success={"rejected_spans": spans}).SerializeToString()


def _settings(collector: Collector, **more: Any) -> Settings:
    return Settings(port=0, otlp_endpoint=f"http://{collector.address}", **more)


def _lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The lines of the exporter. A busy machine adds lines about the event loop."""
    return [record.getMessage() for record in caplog.records if record.name == exporter.__name__]


def _children(spans: list[Span], parent: Span) -> list[Span]:
    return [span for span in spans if span.parent_span_id == parent.span_id and span.trace_id == parent.trace_id]


def test_each_call_has_a_span_with_its_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,place=a%20b")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Api-Key=k1")

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (name TEXT NOT NULL)")
        query = f"SELECT name FROM s WHERE name = '{SECRET}'"
        await wire.push("s", pa.table({"name": [SECRET, "b"]}))
        await wire.statements.Ask(statements_pb2.AskRequest(statement=query))
        streamed = wire.statements.AskStream(statements_pb2.AskStreamRequest(statement=query))
        assert [message async for message in streamed]
        with pytest.raises(grpc.aio.AioRpcError):
            await wire.queries.Invoke(queries_pb2.InvokeRequest(key=SECRET))

    with collecting() as collector:
        run(script, _settings(collector), store=DurableStore(tmp_path / "data"))
    spans = {span.name: span for span in collector.spans}
    assert len({span.span_id for span in collector.spans}) == len(collector.spans)
    push = spans["IngestService/Push"]
    assert push.kind == Span.SPAN_KIND_SERVER and not push.parent_span_id
    assert attributes_of(push) == {
        "rpc.service": "IngestService",
        "rpc.method": "Push",
        "psoup.protocol": "grpc",
        "psoup.tenant": "default",
        "psoup.code": "OK",
        "psoup.rows": 2,
    }
    steps = {span.name: span for span in _children(collector.spans, push)}
    assert sorted(steps, key=lambda name: steps[name].start_time_unix_nano) == ["prepare", "log", "apply"]
    assert push.start_time_unix_nano <= steps["prepare"].start_time_unix_nano
    assert steps["log"].end_time_unix_nano <= push.end_time_unix_nano
    for span in collector.spans:
        assert span.start_time_unix_nano <= span.end_time_unix_nano < push.end_time_unix_nano + 60 * 10**9
    assert [span.name for span in _children(collector.spans, spans["StatementService/Ask"])] == ["read"]
    assert attributes_of(spans["StatementService/AskStream"])["psoup.rows"] == 1
    refused = spans["QueryService/Invoke"]
    assert attributes_of(refused)["psoup.code"] == "NOT_FOUND" and refused.status.code == Status.STATUS_CODE_UNSET
    assert SECRET not in str(collector.spans)
    resource = collector.resources[0]
    assert (resource["service.name"], resource["place"]) == ("psoup", "a b")
    assert resource["service.instance.id"] and collector.metadata[0]["api-key"] == "k1"


def test_the_trace_of_a_caller_goes_on_and_decides() -> None:
    async def script(wire: Wire) -> None:
        def asked(header: str) -> Any:
            request = statements_pb2.AskRequest(statement="SELECT 1 FROM s")
            return wire.statements.Ask(request, metadata=[("traceparent", header)])

        await wire.create("CREATE STREAM s (x BIGINT)")
        await asked(PARENT)
        for header in (UNSAMPLED, "00-0-0-01", PARENT.replace("00-", "ff-"), PARENT + "-more", "x" * 1_000):
            await asked(header)

    with collecting() as collector:
        run(script, _settings(collector, otlp_sample=0))
    (call,) = [span for span in collector.spans if span.kind == Span.SPAN_KIND_SERVER]
    assert call.trace_id.hex() == PARENT.split("-")[1] and call.parent_span_id.hex() == PARENT.split("-")[2]
    assert {span.trace_id for span in collector.spans} == {call.trace_id}


def test_a_collector_that_is_away_costs_a_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "DELAY_S", 0.0)
    monkeypatch.setattr(exporter, "_PAUSES_S", (0.01,) * 100)
    caplog.set_level(logging.WARNING, "psoup_service.tracing")

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        await asyncio.to_thread(collector.wait_for, "StreamService/CreateStream")
        observers.append(wire.service._observers)

    observers = list[Any]()
    with collecting() as collector:
        collector.refusals = [grpc.StatusCode.UNAVAILABLE] * 3
        run(script, _settings(collector))
    figures = observers[0].figures()  # after the end: a span is counted after its collector has it
    assert figures["spans_dropped"] == 0 and figures["spans_sent"] > 0
    lines = ["the collector does not take traces; calls go on without", "the collector takes traces again"]
    assert _lines(caplog) == lines


def test_what_finds_no_collector_is_dropped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "psoup_service.tracing")
    with collecting() as gone:
        settings = _settings(gone)

    async def script(wire: Wire) -> None:
        await wire.create("CREATE STREAM s (x BIGINT)")
        begin = wire.service._observers._traces.begin  # type: ignore[union-attr]
        for _ in range(exporter.QUEUE + exporter.BATCH + 1_000):
            begin("A/B", _Probe()).ended("OK", "default", 0)
        assert wire.service._observers.figures()["spans_dropped"] > 0
        services.append(wire.service)

    services: list[Any] = []
    run(script, settings)
    figures = services[0]._observers.figures()
    assert figures["spans_sent"] == 0 and figures["spans_dropped"] > exporter.QUEUE + 1_000
    assert len(_lines(caplog)) <= 1


@pytest.mark.parametrize(
    ("reply", "sent"),
    [(b"\xff" * 20, 1), (_rejecting(5), 0), (_rejecting(-5), 1), (ValueError("metadata was invalid"), 0)],
)
def test_a_reply_that_is_not_valid_does_not_end_the_traces(
    reply: bytes | Exception, sent: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporter, "DELAY_S", 0.0)
    monkeypatch.setattr(exporter, "_PAUSES_S", (0.01,))
    hostile = _HostileCollector(reply)
    sender = exporter.Exporter(hostile, SpanRequests({}, "1"))
    sender.put(b"one")
    assert hostile.asked.acquire(timeout=60)
    sender.put(b"two")
    assert hostile.asked.acquire(timeout=60)
    sender.close()
    assert sender.sent + sender.dropped == 2 and sender.sent == 2 * sent


def test_a_request_that_hangs_ends_with_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "DELAY_S", 0.0)
    monkeypatch.setattr(exporter, "_END_S", 0.0)
    hostile = _HostileCollector(None)
    sender = exporter.Exporter(hostile, SpanRequests({}, "1"))
    sender.put(b"one")
    assert hostile.asked.acquire(timeout=60)
    sender.close()
    assert sender.dropped == 1


class _Idle(exporter.Exporter):
    """An exporter whose thread does nothing, so that a test can do its steps."""

    def _run(self) -> None:
        pass


def test_a_span_that_comes_while_the_queue_is_emptied_wakes_the_thread() -> None:
    class Emptied(deque[bytes]):
        """A queue that the exporter's thread empties just before a span comes."""

        def append(self, span: bytes) -> None:
            self.clear()
            sender._come.clear()
            super().append(span)

    sender = _Idle(_HostileCollector(b""), SpanRequests({}, "1"))
    sender.put(b"one")
    sender._queue = Emptied(sender._queue)
    sender.put(b"two")
    assert [*sender._queue] == [b"two"] and sender._come.is_set()
    sender._queue = deque([b""] * (exporter.BATCH + 1))
    sender.put(b"three")
    assert sender._many.is_set(), "the batch is full, also if the span that filled it was not seen"
    sender.close()


def test_there_is_a_pause_before_each_retry_and_none_after_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "_PAUSES_S", (1.0, 2.0))
    sender = _Idle(_HostileCollector(ValueError("metadata was invalid")), SpanRequests({}, "1"))
    done = list[object]()
    monkeypatch.setattr(sender._stop, "wait", lambda pause: done.append(pause))
    monkeypatch.setattr(sender, "_try", lambda spans, timeout: done.append("try"))
    sender._send([b"one"])
    assert done == ["try", 1.0, "try", 2.0, "try"] and sender.dropped == 1
    sender.close()


def test_a_call_has_so_many_steps_and_no_more() -> None:
    class Spans:
        def put(self, span: bytes) -> None:
            came.append(span)

    came: list[bytes] = []
    call = SampledTraces(Spans(), 1.0).begin("IngestService/PushStream", _Probe())  # type: ignore[arg-type]
    assert call is not None
    for _ in range(MOST_STEPS + 10):
        call.step("log", 1, 2)
    call.ended("OK", "default", 300)
    assert len(came) == MOST_STEPS + 1


@pytest.mark.parametrize("endpoint", ["collector", "ftp://x:1", "http://", "http://x:4317/v1/traces", "http://x:99999"])
def test_an_endpoint_that_is_not_a_collector_is_refused(endpoint: str) -> None:
    with pytest.raises(ValueError, match="is not the address of a collector"):
        Settings(otlp_endpoint=endpoint)
