"""Calls whose message never ends, in plain HTTP/2: as much of it is sent as the service's windows allow.

with half_sent(address, "IngestService/Push", calls=20, size=1_000_000) as half:
    half.sent            bytes that went, by now
    half.ended           calls that the service has ended
"""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_FRAME = 16_384
_DATA, _HEADERS, _RESET, _SETTINGS, _PING, _GOAWAY, _WINDOW = 0, 1, 3, 4, 6, 7, 8
_WINDOW_SETTING = 4


class Half:
    """One connection with some calls; a thread sends and reads until `close`."""

    def __init__(self, address: str, method: str, calls: int, size: int, names: tuple[tuple[str, str], ...]) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._size = size
        self._room, self._initial = 65_535, 65_535
        self._rooms = {2 * number + 1: self._initial for number in range(calls)}
        self._left = dict.fromkeys(self._rooms, size)
        self._unread = b""
        self._closed = threading.Event()
        self.changed = threading.Condition()
        self.sent = 0
        self.ended = 0
        pairs = [(":method", "POST"), (":scheme", "http"), (":path", f"/psoup.v1.{method}"), (":authority", address)]
        pairs += [("te", "trailers"), ("content-type", "application/grpc"), *names]
        head = b"".join(_literal(name, value) for name, value in pairs)
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + _frame(_SETTINGS, 0, 0))
        for stream in self._rooms:
            self._socket.sendall(_frame(_HEADERS, 4, stream, head))
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def wait_ended(self, calls: int, timeout: float) -> bool:
        """Whether so many calls were ended by the service within `timeout` seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: self.ended >= calls, timeout)

    def wait_sent(self, size: int, timeout: float) -> bool:
        """Whether so many bytes could be sent within `timeout` seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: self.sent >= size, timeout)

    def close(self) -> None:
        """Cut the connection."""
        self._closed.set()
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()

    def _run(self) -> None:
        try:
            while not self._closed.is_set():
                self._send()
                data = self._socket.recv(65_536)
                if not data:
                    return
                self._unread += data
                self._read()
        except OSError:
            return

    def _send(self) -> None:
        for stream, left in list(self._left.items()):
            head = b"\0" + struct.pack(">I", self._size + 1_000) if left == self._size else b""
            room = min(self._room, self._rooms[stream], _FRAME, left + len(head))
            while room > len(head) and self._left.get(stream):
                self._socket.sendall(_frame(_DATA, 0, stream, head + b"\x0a" * (room - len(head))))
                self._room -= room
                self._rooms[stream] -= room
                self._left[stream] -= room - len(head)
                with self.changed:
                    self.sent += room
                    self.changed.notify_all()
                head = b""
                room = min(self._room, self._rooms[stream], _FRAME, self._left[stream])

    def _read(self) -> None:
        while len(self._unread) >= 9:
            size, kind, flags = int.from_bytes(self._unread[:3], "big"), self._unread[3], self._unread[4]
            stream = int.from_bytes(self._unread[5:9], "big") & 0x7FFFFFFF
            if len(self._unread) < 9 + size:
                return
            content, self._unread = self._unread[9 : 9 + size], self._unread[9 + size :]
            self._take(kind, flags, stream, content)

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if kind == _WINDOW and stream:
            self._rooms[stream] += int.from_bytes(content, "big")
        elif kind == _WINDOW:
            self._room += int.from_bytes(content, "big")
        elif kind == _SETTINGS and not flags & 1:
            for at in range(0, len(content), 6):
                name, value = struct.unpack(">HI", content[at : at + 6])
                if name == _WINDOW_SETTING:
                    self._rooms = {stream: room + value - self._initial for stream, room in self._rooms.items()}
                    self._initial = value
            self._socket.sendall(_frame(_SETTINGS, 1, 0))
        elif kind == _PING and not flags & 1:
            self._socket.sendall(_frame(_PING, 1, 0, content))
        elif (kind == _RESET or (kind == _HEADERS and flags & 1)) and self._left.pop(stream, None) is not None:
            with self.changed:
                self.ended += 1
                self.changed.notify_all()


def _frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return struct.pack(">I", len(content))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + content


def _literal(name: str, value: str) -> bytes:
    raw, said = name.encode(), value.encode()
    return b"\0" + bytes([len(raw)]) + raw + bytes([len(said)]) + said


@contextmanager
def half_sent(
    address: str, method: str, *, calls: int, size: int, names: tuple[tuple[str, str], ...] = ()
) -> Iterator[Half]:
    """A `Half` for a `with` statement."""
    half = Half(address, method, calls, size, names)
    try:
        yield half
    finally:
        half.close()
