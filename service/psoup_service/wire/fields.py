"""The number of fields of a message off the wire, before it is parsed.

A parser keeps the interpreter for as long as a message has fields, and 16 MiB can be eight million of them. Messages of
this contract have a few; lists of statements or IDs some thousands.
"""

from __future__ import annotations

FEW = 64
"""The most fields that are counted on an event loop: some 30 us."""

MOST = 131_072
"""The most top-level fields of a request."""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


def count(raw: bytes, most: int) -> int:
    """The top-level fields of a protobuf message, up to `most` + 1, which is also the count for garbage. O(fields)."""
    at, fields, end = 0, 0, len(raw)
    try:
        while at < end and fields <= most:
            tag, at = (raw[at], at + 1) if raw[at] < 128 else _varint(raw, at)
            fields += 1
            kind = tag & 7
            if kind == _BYTES:
                size, at = (raw[at], at + 1) if raw[at] < 128 else _varint(raw, at)
                at += size
            elif kind == _VARINT:
                _, at = (0, at + 1) if raw[at] < 128 else _varint(raw, at)
            elif kind in (_FIXED64, _FIXED32):
                at += 8 if kind == _FIXED64 else 4
            else:
                return most + 1
    except IndexError:
        return most + 1
    return fields


def _varint(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = raw[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 70:
            return value, at
