"""A TCP proxy that cuts connections: each after so many bytes of one direction, the last ones never."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass


@dataclass(frozen=True)
class Cut:
    """Close a connection after `bytes` that went to the service (`up`) or came from it."""

    bytes: int
    up: bool


class CuttingProxy:
    """Listens at `address` and forwards to `target`; connection n is cut as `cuts[n]` says, later ones are not."""

    def __init__(self, target: str, cuts: Sequence[Cut]) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._cuts = list(cuts)
        self._open: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections = 0
        self.silent = False
        """Whether what comes is lost, with the connections open: as if a cable was pulled."""
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            cut = self._cuts[self.connections] if self.connections < len(self._cuts) else None
            self.connections += 1
            far = socket.create_connection(self._target)
            self._open += [near, far]
            for source, sink, up in ((near, far, True), (far, near, False)):
                limit = cut.bytes if cut is not None and cut.up == up else None
                threading.Thread(target=self._forward, args=(source, sink, limit), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, limit: int | None) -> None:
        left = limit
        with suppress(OSError):
            while left is None or left > 0:
                data = source.recv(65_536 if left is None else min(65_536, left))
                if not data:
                    break
                if self.silent:
                    continue
                sink.sendall(data)
                left = None if left is None else left - len(data)
        for end in (source, sink):
            with_reset(end)

    def close(self) -> None:
        """Cut everything."""
        self._listener.close()
        for end in self._open:
            with_reset(end)
            end.close()


def with_reset(end: socket.socket) -> None:
    """Wake the threads that read or write this socket."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def cutting(target: str, cuts: Sequence[Cut]) -> Iterator[CuttingProxy]:
    """A `CuttingProxy` for a `with` statement."""
    proxy = CuttingProxy(target, cuts)
    try:
        yield proxy
    finally:
        proxy.close()
