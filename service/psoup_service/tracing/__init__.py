"""Traces of calls for OpenTelemetry: each sampled call becomes a span, and its steps become children of that span.

    call ──traces──> ids, a parent? sampled? ──> CallTrace ──step, ended──> queue ──exporter──> OTLP over gRPC
                                                                            a thread   └ spans: records to messages

Question: where did the time of this call go, in the trace of its caller?

The service imports this package only if `otlp_endpoint` is set. The SDK of OpenTelemetry would take 50 us for a span
(20 where it ends, 30 where it is sent), a fifth of a small call. Here both take some 5 us, so that every call may be
traced. The package `opentelemetry-proto` defines the messages.

Never here: a statement, a value, a token.
"""
