"""Calls that declare a message and send a part of it, in plain HTTP/2: no client of gRPC does that.

    connection  ──  HEADERS, stream 1, 3, 5 …    POST /psoup.v1.IngestService/Push
                ──  DATA: "16 MiB follow", then less, as fast as the windows allow; never the end

Only what a sender of requests needs is understood of what comes back (`benchmarks.attacks.frames`).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence

from benchmarks.attacks.frames import GOAWAY, PREFACE, RESET, Frames, Windows, data, headers, message, request, settings


class Stalled:
    """A connection and its unfinished calls. `pump` sends as much as the windows allow; it never ends a message."""

    def __init__(
        self, address: str, names: Sequence[tuple[str, str]] = (), *, streams: int, declared: int, sent: int
    ) -> None:
        """`sent` bytes of messages of `declared` bytes, on each of so many streams. `names`: their metadata."""
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.settimeout(0.02)
        self._frames = Frames()
        numbers = range(1, 2 * streams, 2)
        self._windows = Windows(numbers)
        self._left = dict.fromkeys(numbers, sent)
        self._heads = dict.fromkeys(numbers, message(b"", declared))
        self._socket.sendall(PREFACE + settings())
        for number in numbers:
            self._socket.sendall(headers(number, request("IngestService/Push", address, *names)))

    def pump(self) -> None:
        """Send a round over the streams; wait a moment if no window is open. A closed connection is left."""
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
        room = min(self._windows.room(number), self._left[number])
        if room <= len(head):
            return False
        body = head + b"\x0a" * (room - len(head))
        self._heads.pop(number, None)
        self._socket.sendall(data(number, body, last=False))
        self._windows.spend(number, len(body))
        self._left[number] -= len(body)
        return True

    def _receive(self) -> None:
        try:
            received = self._socket.recv(65_536)
        except TimeoutError:
            return
        if not received:
            raise ConnectionResetError
        for kind, flags, number, payload in self._frames.take(received):
            self._take(kind, flags, number, payload)

    def _take(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        if kind == GOAWAY:
            raise ConnectionResetError
        if kind == RESET:
            self._left.pop(number, None)
        elif answer := self._windows.answer(kind, flags, number, payload):
            self._socket.sendall(answer)
