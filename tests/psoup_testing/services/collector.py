"""A collector of OpenTelemetry in the test's own process: a gRPC server that keeps the spans it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_METHOD = "Export"
_SERVICE = "opentelemetry.proto.collector.trace.v1.TraceService"


class Collector:
    """The spans that came, and the errors to answer with. `address`: "127.0.0.1:40317"."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        self.metadata: list[dict[str, str]] = []
        self.refusals: list[grpc.StatusCode] = []
        """Codes of the next requests, which are refused."""
        self.address = ""
        self._news = threading.Condition()

    def export(self, request: Any, context: grpc.ServicerContext) -> Any:
        """Take a request of OTLP."""
        with self._news:
            self.metadata.append({name: str(value) for name, value in context.invocation_metadata()})
            if self.refusals:
                refusal = self.refusals.pop(0)
                self._news.notify_all()
                context.abort(refusal, "refused by the test")
            for resource in request.resource_spans:
                attributes = resource.resource.attributes
                self.resources.append({each.key: each.value.string_value for each in attributes})
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
            self._news.notify_all()
        return trace_service_pb2.ExportTraceServiceResponse()

    def wait_for(self, *names: str, requests: int = 0) -> list[Span]:
        """Wait until a span of each name has come, and so many requests; returns all spans."""
        with self._news:
            assert self._news.wait_for(
                lambda: {*names} <= {span.name for span in self.spans} and len(self.metadata) >= requests, 60
            ), [span.name for span in self.spans]
            return [*self.spans]


@contextmanager
def collecting(address: str = "127.0.0.1:0") -> Iterator[Collector]:
    """A collector that listens at an address."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.so_reuseport", 0)])
    handler = grpc.unary_unary_rpc_method_handler(
        collector.export,
        trace_service_pb2.ExportTraceServiceRequest.FromString,
        trace_service_pb2.ExportTraceServiceResponse.SerializeToString,
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, {_METHOD: handler}),))
    collector.address = f"127.0.0.1:{server.add_insecure_port(address)}"
    server.start()
    try:
        yield collector
    finally:
        server.stop(None).wait()


def attributes_of(span: Span) -> dict[str, str | int]:
    """The attributes of a span, by name."""
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}
