"""Traces of calls for OpenTelemetry: each sampled call becomes a span, and its steps become children of that span.

    call ──traces──> ids, a parent? sampled? ──> CallTrace ──step, ended──> queue ──exporter──> OTLP over gRPC
                                                                            a thread   └ spans: records to messages

A trace shows where the time of a call went, as a part of the trace of its caller.

The service imports this package only if `otlp_endpoint` is set. It does not use the SDK of OpenTelemetry, which makes
several objects for each span. `make bench ARGS="--only traced"` compares a service that traces every call with one that
traces none. The package `opentelemetry-proto` defines the messages.

A span never has a statement, a value or a token.
"""
