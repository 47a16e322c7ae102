"""Calls whose message never ends, in plain HTTP/2: as much of it is sent as the service's windows allow.

with half_sent(address, "IngestService/Push", calls=20, size=1_000_000) as half:
    half.sent            bytes that went, by now
    half.ended           calls that the service has ended
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.attacks.frames import (
    END_STREAM,
    HEADERS,
    PREFACE,
    RESET,
    Frames,
    Windows,
    data,
    headers,
    message,
    request,
    settings,
)


class Half:
    """A connection with some calls; a thread sends and reads until `close`."""

    def __init__(self, address: str, method: str, calls: int, size: int, names: tuple[tuple[str, str], ...]) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._size = size
        self._left = dict.fromkeys(range(1, 2 * calls, 2), size)
        self._windows = Windows(self._left)
        self._frames = Frames()
        self._closed = threading.Event()
        self.changed = threading.Condition()
        self.sent = 0
        self.ended = 0
        head = request(method, address, *names)
        self._socket.sendall(PREFACE + settings())
        for stream in self._left:
            self._socket.sendall(headers(stream, head))
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
                received = self._socket.recv(65_536)
                if not received:
                    return
                for taken in self._frames.take(received):
                    self._take(*taken)
        except OSError:
            return

    def _send(self) -> None:
        for stream, left in list(self._left.items()):
            head = message(b"", self._size + 1_000) if left == self._size else b""
            room = min(self._windows.room(stream), left + len(head))
            while room > len(head) and self._left.get(stream):
                self._socket.sendall(data(stream, head + b"\x0a" * (room - len(head)), last=False))
                self._windows.spend(stream, room)
                self._left[stream] -= room - len(head)
                with self.changed:
                    self.sent += room
                    self.changed.notify_all()
                head = b""
                room = min(self._windows.room(stream), self._left[stream])

    def _take(self, kind: int, flags: int, stream: int, content: bytes) -> None:
        if answer := self._windows.answer(kind, flags, stream, content):
            self._socket.sendall(answer)
        elif (kind == RESET or (kind == HEADERS and flags & END_STREAM)) and self._left.pop(stream, None) is not None:
            with self.changed:
                self.ended += 1
                self.changed.notify_all()


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
