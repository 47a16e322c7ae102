"""Calls that declare a message and send a part of it, in plain HTTP/2: no client of gRPC does that.

    connection  ──  HEADERS, stream 1, 3, 5 …    POST /psoup.v1.IngestService/Push
                ──  DATA: "16 MiB follow", then less, as fast as the windows allow; never the end

Frames and their fields: RFC 9113, sections 4 and 6. Only what a sender of requests needs is understood.
"""

from __future__ import annotations

import socket
import struct
import time

_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
_ACKNOWLEDGED, _END_HEADERS = 1, 4
_INITIAL_WINDOW = 4
_FRAME = 16_384
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Stalled:
    """One connection and its unfinished calls. `pump` sends what the windows allow; it never ends a message."""

    def __init__(self, address: str, streams: int, declared: int, sent: int) -> None:
        """`sent` bytes of messages of `declared` bytes, on each of so many streams."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.settimeout(0.02)
        self._unread = b""
        self._whole, self._initial = 65_535, 65_535
        numbers = range(1, 2 * streams, 2)
        self._windows = dict.fromkeys(numbers, self._initial)
        self._left = dict.fromkeys(numbers, sent)
        self._heads = dict.fromkeys(numbers, b"\x00" + struct.pack(">I", declared))
        self._socket.sendall(_PREFACE + _frame(_SETTINGS, 0, 0))
        for number in numbers:
            self._socket.sendall(_frame(_HEADERS, _END_HEADERS, number, _request(address)))

    def pump(self) -> None:
        """One round over the streams; waits a moment if no window is open. A connection that was closed is left."""
        try:
            moved = [self._send(number) for number in list(self._left)]
            self._receive()
        except OSError:
            moved = []
            self._left.clear()
        if not any(moved):
            time.sleep(0.02)

    @property
    def left(self) -> int:
        """Bytes that are still to be sent, over all streams."""
        return sum(self._left.values())

    def close(self) -> None:
        """End the connection."""
        self._socket.close()

    def _send(self, number: int) -> bool:
        head = self._heads.get(number, b"")
        room = min(self._whole, self._windows[number], _FRAME, self._left[number])
        if room <= len(head):
            return False
        body = head + b"\x0a" * (room - len(head))
        self._heads.pop(number, None)
        self._socket.sendall(_frame(_DATA, 0, number, body))
        self._whole -= len(body)
        self._windows[number] -= len(body)
        self._left[number] -= len(body)
        return True

    def _receive(self) -> None:
        try:
            received = self._socket.recv(65_536)
        except TimeoutError:
            return
        if not received:
            raise ConnectionResetError
        self._unread += received
        while len(self._unread) >= 9:
            length = int.from_bytes(self._unread[:3], "big")
            if len(self._unread) < 9 + length:
                return
            kind, flags, number = struct.unpack(">BBI", self._unread[3:9])
            payload, self._unread = self._unread[9 : 9 + length], self._unread[9 + length :]
            self._take(kind, flags, number & 0x7FFFFFFF, payload)

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == _WINDOW_UPDATE:
            more = int.from_bytes(payload, "big") & 0x7FFFFFFF
            if number == 0:
                self._whole += more
            elif number in self._windows:
                self._windows[number] += more
        elif kind == _SETTINGS and not flags & _ACKNOWLEDGED:
            for key, value in struct.iter_unpack(">HI", payload):
                if key == _INITIAL_WINDOW:
                    self._windows = {at: window + value - self._initial for at, window in self._windows.items()}
                    self._initial = value
            self._socket.sendall(_frame(_SETTINGS, _ACKNOWLEDGED, 0))
        elif kind == _PING and not flags & _ACKNOWLEDGED:
            self._socket.sendall(_frame(_PING, _ACKNOWLEDGED, 0, payload))
        elif kind == _RESET:
            self._left.pop(number, None)
        elif kind == _GOAWAY:
            raise ConnectionResetError


def _frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", number) + payload


def _request(address: str) -> bytes:
    """The header block: literals without indexing (RFC 7541, 6.2.2), no Huffman code."""
    fields = {
        ":method": "POST",
        ":scheme": "http",
        ":path": "/psoup.v1.IngestService/Push",
        ":authority": address,
        "te": "trailers",
        "content-type": "application/grpc",
    }
    return b"".join(b"\x00" + _literal(name) + _literal(value) for name, value in fields.items())


def _literal(text: str) -> bytes:
    encoded = text.encode()
    return bytes([len(encoded)]) + encoded
