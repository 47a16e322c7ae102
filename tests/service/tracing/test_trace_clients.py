"""Clients in a trace: the SDK sends its program's span with every call, and a page sends the header."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request

import psycopg
import pytest
from opentelemetry import trace
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from opentelemetry.sdk.trace import TracerProvider

from psoup_client import Client
from psoup_client.channel.trace_context import trace_metadata
from psoup_service.process.settings import Settings
from psoup_testing.services.collector import attributes_of, collecting
from psoup_testing.services.threaded_service import serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


def _ask_as_a_page(address: str) -> None:
    body = json.dumps({"statement": "SELECT x FROM s"}).encode()
    headers = {"content-type": "application/json", "x-psoup": "1", "traceparent": f"00-{TRACE}-{PARENT}-01"}
    request = urllib.request.Request(f"{address}/api/psoup.v1.StatementService/Ask", body, headers)
    with urllib.request.urlopen(request, timeout=60) as reply:
        assert reply.status == 200


def _ask_as_psql(address: str) -> None:
    host, _, port = address.rpartition(":")
    with psycopg.connect(host=host, port=int(port), user="x", dbname="d", autocommit=True) as connection:
        text = f"SELECT x FROM streams.s /*db_driver='psycopg',traceparent='00-{TRACE}-{PARENT}-01'*/"
        connection.execute(text)  # type: ignore[call-overload]
        connection.execute("SELECT x FROM streams.s")


def test_the_service_continues_the_trace_of_its_client() -> None:
    tracer = TracerProvider(shutdown_on_exit=False).get_tracer("a program")
    with collecting() as collector:
        settings = Settings(port=0, web_port=0, pg_port=0, otlp_endpoint=f"http://{collector.address}", otlp_sample=0)
        with serving(settings) as served, Client(served.address) as client:
            client.execute("CREATE STREAM s (x BIGINT)")
            with tracer.start_as_current_span("outer") as outer:
                client.push("s", {"x": [1, 2]})
                assert client.ask("SELECT x FROM s").to_arrow().num_rows <= 2
            assert served.service.gateway is not None
            _ask_as_a_page(served.service.gateway.address)
            assert served.service.pg is not None
            _ask_as_psql(served.service.pg.address)
    calls = [span for span in collector.spans if span.kind == Span.SPAN_KIND_SERVER]
    context = outer.get_span_context()
    mine = [span for span in calls if span.trace_id.hex() == f"{context.trace_id:032x}"]
    assert {span.parent_span_id.hex() for span in mine} == {f"{context.span_id:016x}"}
    assert {span.name for span in mine} >= {"IngestService/Push", "StatementService/Ask"}
    foreign = [span for span in calls if span not in mine]
    assert {(span.trace_id.hex(), span.parent_span_id.hex()) for span in foreign} == {(TRACE, PARENT)}
    protocols = [attributes_of(span)["psoup.protocol"] for span in foreign if span.name == "StatementService/Ask"]
    assert protocols == ["http", "pg"]


def test_a_program_without_a_span_sends_nothing() -> None:
    assert trace_metadata() == ()
    state = trace.TraceState([("vendor", "a")])
    context = trace.SpanContext(int(TRACE, 16), int(PARENT, 16), True, trace.TraceFlags(0), state)
    with trace.use_span(trace.NonRecordingSpan(context)):
        assert trace_metadata() == (("traceparent", f"00-{TRACE}-{PARENT}-00"), ("tracestate", "vendor=a"))


@pytest.mark.long
def test_neither_the_sdk_nor_a_service_without_traces_loads_opentelemetry() -> None:
    code = (
        "import sys, asyncio, psoup_client\n"
        "from psoup_service.service import Service\n"
        "from psoup_service.process.settings import Settings\n"
        "service = Service(Settings(port=0))\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'psoup_service.tracing'))])\n"
        "service.host.close(); service._observers.close()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
