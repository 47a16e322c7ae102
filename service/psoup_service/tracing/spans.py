"""Spans of calls and steps, serialized for OTLP.

    template of its kind (name, attributes, status: made once, kept) + IDs and times (fixed width) ──> one span
    head (service, version) + spans ──> one request

Most of a span is the same for all calls of one kind, and the rest has a fixed width. So a span is two byte strings that
are joined. The package `opentelemetry-proto` makes only the templates, because its objects take longer.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, Status

_KINDS = 4_096
"""Templates that are kept at most."""

_SAMPLED = 0x001
_PARENT_KNOWN = 0x100
_PARENT_REMOTE = 0x200
"""Bits of the flags of a span. The last two say whether its parent is in another process."""

_FAULTS = frozenset({"UNKNOWN", "DEADLINE_EXCEEDED", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"})
"""Codes that are errors of the service, as the conventions for gRPC say. Other codes are errors of the caller."""

# Each field of a message is a tag (8 * number + wire type), then its length if that varies, then its content.
_PLACE = struct.Struct("<2s16s2s8scQcQ").pack
_TRACE_ID, _SPAN_ID, _BEGAN, _ENDED = b"\x0a\x10", b"\x12\x08", b"\x39", b"\x41"
_PARENT_ID = b"\x22\x08"
_SPANS, _SCOPE_SPANS, _RESOURCE_SPANS = b"\x12", b"\x12", b"\x0a"


def call_span(
    kind: tuple[str, str, str, str], rows: int, trace: bytes, span: bytes, parent: bytes, began: int, ended: int
) -> bytes:
    """The span of a call. `kind`: its name, protocol, code and tenant. `parent`: the caller's span, empty without one.

    `began`, `ended`: nanoseconds since 1970.
    """
    place = _PLACE(_TRACE_ID, trace, _SPAN_ID, span, _BEGAN, began, _ENDED, ended)
    if parent:
        place += _PARENT_ID + parent
    return _call(kind, bool(parent)) + (_rows(rows) if rows else b"") + place


def step_span(name: str, trace: bytes, span: bytes, parent: bytes, began: int, ended: int) -> bytes:
    """The span of a step of a call, whose span is `parent`."""
    return _step(name) + _PLACE(_TRACE_ID, trace, _SPAN_ID, span, _BEGAN, began, _ENDED, ended) + _PARENT_ID + parent


class SpanRequests:
    """Makes requests of spans. `resource`: attributes of the service."""

    def __init__(self, resource: Mapping[str, str], version: str) -> None:
        attributes = [_attribute(name, value) for name, value in resource.items()]
        self._resource = ResourceSpans(resource=Resource(attributes=attributes)).SerializeToString()
        scope = InstrumentationScope(name="psoup", version=version)
        self._scope = ScopeSpans(scope=scope).SerializeToString()

    def request(self, spans: Sequence[bytes]) -> bytes:
        """An `ExportTraceServiceRequest` of some spans. O(bytes)."""
        parts = [self._scope]
        for span in spans:
            parts += _SPANS, _LENGTHS[len(span)] if len(span) < _SHORT else _length(len(span)), span
        scope = b"".join(parts)
        return _field(_RESOURCE_SPANS, self._resource + _field(_SCOPE_SPANS, scope))


def _field(tag: bytes, content: bytes) -> bytes:
    """A field of a message: its tag, its length, its content."""
    return tag + _length(len(content)) + content


def _length(left: int) -> bytes:
    """A length as a varint of protobuf: seven bits in each byte, the lowest first."""
    length = bytearray()
    while left > 0x7F:
        length.append(left & 0x7F | 0x80)
        left >>= 7
    length.append(left)
    return bytes(length)


_SHORT = 1_024
_LENGTHS = tuple(map(_length, range(_SHORT)))


@lru_cache(_KINDS)
def _call(kind: tuple[str, str, str, str], remote: bool) -> bytes:
    name, protocol, code, tenant = kind
    service, _, method = name.partition("/")
    facts = {"rpc.service": service, "rpc.method": method, "psoup.protocol": protocol}
    facts |= {"psoup.tenant": tenant, "psoup.code": code}
    span = Span(name=name, kind=Span.SPAN_KIND_SERVER, attributes=[_attribute(*fact) for fact in facts.items()])
    span.flags = _SAMPLED | _PARENT_KNOWN | (_PARENT_REMOTE if remote else 0)
    if code in _FAULTS:
        span.status.code, span.status.message = Status.STATUS_CODE_ERROR, code
    return span.SerializeToString()


@lru_cache(_KINDS)
def _step(name: str) -> bytes:
    return Span(name=name, kind=Span.SPAN_KIND_INTERNAL, flags=_SAMPLED | _PARENT_KNOWN).SerializeToString()


@lru_cache(_KINDS)
def _rows(rows: int) -> bytes:
    return Span(attributes=[KeyValue(key="psoup.rows", value=AnyValue(int_value=rows))]).SerializeToString()


def _attribute(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))
