"""The header `traceparent` of W3C Trace Context: the caller's span, which is the parent of the call's span.

00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01
version    trace ID                 span ID          flags: the last bit says that the trace is sampled
"""

from __future__ import annotations

import re
from typing import NamedTuple

_HEADER = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = 1
_LONGEST = 256


class Parent(NamedTuple):
    """The caller's span. `sampled`: whether the caller records its trace."""

    trace_id: bytes
    span_id: bytes
    sampled: bool


def parent_of(header: str) -> Parent | None:
    """The span that a header names; None if the header is not valid, as the standard asks."""
    match = _HEADER.fullmatch(header) if len(header) <= _LONGEST else None
    if match is None:
        return None
    version, trace, span, flags, rest = match.groups()
    if version == "ff" or (version == "00" and rest) or not (trace.strip("0") and span.strip("0")):
        return None
    return Parent(bytes.fromhex(trace), bytes.fromhex(span), bool(int(flags, 16) & _SAMPLED))
