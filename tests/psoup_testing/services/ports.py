"""A port of loopback for a service that stops and starts again.

    with KeptPort() as port:
        Serving(Settings(port=port.number))   stopped, and started again: no other process has had the port meanwhile

Tests run in many processes, and each asks the system for any free port again and again. A socket is bound to the port,
and does not listen. Linux then gives the port to no process that asks for any, and lets a service listen there.
"""

from __future__ import annotations

import socket
from types import TracebackType


class KeptPort:
    """A port that a process gets only if it asks for its `number`, until `close`."""

    def __init__(self) -> None:
        self._kept = socket.socket()
        self._kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._kept.bind(("127.0.0.1", 0))
        self.number: int = self._kept.getsockname()[1]

    def __enter__(self) -> KeptPort:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Give the port up. May be called twice."""
        self._kept.close()
