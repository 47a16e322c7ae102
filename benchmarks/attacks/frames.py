"""Frames of HTTP/2 as bytes, for attackers: what a client of gRPC would never send can be written with them.

    PREFACE + settings() + headers(1, request("IngestService/Push", address)) + data(1, message(b"...")) ...

Frames and their fields: RFC 9113, sections 4 and 6. Nothing here checks what it writes: that is the point.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

DATA, HEADERS, RESET, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
ACKNOWLEDGED, END_STREAM, END_HEADERS = 1, 1, 4
INITIAL_WINDOW = 4
"""The setting of how much may be sent of a stream that is not read."""

FRAME_BYTES = 16_384
"""Most bytes of a frame's payload, where the other side says nothing."""

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def settings(*pairs: tuple[int, int], acknowledged: bool = False) -> bytes:
    """SETTINGS, of the connection."""
    return frame(
        SETTINGS, ACKNOWLEDGED if acknowledged else 0, 0, b"".join(struct.pack(">HI", *pair) for pair in pairs)
    )


def headers(stream: int, block: bytes, flags: int = END_HEADERS) -> bytes:
    """HEADERS, the beginning of a call."""
    return frame(HEADERS, flags, stream, block)


def data(stream: int, payload: bytes, *, last: bool = True) -> bytes:
    """DATA, in one frame."""
    return frame(DATA, END_STREAM if last else 0, stream, payload)


def message(payload: bytes, declared: int | None = None) -> bytes:
    """A message of gRPC, which says of itself that it has so many bytes."""
    return b"\0" + struct.pack(">I", len(payload) if declared is None else declared) + payload


def request(method: str, address: str, *more: tuple[str, str]) -> bytes:
    """The header block of a call: literals without indexing (RFC 7541, 6.2.2), no Huffman code."""
    fields = [(":method", "POST"), (":scheme", "http"), (":path", f"/psoup.v1.{method}"), (":authority", address)]
    fields += [("te", "trailers"), ("content-type", "application/grpc"), *more]
    return b"".join(b"\0" + _literal(name) + _literal(value) for name, value in fields)


class Frames:
    """The frames in bytes that come in pieces of any size."""

    def __init__(self) -> None:
        self._unread = b""

    def take(self, received: bytes) -> list[tuple[int, int, int, bytes]]:
        """(kind, flags, stream, payload) of each frame that is complete by now."""
        self._unread += received
        complete = []
        while len(self._unread) >= 9:
            end = 9 + int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < end:
                break
            kind, flags, stream = struct.unpack(">BBI", self._unread[3:9])
            complete.append((kind, flags, stream & 0x7FFFFFFF, self._unread[9:end]))
            self._unread = self._unread[end:]
        return complete


class Windows:
    """The bytes that may be sent: of the whole connection and of each stream, as the other side grants them."""

    def __init__(self, streams: Iterable[int]) -> None:
        self._whole = self._initial = 65_535
        self._of = dict.fromkeys(streams, self._initial)

    def room(self, stream: int) -> int:
        """The most bytes that one frame of a stream may have now."""
        return min(self._whole, self._of[stream], FRAME_BYTES)

    def spend(self, stream: int, size: int) -> None:
        """Count bytes that were sent of a stream."""
        self._whole -= size
        self._of[stream] -= size

    def answer(self, kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        """Take a frame of the other side; returns the frame that acknowledges it, or nothing."""
        if kind == WINDOW_UPDATE:
            more = int.from_bytes(payload, "big") & 0x7FFFFFFF
            if not stream:
                self._whole += more
            elif stream in self._of:
                self._of[stream] += more
        elif kind == SETTINGS and not flags & ACKNOWLEDGED:
            for key, value in struct.iter_unpack(">HI", payload):
                if key == INITIAL_WINDOW:
                    self._of = {at: room + value - self._initial for at, room in self._of.items()}
                    self._initial = value
            return settings(acknowledged=True)
        elif kind == PING and not flags & ACKNOWLEDGED:
            return frame(PING, ACKNOWLEDGED, 0, payload)
        return b""


def _literal(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded
