"""Messages to the service manager that started the process, systemd for instance: ready, stopping, alive.

    start ── READY=1 ──> WATCHDOG=1 … WATCHDOG=1 ──> STOPPING=1 ── drain ──> exit
                              └─ only while the event loop turns and the writer makes progress; else the manager
                                 ends the process after its WatchdogSec, and starts it anew

A message is a datagram to the socket in NOTIFY_SOCKET, as in sd_notify(3). Without that variable nothing is sent.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Mapping, MutableMapping
from typing import Self

_PARTS = 4
"""The looks at the writer in the time of the watchdog. A message is sent after each one that saw progress."""

_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID")
_log = logging.getLogger(__name__)


class WriterProgress:
    """Tells whether the writer makes progress, from the counters of the host at two times.

    It does if no event waits, or if it has applied one or installed a result since the last look.
    """

    def __init__(self, counters: Callable[[], Mapping[str, int]]) -> None:
        self._counters = counters
        self._seen: tuple[int, int] | None = None

    def look(self) -> bool:
        """Whether the writer has made progress since the last call, or has nothing to do."""
        counters = self._counters()
        done = counters["applied"], counters["installed"]
        moved, self._seen = done != self._seen, done
        return moved or counters["applied"] >= counters["sequence"]


class ServiceManager:
    """The service manager of this process. `path`: its socket, "" for none. `watchdog_s`: 0 for no watchdog."""

    def __init__(self, path: str = "", watchdog_s: float = 0.0) -> None:
        self._path = path
        self.watchdog_s = watchdog_s
        self._feeding: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, environ: MutableMapping[str, str]) -> Self:
        """The manager that variables of the environment name. The variables are removed: processes that this one
        starts must not speak for it."""
        path, watchdog, pid = (environ.pop(name, "") for name in _VARIABLES)
        for_this_process = not pid or pid == str(os.getpid())
        watchdog_s = int(watchdog) / 1e6 if for_this_process and watchdog.isascii() and watchdog.isdecimal() else 0.0
        return cls(path, watchdog_s if path else 0.0)

    def ready(self, address: str, counters: Callable[[], Mapping[str, int]]) -> None:
        """Say that calls are served, and begin to feed the watchdog. `counters`: returns the counters of the host."""
        self._tell("READY=1", f"STATUS=serving at {address}")
        if self.watchdog_s:
            self._feeding = asyncio.create_task(self._feed(WriterProgress(counters)))

    def stopping(self) -> None:
        """Say that the service drains. The watchdog is fed until `close`."""
        self._tell("STOPPING=1", "STATUS=draining")

    def close(self) -> None:
        """End the feeding of the watchdog. Idempotent."""
        if self._feeding is not None:
            self._feeding.cancel()

    async def _feed(self, writer: WriterProgress) -> None:
        fed = True
        while True:
            moved = writer.look()
            if moved:
                self._tell("WATCHDOG=1")
            elif fed:
                _log.warning("the writer makes no progress; the service manager's watchdog is not fed")
            fed = moved
            await asyncio.sleep(self.watchdog_s / _PARTS)

    def _tell(self, *lines: str) -> None:
        """Send a message. A manager that takes none is logged: the service goes on without it."""
        if not self._path:
            return
        address = "\0" + self._path[1:] if self._path.startswith("@") else self._path
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as problem:
            _log.warning("the service manager took no message", extra={"problem": problem.strerror})
