"""Connections of pages: uvicorn's HTTP/1.1 protocol, which also closes idle and abandoned connections.

    made ─> head of a request, within `handshake_s` ─> call ─> idle for `IDLE_S` at most ─> head …
      └── too many: cut                                  └── the page leaves: the call is cancelled

Of uvicorn only this protocol is used, with h11 below it, which refuses bytes that are not HTTP. uvicorn's server is not
used, because it takes the signals of the process and wakes up ten times a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from starlette.types import Scope
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from psoup_service.gate.client_sockets import bounded_by_files, certificate_of, notice_vanished

HEAD_BYTES = 16 * 1024
"""The most bytes of a request's head."""

IDLE_S = 75
"""Seconds for which a page may keep a connection without a call."""

MOST_CONNECTIONS = 4_096
"""The most connections at once. A browser opens up to six for a page."""

_quiet = logging.getLogger(f"{__name__}.uvicorn")
_quiet.setLevel(logging.CRITICAL)
_quiet.propagate = False


class PageConnection(H11Protocol):
    """A connection. `peer`: its name. `names`: names in the client's certificate. `ends`: the certificate's end in
    microseconds since 1970. `lost`: the connection has ended.
    """

    def __init__(self, config: Config, state: ServerState, head_s: float, limit: int) -> None:
        """`head_s`: seconds for the head of a request. `limit`: the most connections at once, over all pages."""
        super().__init__(config, state, {"connection": self}, asyncio.get_running_loop())
        self.logger = _quiet
        self.access_log = False
        self.peer = "http:"
        self.address = ""
        self.names: tuple[str, ...] = ()
        self.ends = 0
        self.lost = False
        self._head_s = head_s
        self._most = limit
        self._timer: asyncio.TimerHandle | None = None
        self._call: asyncio.Task[Any] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        if len(self.connections) > self._most:
            transport.abort()
            return
        self.address, port = self.client or ("", 0)
        self.peer = f"http:{self.address}:{port}"
        self.names, self.ends = certificate_of(transport.get_extra_info("ssl_object"))
        notice_vanished(transport.get_extra_info("socket"))
        self._wait_for_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the call of the page that has left."""
        self.lost = True
        self._stop_waiting()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        if self._call is not None:
            self._call.cancel()

    def data_received(self, data: bytes) -> None:
        """Take bytes. A head must be complete within `head_s` seconds, else the connection is cut."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_waiting()
        elif self._timer is None and not self.transport.is_closing():
            self._wait_for_head()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a call.

        Cut it after `head_s` more seconds, if the page has not read all replies.
        """
        super().timeout_keep_alive_handler()
        self.loop.call_later(self._head_s, self.abort)

    def abort(self) -> None:
        """Cut the connection. Bytes that wait to be sent are lost."""
        self.transport.abort()

    @contextmanager
    def calling(self) -> Iterator[None]:
        """A context in which the current task is the call of this connection.

        The end of the connection cancels the task. This context then ends without an error.
        """
        self._call = asyncio.current_task()
        try:
            yield
        except asyncio.CancelledError:
            if not self.lost:
                raise
        finally:
            self._call = None

    @asynccontextmanager
    async def replying(self, seconds: float) -> AsyncIterator[None]:
        """A context for the end of a reply. Cuts the connection if the client does not read it within `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError:
            self.abort()

    def _wait_for_head(self) -> None:
        self._timer = self.loop.call_later(self._head_s, self.abort)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def most_connections() -> int:
    """The most connections of pages."""
    return bounded_by_files(MOST_CONNECTIONS)


def connection_of(scope: Scope) -> PageConnection:
    """The connection of a request."""
    connection: PageConnection = scope["state"]["connection"]
    return connection
